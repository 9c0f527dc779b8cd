"""Which past occurrences of a job a backfill would run, and how far one has come."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.model.ids import origin_of
from evertick.model.instant import Instant, to_datetime
from evertick.model.job import Job
from evertick.model.ledger import Request, RequestKind, bucket_of
from evertick.model.lifecycle import OPEN, SKIPPED, SUCCEEDED, TERMINAL, RunState, Trigger
from evertick.model.policy import Overlap, OverlapKind
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import ScheduleSpec
from evertick.operations.jobs import specs_of, watermark_of
from evertick.operations.requests import cancel_request
from evertick.operations.results.requests import ExcludedRange
from evertick.operations.submission import find_record
from evertick.planning.schedules import compile_all, count_of, excluded_of, next_of, occurrences
from evertick.store import RunFilter, Store, every_line

BACKFILL_MAX = 10_000
"""Occurrences of one request: it is one line in the ledger, and one lane of the loop."""


class Candidate(NamedTuple):
    """An occurrence of the window, and whether it would run."""

    at: Instant
    is_chosen: bool
    why: str


def plan_backfill(
    store: Store,
    job_id: str,
    jobs: Mapping[str, Job],
    start: Instant,
    end: Instant,
    now: Instant,
    *,
    only_missing: bool,
) -> list[Candidate]:
    """The occurrences from `start` up to and without `end`, under the schedule as it is now.

    An occurrence is missing unless a run for it succeeded or has not ended. What is not due yet never runs; what
    no scheduler has decided yet is left to its catch-up, unless all are wanted.
    """
    record = find_record(store, job_id, jobs)
    if start >= end:
        raise InvalidArgument(
            "the end of the backfill is not after its start.", hint="Write a later end; it is exclusive."
        )
    schedules = compile_all(specs_of(store, job_id, jobs))
    if not schedules:
        raise Conflict(f"job '{job_id}' has no schedule, so it has no past occurrences. Next: trigger it")
    count = count_of(schedules, start - 1, end - 1)
    if count > BACKFILL_MAX:
        raise InvalidArgument(
            f"the job has {count:,} occurrences in that range; a backfill runs at most {BACKFILL_MAX:,}.",
            hint="Split it into several.",
        )
    watermark = watermark_of(record, store.load([bucket_of(job_id)]).floors)
    lines = _lines(store, job_id, start, end)
    instants = occurrences(schedules, start - 1, end - 1)
    return [_judge(at, lines.at(at), now, watermark, only_missing=only_missing) for at in instants]


def excluded_range(specs: Iterable[ScheduleSpec], start: Instant, end: Instant) -> ExcludedRange | None:
    """The occurrences from `start` up to and without `end` that the calendar of the job excludes."""
    excluded = excluded_of(compile_all(specs))
    first = next_of(excluded, start - 1)
    if first is None or first >= end:
        return None
    calendars = dict.fromkeys(name for one in excluded for name in one.calendars(start - 1, end - 1))
    why = excluded[0].exclusion(first)
    moved_to = None if why is None or why.moved_to is None else to_datetime(why.moved_to)
    return ExcludedRange(tuple(calendars), count_of(excluded, start - 1, end - 1), moved_to)


def _judge(
    at: Instant, lines: list[LedgerRow], now: Instant, watermark: Instant | None, *, only_missing: bool
) -> Candidate:
    if at > now:
        return Candidate(at, False, "not due yet")
    if not only_missing:
        return Candidate(at, True, _told(lines) or "not in the ledger")
    for row in lines:
        if row.state is SUCCEEDED or row.state in OPEN:
            return Candidate(at, False, f"{row.state} ({row.trigger})")
    if not lines and watermark is not None and at > watermark:
        return Candidate(at, False, "not decided yet; the scheduler will decide it")
    return Candidate(at, True, _told(lines) or "not in the ledger")


def _told(lines: list[LedgerRow]) -> str:
    return ", ".join(f"{row.state}: {row.reason}" if row.state is SKIPPED else str(row.state) for row in lines)


@dataclass(frozen=True, slots=True)
class _Lines:
    single: Mapping[Instant, list[LedgerRow]]
    gaps: list[LedgerRow]

    def at(self, at: Instant) -> list[LedgerRow]:
        inside = [gap for gap in self.gaps if gap.key.scheduled_for <= at <= (gap.through or 0)]
        return [*self.single.get(at, ()), *inside]


def _lines(store: Store, job_id: str, start: Instant, end: Instant) -> _Lines:
    single: dict[Instant, list[LedgerRow]] = defaultdict(list)
    gaps = []
    for row in every_line(store, RunFilter(job_ids=[job_id], since=start, until=end, oldest_first=True)):
        if row.through is not None:
            gaps.append(row)
        else:
            single[row.key.scheduled_for].append(row)
    return _Lines(single, gaps)


def read_overlap(text: str) -> Overlap:
    """`wait`, or `parallel(3)`: a backfill runs everything it was asked for, so nothing else fits."""
    if text == "wait":
        return Overlap(OverlapKind.WAIT)
    number = text.removeprefix("parallel(").removesuffix(")")
    if text == f"parallel({number})" and number.isascii() and number.isdigit() and 1 <= int(number) <= 1_000:
        return Overlap(OverlapKind.PARALLEL, int(number))
    raise InvalidArgument(f"invalid overlap '{text}' for a backfill.", hint="Write wait, or parallel(3).")


@dataclass(frozen=True, slots=True)
class Progress:
    total: int
    states: Mapping[RunState, int]

    @property
    def ended(self) -> int:
        return sum(count for state, count in self.states.items() if state in TERMINAL)

    @property
    def is_over(self) -> bool:
        return self.ended >= self.total

    @property
    def succeeded(self) -> int:
        return self.states.get(SUCCEEDED, 0)


def progress_of(store: Store, request: Request) -> Progress:
    """How far a backfill has come."""
    instants = json.loads(request.payload)["instants"]
    return Progress(len(instants), Counter(row.state for row in _runs_of(store, request)))


def find_backfill(store: Store, job_id: str, request_id: str) -> Request:
    found = store.requests([request_id])
    if not found or found[0].kind is not RequestKind.BACKFILL or found[0].job_id != job_id:
        raise NotFound(f"job '{job_id}' has no backfill '{request_id}'. Next: look for it in the history of the job")
    return found[0]


def cancel_requests(store: Store, backfill: Request, request_id: str, now: Instant, *, by: str = "") -> list[Request]:
    """A request for each of its runs that has not ended, those that wait first, so that none of them starts."""
    if backfill.answer is None:
        # No node has claimed it yet: it will, and then this is next in line.
        keys = [RunKey(backfill.job_id, at, origin_of(backfill.id)) for at in json.loads(backfill.payload)["instants"]]
    else:
        keys = [row.key for row in _runs_of(store, backfill) if row.state in OPEN]
    keys.sort(key=lambda key: -key.scheduled_for)
    return [
        cancel_request(f"{request_id}-{number:05}", backfill.job_id, now, run_id=key.run_id, by=by)
        for number, key in enumerate(keys)
    ]


def _runs_of(store: Store, request: Request) -> list[LedgerRow]:
    instants = json.loads(request.payload)["instants"]
    if not instants:
        return []
    where = RunFilter(
        job_ids=[request.job_id], triggers=[Trigger.BACKFILL], since=min(instants), until=max(instants) + 1
    )
    return [row for row in every_line(store, where) if row.key.origin in (request.id, origin_of(request.id))]

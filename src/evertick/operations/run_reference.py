"""Which run a text names: its id, a beginning of its id that no other run shares, or a job, for its latest run."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice

from evertick.errors import InvalidArgument, NotFound
from evertick.model.instant import SECOND, Instant, from_datetime
from evertick.model.job import Job
from evertick.model.lifecycle import PLANNED, SKIPPED, WAITING, RunState
from evertick.model.run import LedgerRow
from evertick.operations.submission import find_run, is_known, no_such_job, read_run_id
from evertick.store import RunFilter, Store

CANDIDATES_MAX = 5
"""Runs that are listed if several match."""
_STARTED = tuple(state for state in RunState if state not in (PLANNED, WAITING, SKIPPED))
_BEGINNING = re.compile(
    r"(\d{0,4})(?:-(\d{0,2}))?(?:-(\d{0,2}))?(?:T(\d{0,2}))?(?::(\d{0,2}))?(?::(\d{0,2}))?(?:\.(\d{0,6}))?(Z?)",
    re.ASCII,
)
_LENGTHS = (4, 2, 2, 2, 2, 2)
_LEAST, _MOST = (1970, 1, 1, 0, 0, 0), (2199, 12, 31, 23, 59, 59)


def find_referenced(store: Store, text: str, jobs: Mapping[str, Job], now: Instant) -> LedgerRow:
    """The run that the reference names; `NotFound` lists the candidates if there are several."""
    if "@" not in text:
        return _of_job(store, text, jobs, now)
    try:
        row = find_run(store, read_run_id(text))
    except InvalidArgument:
        if _span_of(text) is None:
            raise  # no id begins so
        row = None
    job_id = text.partition("@")[0]
    if row is None and not is_known(store, job_id, jobs):
        raise no_such_job(job_id, _known_jobs(store, jobs))
    return row or _only(text, _beginning_with(store, text, [job_id]), store)


def latest_run(store: Store, job_id: str, now: Instant) -> LedgerRow | None:
    """The newest started run of a job; if there is none, its newest entry that is due."""
    for states in (_STARTED, ()):
        for row in store.query(RunFilter(job_ids=[job_id], states=states, until=now + 1), limit=1).rows:
            return row
    return None


def _of_job(store: Store, text: str, jobs: Mapping[str, Job], now: Instant) -> LedgerRow:
    if is_known(store, text, jobs):
        row = latest_run(store, text, now)
        if row is None:
            raise NotFound(f"'{text}' has no runs yet. Next: trigger it")
        return row
    names = _known_jobs(store, jobs)
    begun = sorted(name for name in names if name.startswith(text))
    if not text or not begun:
        raise no_such_job(text, names)
    return _only(text, _beginning_with(store, text, begun), store)


def _known_jobs(store: Store, jobs: Mapping[str, Job]) -> set[str]:
    return {*jobs, *(record.job_id for record in store.load().jobs)}


def _only(text: str, found: Iterable[LedgerRow], store: Store) -> LedgerRow:
    rows = list(islice(found, CANDIDATES_MAX + 1))
    if len(rows) == 1:
        return rows[0]
    named = tuple(row.key.run_id for row in rows[:CANDIDATES_MAX])
    if not rows:
        near = store.query(RunFilter(job_ids=[text.partition("@")[0]]), limit=3).rows
        raise NotFound(f"unknown run '{text}'.", tuple(row.key.run_id for row in near))
    more = "; the newest are shown" if len(rows) > CANDIDATES_MAX else ""
    raise NotFound(f"'{text}' matches several runs{more}. Write more of the id.", named)


def _beginning_with(store: Store, text: str, job_ids: Iterable[str]) -> Iterable[LedgerRow]:
    """The runs of these jobs whose id begins with the text, newest first within a job."""
    span = _span_of(text)
    if span is None:
        return
    for job_id in job_ids:
        # Only an id that names the request can be that of an item.
        has_origin = "~" in text
        where, mark = RunFilter(job_ids=[job_id], since=span[0], until=span[1], with_items=has_origin), None
        while True:
            page = store.query(where, mark, 100)
            yield from (row for row in page.rows if row.key.run_id.startswith(text))
            mark = page.after
            if mark is None:
                break


def _span_of(text: str) -> tuple[Instant | None, Instant | None] | None:
    """The range of instants (end exclusive) that a beginning of an id may name; None: no id begins so."""
    job_id, at, rest = text.partition("@")
    if not at:
        return None, None
    found = _BEGINNING.fullmatch(rest.partition("~")[0]) if job_id else None
    if found is None:
        return None
    least: list[int] = []
    most: list[int] = []
    for part, length, low, high in zip(found.groups()[:6], _LENGTHS, _LEAST, _MOST, strict=True):
        digits = part or ""
        lowest, highest = int(digits.ljust(length, "0")), int(digits.ljust(length, "9"))
        if len(most) == 2 and most[0] == least[0] and most[1] == least[1]:
            high = monthrange(most[0], most[1])[1]
        least.append(max(lowest, low))
        most.append(min(highest, high))
        if least[-1] > most[-1]:
            return None
    most[2] = min(most[2], monthrange(most[0], most[1])[1])
    return _instant(least), _instant(most) + SECOND


def _instant(parts: list[int]) -> Instant:
    year, month, day, hour, minute, second = parts
    return from_datetime(datetime(year, month, day, hour, minute, second, tzinfo=UTC))

"""What a node reads from the ledger: its jobs when it gains their buckets, and what the loop asks for later."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from evertick.loop.effects import Audit, LookUpOutcomes, LookUpStops
from evertick.loop.messages import (
    BlackoutsSeen,
    BucketsGained,
    Message,
    OpenRunsSeen,
    OutcomesSeen,
    PlacementsSeen,
    StopsSeen,
    StopWanted,
    SubRunFound,
    SubRunsSeen,
)
from evertick.model.blackout import read_blackouts
from evertick.model.facts import read_facts
from evertick.model.instant import Instant
from evertick.model.lifecycle import CANCELLED, FAILED, LAUNCHING, LOST, OPEN, RUNNING, SUCCEEDED, TIMED_OUT
from evertick.model.run import LedgerRow, RunKey
from evertick.routing.strategies import HISTORY
from evertick.store import Ledger, RunFilter, every_line, find_line

JOBS_TOGETHER = 500
"""Jobs named in one query."""


def read_gained(store: Ledger, epochs: Mapping[int, int], buckets: Collection[int] | None = None) -> BucketsGained:
    snapshot = store.load(buckets)
    known = [record.job_id for record in snapshot.jobs if record.retired_at is None]
    newest = store.newest(known)
    failures = frozenset(job_id for job_id, rows in newest.items() if rows[0].state in (FAILED, TIMED_OUT, LOST))
    return BucketsGained(epochs, snapshot, _last_successes(store, newest), failures)


class BlackoutReader:
    """Reads the blackouts that were added at run time; reports them when they have changed."""

    def __init__(self) -> None:
        self._texts: Mapping[str, str] | None = None

    def read(self, store: Ledger) -> list[Message]:
        texts = store.blackouts()
        if texts == self._texts:
            return []
        self._texts = texts
        return [BlackoutsSeen(read_blackouts(texts.values()))]


def _last_successes(store: Ledger, newest: Mapping[str, Sequence[LedgerRow]]) -> dict[str, Instant]:
    """When the newest successful run of each job was due, if no run has failed since.

    A job's own row has this as of the last failure: it is not rewritten for every success.
    """
    found = {}
    for job_id, rows in newest.items():
        if rows[0].state is CANCELLED:
            rows = store.query(RunFilter(job_ids=[job_id], states=[SUCCEEDED]), limit=1).rows
        if rows and rows[0].state is SUCCEEDED:
            found[job_id] = rows[0].key.scheduled_for
    return found


def look_up(store: Ledger, keys: Sequence[RunKey]) -> list[Message]:
    """Their lines, and how the requests for them were answered."""
    answers = {request.id: request.answer or "" for request in store.requests([key.origin for key in keys])}
    return [SubRunsSeen([SubRunFound(key, answers.get(key.origin), find_line(store, key)) for key in keys])]


def outcomes(store: Ledger, asked: LookUpOutcomes) -> list[Message]:
    """Which of the jobs failed last; one that has never run has not."""
    newest = store.newest(asked.job_ids)
    failed = frozenset(job_id for job_id, rows in newest.items() if rows and rows[0].state in (FAILED, TIMED_OUT, LOST))
    return [OutcomesSeen(asked.key, failed)]


def stops(store: Ledger, asked: LookUpStops) -> list[Message]:
    """Which of the runs their node must end."""
    keys = frozenset(asked.keys)
    found = [
        StopWanted(row.key, row.attempt, detail)
        for row in _active_rows(store, asked)
        if row.key in keys and (detail := read_facts(row.facts).stop)
    ]
    return [StopsSeen(found)]


def _active_rows(store: Ledger, asked: LookUpStops) -> Iterator[LedgerRow]:
    """The active runs of these jobs on the executor; a query for each run would hold up the writer."""
    job_ids = sorted({key.job_id for key in asked.keys})
    for first in range(0, len(job_ids), JOBS_TOGETHER):
        names = job_ids[first : first + JOBS_TOGETHER]
        where = RunFilter(job_ids=names, states=(LAUNCHING, RUNNING), executors=(asked.executor,), with_items=True)
        yield from every_line(store, where)


def open_runs(store: Ledger, audit: Audit) -> list[Message]:
    """The next open entries that are overdue."""
    where = RunFilter(states=OPEN, until=audit.until, oldest_first=True, with_items=True)
    page = store.query(where, audit.after, audit.limit)
    return [OpenRunsSeen(audit.number, page.rows, page.after)]


def recall(store: Ledger, job_id: str) -> Message:
    """Where the job ran last, by the ledger."""
    rows = store.query(RunFilter(job_ids=[job_id], with_items=True), limit=HISTORY).rows
    return PlacementsSeen(job_id, [row.executor for row in reversed(rows) if row.executor])

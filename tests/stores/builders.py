"""Builders for the store tests, which mention only what a test is about."""

from __future__ import annotations

from functools import cache
from itertools import count
from typing import Any

from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, Instant, from_text
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import PLANNED, SKIPPED, RunState, SkipReason, Trigger
from evertick.model.run import Change, Entry, LedgerRow, RunKey
from evertick.store import Batch, Request, RequestKind, RunFilter, Store

NINE = from_text("2026-03-02T09:00:00Z")
TEN = NINE + HOUR
ELEVEN = NINE + 2 * HOUR
NOON = NINE + 3 * HOUR
EVERYTHING = RunFilter(oldest_first=True)

__all__ = ["DAY", "ELEVEN", "EVERYTHING", "HOUR", "MINUTE", "NINE", "NOON", "SECOND", "TEN"]


@cache
def job_in(bucket: int, number: int = 0) -> str:
    """The name of a job that hashes into this bucket."""
    names = (f"job-{n}" for n in count())
    found = (name for name in names if bucket_of(name) == bucket)
    for _ in range(number):
        next(found)
    return next(found)


def lease_of(bucket: int) -> str:
    return f"bucket:{bucket}"


def occurrence(at: Instant = NINE, job: str = "report") -> RunKey:
    return RunKey(job, at)


def requested(at: Instant = NINE, job: str = "report", origin: str = "r1") -> RunKey:
    return RunKey(job, at, origin)


def planned(key: RunKey, state: RunState = PLANNED, trigger: Trigger = Trigger.SCHEDULER, **known: Any) -> Entry:
    return Entry(key, state, trigger, decided_at=key.scheduled_for - 5 * SECOND)._replace(**known)


def skipped(key: RunKey, reason: SkipReason = SkipReason.MISSED) -> Entry:
    return planned(key, SKIPPED, reason=reason)


def gap(first: Instant, last: Instant, occurrences: int, job: str = "report", **known: Any) -> Entry:
    stretch = planned(RunKey(job, first), SKIPPED, reason=SkipReason.CAP, through=last, occurrences=occurrences)
    return stretch._replace(**known)


def asked(
    request_id: str = "r1", job: str = "report", at: Instant = NINE, kind: RequestKind = RequestKind.TRIGGER
) -> Request:
    return Request(request_id, kind, job, payload='{"by": "hand"}', submitted_at=at, submitted_by="ann")


def became(key: RunKey, state: RunState, at: Instant | None = None, **known: Any) -> Change:
    return Change(key, state, at=key.scheduled_for if at is None else at)._replace(**known)


def enter(store: Store, *entries: Entry, by: str = "node-1") -> frozenset[RunKey]:
    """Commit these entries; answers the refused ones."""
    return store.commit(Batch(by=by, entries=entries)).refused


def rows(store: Store, where: RunFilter = EVERYTHING) -> list[LedgerRow]:
    return list(store.query(where, limit=100_000).rows)


def row(store: Store, key: RunKey) -> LedgerRow:
    (found,) = [line for line in rows(store, RunFilter(job_ids=[key.job_id])) if line.key == key]
    return found


def keys(store: Store, where: RunFilter = EVERYTHING) -> list[RunKey]:
    return [line.key for line in rows(store, where)]

"""Verifies that the ledger holds every occurrence exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.run import LedgerRow
from evertick.planning.stuck import stuck_entries
from evertick.planning.verify import Report, verify_ledger
from evertick.store import RunFilter, Store

PAGE = 10_000
_NONE: Mapping[str, Job] = MappingProxyType({})


def verify(store: Store, definitions: Mapping[str, Job] = _NONE, now: Instant | None = None) -> Report:
    """Prove from the ledger that no occurrence was lost and none decided twice; given the time, that none is stuck."""
    snapshot = store.load()
    rows = list(every_line(store, RunFilter(occurrences_only=True, oldest_first=True)))
    report = verify_ledger(store.schedules(), snapshot.jobs, snapshot.floors, rows)
    if now is None:
        return report
    return replace(report, stuck=stuck_entries(snapshot.open_runs, snapshot.jobs, snapshot.floors, definitions, now))


def every_line(store: Store, where: RunFilter, page: int = PAGE) -> Iterator[LedgerRow]:
    """All lines of a filter, page by page."""
    after = None
    while True:
        found = store.query(where, after, page)
        yield from found.rows
        if found.after is None:
            return
        after = found.after

"""Does the ledger hold every occurrence, once?"""

from __future__ import annotations

from collections.abc import Iterator

from evertick.model.run import LedgerRow
from evertick.planning.verify import Report, verify_ledger
from evertick.store import RunFilter, Store

PAGE = 10_000


def verify(store: Store) -> Report:
    """Prove from the ledger alone that no occurrence was lost and none decided twice."""
    snapshot = store.load()
    rows = list(every_line(store, RunFilter(occurrences_only=True, oldest_first=True)))
    return verify_ledger(store.schedules(), snapshot.jobs, snapshot.floors, rows)


def every_line(store: Store, where: RunFilter, page: int = PAGE) -> Iterator[LedgerRow]:
    """All lines of a filter, page by page."""
    after = None
    while True:
        found = store.query(where, after, page)
        yield from found.rows
        if found.after is None:
            return
        after = found.after

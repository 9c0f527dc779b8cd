"""What must hold after any fault, read from the ledger and from the executors' own files."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path

from evertick.loop.fire import FENCE_BITS
from evertick.model.lifecycle import ACTIVE, OPEN, WAITING
from evertick.model.run import LedgerRow
from evertick.operations.verification import verify_store
from evertick.planning.verify import Report
from evertick.store import RunFilter
from evertick.stores import open_store
from tests.disk_executor import Launched, launches_in


def verified(url: str) -> Report:
    """The ledger's own proof; fails with what it found."""
    with closing(open_store(url)) as store:
        report = verify_store(store)
    assert report.lost == ()
    assert report.duplicates == ()
    assert report.is_sound
    return report


def rows_of(url: str) -> list[LedgerRow]:
    with closing(open_store(url)) as store:
        return list(store.query(RunFilter(oldest_first=True), limit=10_000_000).rows)


def launches_of(*files: Path) -> list[Launched]:
    """Every start by any of these executors, in the order of time."""
    return sorted((one for file in files for one in launches_in(file)), key=lambda one: one.at)


def started_twice(launches: list[Launched]) -> list[tuple[str, int]]:
    """Attempts that were started more than once."""
    counted = Counter((one.run_id, one.attempt) for one in launches)
    return [attempt for attempt, times in counted.items() if times > 1]


def launched_behind_an_owner(launches: list[Launched]) -> list[Launched]:
    """Starts under an epoch that was over: somebody with a newer one had started a run of the same job before."""
    newest: defaultdict[str, int] = defaultdict(int)
    found = []
    for one in launches:
        job, epoch = one.run_id.partition("@")[0], one.fence >> FENCE_BITS
        if epoch < newest[job]:
            found.append(one)
        newest[job] = max(newest[job], epoch)
    return found


def left_behind(rows: list[LedgerRow], launches: list[Launched]) -> list[str]:
    """Runs that came due before the last start and have not ended."""
    end = launches[-1].at
    return [f"{row.key.run_id} is {row.state}" for row in rows if row.state in OPEN and row.key.scheduled_for <= end]


def unfinished(rows: list[LedgerRow]) -> list[str]:
    """Runs that were started, or kept waiting, and have not ended."""
    return [f"{row.key.run_id} is {row.state} on {row.executor}" for row in rows if row.state in {*ACTIVE, WAITING}]


def unknown_to_the_ledger(rows: list[LedgerRow], launches: list[Launched]) -> list[str]:
    known = {row.key.run_id for row in rows}
    return [one.run_id for one in launches if one.run_id not in known]

"""The lease on the runs of this node's machine: until when no other node may start them.

The ledger has the lease; the executors end their runs before it is over, whatever happens to this process. They learn
only of a renewal that the ledger has answered, counted from when it was requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from evertick.errors import StoreUnavailable
from evertick.model.instant import SECOND, Instant
from evertick.model.ledger import RUNS_PREFIX, STOPPED_PREFIX, Lease, runs_lease
from evertick.model.lifecycle import LAUNCHING, RUNNING
from evertick.model.run import LedgerRow, RunKey
from evertick.store import Ledger

RENEW_US = 5 * SECOND
RENEWALS_PER_LEASE = 6


class LeaseHolder(Protocol):
    """What a lease needs from an executor; see `LeasedExecutor`."""

    def renew(self, asked_at: int, lease_us: int, epoch: int, vouched_until: int) -> None: ...
    def confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None: ...
    def is_idle(self) -> bool: ...


class RunsLease:
    """The lease of one node and one state folder; used by one thread at a time."""

    def __init__(
        self,
        node: str,
        folder: str,
        executors: Sequence[LeaseHolder],
        boottime_us: Callable[[], int],
        lease_us: int,
        return_us: int,
    ) -> None:
        self.name = runs_lease(node, folder)
        self.boottime_us = boottime_us
        self._stopped = STOPPED_PREFIX + self.name.removeprefix(RUNS_PREFIX)
        self._holder = f"{node}/{folder}"
        self._executors = executors
        self._lease_us, self._return_us = lease_us, return_us
        self._renew_us = min(RENEW_US, lease_us // RENEWALS_PER_LEASE)
        self._asked_at: int | None = None
        self._epoch = 0
        self._vouched_until = 0

    def renew(self, store: Ledger, now: Instant, vouched_until: int) -> None:
        """Renew it when it is time, and inform the executors; `vouched_until` belongs to the buckets."""
        asked_at = self.boottime_us()
        if self._asked_at is None:
            store.lease([self._stopped], self._holder, 0, now)
        if self._asked_at is None or asked_at - self._asked_at >= self._renew_us:
            self._take(store, [self.name], self._lease_us, now)
            self._asked_at = asked_at
        self._vouched_until = vouched_until
        self._renew_executors(self._asked_at, self._lease_us)

    def confirm(self, rows: Iterable[LedgerRow]) -> None:
        """The ledger has these as launched here by an earlier process, which may not have recorded everything."""
        runs = [(row.key, row.attempt) for row in rows if row.state in (LAUNCHING, RUNNING)]
        for executor in self._executors:
            executor.confirm(runs)

    def leave(self, store: Ledger, now: Instant) -> bool:
        """This process stops normally: report whether runs continue here, which other nodes must leave alone."""
        if all(executor.is_idle() for executor in self._executors):
            store.lease([self.name], self._holder, 0, now)
            return False
        asked_at, lease_us = self.boottime_us(), max(self._return_us, self._lease_us)
        self._take(store, [self.name, self._stopped], lease_us, now)
        self._renew_executors(asked_at, lease_us)
        return True

    def _take(self, store: Ledger, names: Sequence[str], lease_us: int, now: Instant) -> None:
        held: Sequence[Lease] = store.lease(names, self._holder, lease_us, now)
        mine = next((one for one in held if one.name == self.name and one.holder == self._holder), None)
        if mine is None:
            raise StoreUnavailable(f"the lease {self.name} was not given")
        self._epoch = mine.epoch

    def _renew_executors(self, asked_at: int, lease_us: int) -> None:
        for executor in self._executors:
            executor.renew(asked_at, lease_us, self._epoch, self._vouched_until)

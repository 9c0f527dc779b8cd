"""Which buckets this node may schedule, and until when."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from evertick.dispatch.clock import Clock
from evertick.dispatch.lookup import read_gained
from evertick.dispatch.runs_lease import RunsLease
from evertick.errors import StoreError, StoreUnavailable
from evertick.loop.messages import BucketsLost, LeaseRenewed, Message, NodesSeen, OrphansFound
from evertick.model.instant import SECOND
from evertick.model.ledger import (
    BUCKETS,
    FORGOTTEN_PREFIX,
    NODE_PREFIX,
    Lease,
    bucket_lease,
    nodes_forgotten,
    runs_held,
    share_of,
)
from evertick.store import Ledger

log = logging.getLogger("evertick.leadership")

RENEWALS_PER_LEASE = 3


class Leadership:
    """A thread with a store handle of its own, so that a slow commit does not cost the node its leases.

    Each round renews the node's sign of life and its buckets, gives up what should be another's, and takes what is
    free of its share. Correctness does not rest on it: every commit checks the epoch in its own transaction, and
    nothing is launched beyond the last instant this thread has vouched for.
    """

    def __init__(
        self,
        store: Ledger,
        holder: str,
        clock: Clock,
        report: Callable[[Message], None],
        lease_us: int,
        failed: Callable[[Exception], None] = lambda _: None,
        runs: RunsLease | None = None,
    ) -> None:
        self._store = store
        self._holder = holder
        self._clock = clock
        self._report = report
        self._lease_us = lease_us
        self._failed = failed
        self._runs = runs
        """None: the runs of this node end with it."""
        self._epochs: dict[int, int] = {}
        self._leaving: set[int] = set()
        self._has_looked_back = False
        self._released: deque[int] = deque()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-leadership", daemon=True)

    @property
    def _node(self) -> str:
        return self._holder.partition("/")[0]

    @property
    def epochs(self) -> dict[int, int]:
        return dict(self._epochs)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.halt()
        self.release()

    def halt(self) -> None:
        """Stop renewing; other nodes leave the runs of this machine alone while this process may be away."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._runs is not None:
            try:
                if self._runs.leave(self._store, self._clock.now()):
                    log.info("lease.kept_for_return lease=%s", self._runs.name)
            except StoreError as error:
                log.warning("lease.not_kept reason=%s", error)

    def release(self) -> None:
        """Release the buckets, so that other nodes need not wait for the end of the lease."""
        try:
            self._store.lease(self._names(range(BUCKETS)), self._holder, 0, self._clock.now())
        except StoreError as error:
            log.warning("lease.not_released reason=%s", error)

    def _run(self) -> None:
        pause = self._lease_us / SECOND / RENEWALS_PER_LEASE
        while True:
            try:
                self.renew()
            except StoreUnavailable as error:
                # Nothing to do: without a renewal the loop stops launching when the lease ends.
                log.warning("lease.not_renewed reason=%s", error)
            except Exception as error:
                # Without this thread the node would keep running, and never start anything again.
                log.exception("leadership.failed")
                self._failed(error)
                return
            self._wake.wait(pause)
            self._wake.clear()
            # After the clear: a stop between the timeout of the wait and the clear leaves no other trace.
            if self._stopping.is_set():
                return

    def renew(self) -> None:
        """One round."""
        self._let_go()
        asked_at = self._clock.now()
        vouched_until = self._runs.boottime_us() + self._lease_us if self._runs is not None else 0
        held = self._store.lease(self._names([*self._epochs, *self._leaving]), self._holder, self._lease_us, asked_at)
        if self._runs is not None:
            # Before anything is taken: a launch must have a lease that ends it.
            self._runs.renew(self._store, self._clock.now(), vouched_until)
        holders = [lease.name.removeprefix(NODE_PREFIX) for lease in held if _is_node(lease)]
        share = share_of(self._holder, holders)
        self._drop_lost(held)
        self._report(LeaseRenewed(asked_at + self._lease_us))
        others = runs_held(held, but=self._runs.name if self._runs is not None else "")
        if not self._has_looked_back and self._node not in others:
            self._look_back()
        forgotten = nodes_forgotten(held)
        if self._node in forgotten:
            # It has returned: losses from now on are not due to the operator's decision.
            self._store.lease([FORGOTTEN_PREFIX + self._node], forgotten[self._node], 0, self._clock.now())
        self._report(NodesSeen(frozenset(holder.partition("/")[0] for holder in holders), others, forgotten))
        self._give_up([bucket for bucket in self._epochs if bucket not in share])
        taken = {lease.name for lease in held}
        self._take([bucket for bucket in sorted(share) if bucket_lease(bucket) not in taken])

    def _look_back(self) -> None:
        """Runs that the ledger says an earlier process of this node has; this one asks its executor about them."""
        mine = [row for row in self._store.load().open_runs if row.executor.partition("@")[2] == self._node]
        self._has_looked_back = True
        if self._runs is not None:
            self._runs.confirm(mine)
        if mine:
            self._report(OrphansFound(mine))

    def _drop_lost(self, held: Sequence[Lease]) -> None:
        """Buckets whose lease another node has taken."""
        current = {lease.name: lease for lease in held}
        lost = {
            bucket: epoch
            for bucket, epoch in self._epochs.items()
            if (lease := current.get(bucket_lease(bucket))) is None
            or lease.holder != self._holder
            or lease.epoch != epoch
        }
        if lost:
            for bucket in lost:
                del self._epochs[bucket]
            self._report(BucketsLost(lost, is_fenced=True))
            # What another node released in between is ours by lease, but its jobs must be read again.
            mine = [bucket for bucket in lost if _holder_of(current, bucket) == self._holder]
            self._store.lease(self._bucket_names(mine), self._holder, 0, self._clock.now())

    def _give_up(self, buckets: list[int]) -> None:
        """Ask the loop to release them; the lease stays until the loop has, and until all its decisions are written."""
        if buckets:
            self._leaving.update(buckets)
            self._report(BucketsLost({bucket: self._epochs.pop(bucket) for bucket in buckets}))

    def released(self, buckets: Iterable[int]) -> None:
        """The loop has released these, and all their changes are written; from any thread."""
        self._released.extend(buckets)
        self._wake.set()

    def _let_go(self) -> None:
        gone = {self._released.popleft() for _ in range(len(self._released))} & self._leaving
        if gone:
            self._leaving -= gone
            self._store.lease(self._bucket_names(sorted(gone)), self._holder, 0, self._clock.now())

    def _take(self, buckets: list[int]) -> None:
        if not buckets:
            return
        asked_at = self._clock.now()
        names = {bucket_lease(bucket): bucket for bucket in buckets}
        held = self._store.lease([*names, NODE_PREFIX + self._holder], self._holder, self._lease_us, asked_at)
        gained = {
            names[lease.name]: lease.epoch for lease in held if lease.name in names and lease.holder == self._holder
        }
        if gained:
            # Read after the lease: everything that the previous owner committed is there, and it can add nothing more.
            message = read_gained(self._store, gained, gained.keys())
            self._epochs.update(gained)
            self._report(message)

    def _names(self, buckets: Iterable[int]) -> list[str]:
        return [NODE_PREFIX + self._holder, *self._bucket_names(buckets)]

    def _bucket_names(self, buckets: Iterable[int]) -> list[str]:
        return [bucket_lease(bucket) for bucket in buckets]


def _holder_of(leases: Mapping[str, Lease], bucket: int) -> str | None:
    lease = leases.get(bucket_lease(bucket))
    return lease.holder if lease else None


def _is_node(lease: Lease) -> bool:
    return lease.name.startswith(NODE_PREFIX)

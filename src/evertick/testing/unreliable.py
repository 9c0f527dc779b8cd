"""A ledger behind a network: the store is sound, the calls to it are not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import TypeVar

from evertick.errors import StoreUnavailable
from evertick.model.instant import Instant
from evertick.model.run import Change, LedgerRow, RunKey
from evertick.store import Batch, Committed, Lease, Page, Request, RunFilter, ScheduleLine, Snapshot, Tally, WrongCount
from evertick.stores.memory import MemoryStore
from evertick.testing.faults import Faults
from evertick.testing.invariants import LedgerWatch
from evertick.testing.jitter import JitterWatch
from evertick.testing.timeline import Timeline

_Result = TypeVar("_Result")


class NodeCrashed(Exception):
    """The caller has died; only the ledger knows whether the call took effect."""


class Backend:
    """The one ledger of a simulated world. It survives every crash and every outage."""

    def __init__(self, store: MemoryStore, watch: LedgerWatch, timeline: Timeline, *, are_epochs_checked: bool) -> None:
        self.store = store
        self.watch = watch
        self.jitter = JitterWatch()
        self.timeline = timeline
        self.away_until: Instant = 0
        self._are_epochs_checked = are_epochs_checked
        self.announce_requests: Callable[[], None] = lambda: None

    def commit(self, batch: Batch) -> Committed:
        if not self._are_epochs_checked:
            batch = Batch(**{name: getattr(batch, name) for name in Batch.__slots__ if name != "epochs"})
        committed = self.store.commit(batch)
        self.watch.committed(batch, committed)
        if batch.requests or batch.blackouts:
            self.announce_requests()
        return committed

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        refused = self.store.record(changes)
        self.watch.recorded(changes, refused)
        return refused

    def rows(self) -> Sequence[LedgerRow]:
        return self.store.contents().rows


class StoreHandle:
    """One node's way to the ledger. Any call may fail before it took effect, or after, or be the node's last."""

    def __init__(self, backend: Backend, random: Random, faults: Callable[[], Faults]) -> None:
        self._backend = backend
        self._random = random
        self._faults = faults
        self.cut_until: Instant = 0
        """Until then this node cannot reach the store, although others may."""

    def call(self, work: Callable[[], _Result]) -> _Result:
        """Make the call, or fail as a network does."""
        faults, luck = self._faults(), self._random.random()
        if luck < faults.crash_per_call / 2:
            raise NodeCrashed
        self.require_reachable()
        result = work()
        if luck < faults.crash_per_call:
            raise NodeCrashed
        if luck < faults.crash_per_call + faults.lost_reply:
            raise StoreUnavailable("the reply was lost")
        return result

    def require_reachable(self) -> None:
        if self._backend.timeline.now < max(self._backend.away_until, self.cut_until):
            raise StoreUnavailable("the store is away")

    def load(self, buckets: Collection[int] | None = None) -> Snapshot:
        return self.call(lambda: self._backend.store.load(buckets))

    def commit(self, batch: Batch) -> Committed:
        return self.call(lambda: self._backend.commit(batch))

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        return self.call(lambda: self._backend.record(changes))

    def claim(self, buckets: Collection[int] | None, limit: int) -> Sequence[Request]:
        return self.call(lambda: self._backend.store.claim(buckets, limit))

    def query(self, where: RunFilter, after: RunKey | None = None, limit: int = 100) -> Page:
        return self.call(lambda: self._backend.store.query(where, after, limit))

    def lease(self, names: Collection[str], holder: str, ttl_us: int, now: Instant) -> Sequence[Lease]:  # noqa: ARG002
        # By the store's own clock, as a database does it: nodes with wrong clocks must agree.
        return self.call(lambda: self._backend.store.lease(names, holder, ttl_us, self._backend.timeline.now))

    def compact(self, before: Mapping[str, Instant], default_before: Instant | None, limit: int) -> int:
        return self.call(lambda: self._backend.store.compact(before, default_before, limit))

    def schedules(self, job_ids: Collection[str] | None = None) -> Sequence[ScheduleLine]:
        return self.call(lambda: self._backend.store.schedules(job_ids))

    def definition(self, job_id: str, digest: str) -> str | None:
        return self.call(lambda: self._backend.store.definition(job_id, digest))

    def stored_jobs(self) -> Mapping[str, str]:
        return self.call(lambda: self._backend.store.stored_jobs())

    def blackouts(self) -> Mapping[str, str]:
        return self.call(lambda: self._backend.store.blackouts())

    def requests(self, ids: Collection[str]) -> Sequence[Request]:
        return self.call(lambda: self._backend.store.requests(ids))

    def newest(
        self, job_ids: Collection[str], count: int = 1, *, with_skips: bool = False
    ) -> Mapping[str, Sequence[LedgerRow]]:
        return self.call(lambda: self._backend.store.newest(job_ids, count, with_skips=with_skips))

    def tally(self, where: RunFilter, width_us: int, *, by_job: bool = False) -> Sequence[Tally]:
        return self.call(lambda: self._backend.store.tally(where, width_us, by_job=by_job))

    def outcomes(self, bounds: Sequence[Instant], job_id: str | None = None) -> Sequence[Tally]:
        return self.call(lambda: self._backend.store.outcomes(bounds, job_id))

    def wrong_counts(self) -> Sequence[WrongCount]:
        return self.call(lambda: self._backend.store.wrong_counts())

    def counters(self) -> Mapping[str, int]:
        return self.call(lambda: self._backend.store.counters())

    def close(self) -> None:
        """There is nothing to release."""

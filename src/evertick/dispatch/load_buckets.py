"""Loads what a node needs to know of its jobs before it owns their buckets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from evertick.loop.messages import BucketsGained
from evertick.model.instant import Instant
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SUCCEEDED, TIMED_OUT
from evertick.model.run import LedgerRow
from evertick.store import RunFilter, Store


def read_gained(store: Store, epochs: Mapping[int, int], buckets: Collection[int] | None = None) -> BucketsGained:
    snapshot = store.load(buckets)
    known = [record.job_id for record in snapshot.jobs if record.retired_at is None]
    newest = store.newest(known)
    failures = frozenset(job_id for job_id, rows in newest.items() if rows[0].state in (FAILED, TIMED_OUT, LOST))
    return BucketsGained(epochs, snapshot, last_successes(store, newest), failures)


def last_successes(store: Store, newest: Mapping[str, Sequence[LedgerRow]]) -> dict[str, Instant]:
    """The time for which the newest good run of each job was, where nothing went wrong since.

    A job's own line says it as of the last failure: it is not written again for every success.
    """
    found = {}
    for job_id, rows in newest.items():
        if rows[0].state is CANCELLED:
            rows = store.query(RunFilter(job_ids=[job_id], states=[SUCCEEDED]), limit=1).rows
        if rows and rows[0].state is SUCCEEDED:
            found[job_id] = rows[0].key.scheduled_for
    return found

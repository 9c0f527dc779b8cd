"""Places in queues that several nodes share: what the loop must ask the ledger before a start."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.model.ledger import Claim, bucket_of

YIELDS_MAX: Final = 10
"""How often a run yields to a run of higher priority that waits on another node; once a second, so some seconds.

Something that only the other node knows may keep that run from starting.
"""


def needs_claim(state: State, queue: str | None) -> bool:
    """Whether runs of other nodes may be in the queue: then only the ledger knows how full it is."""
    return state.lease_until is not None and queue is not None and queue in state.queues


def claims_of(state: State, launches: Iterable[OpenRun]) -> tuple[Claim, ...]:
    """The places that the runs about to be launched need, by queue."""
    wanted: dict[str, list[OpenRun]] = {}
    for run in launches:
        job = state.jobs.get(run.key.job_id)
        queue = job.job.queue if job else None
        if queue is not None and not run.is_item and needs_claim(state, queue):
            wanted.setdefault(queue, []).append(run)
    return tuple(_claim(state, name, runs) for name, runs in wanted.items())


def claims_without(claims: Iterable[Claim], buckets: Collection[int]) -> tuple[Claim, ...]:
    """The same without the runs of these buckets, which another node owns."""
    left = (one._replace(keys=[key for key in one.keys if bucket_of(key.job_id) not in buckets]) for one in claims)
    return tuple(one for one in left if one.keys)


def _claim(state: State, queue: str, runs: list[OpenRun]) -> Claim:
    jobs = _jobs_in(state, queue)
    known = {job_id: state.definitions[job_id] for job_id in jobs if job_id in state.definitions}
    lowest = min((known[run.key.job_id].priority for run in runs if run.key.job_id in known), default=0)
    # Only runs that a place would start: not one that may wait for upstream jobs or for a member of the fleet.
    rivals = {
        job_id: job.priority
        for job_id, job in known.items()
        if job.priority > lowest and job.after is None and not job.routing.is_remote
    }
    mine = {run.key.job_id: known[run.key.job_id].priority for run in runs if run.key.job_id in known}
    insisting = [run.key for run in runs if run.yields >= YIELDS_MAX]
    return Claim(queue, state.queues[queue].limit, jobs, [run.key for run in runs], rivals | mine, insisting)


def _jobs_in(state: State, queue: str) -> tuple[str, ...]:
    """Of all definitions, whichever node owns them; cached until one of them changes."""
    if not state.queue_jobs:
        found: dict[str, list[str]] = {}
        for job in state.definitions.values():
            if job.queue is not None:
                found.setdefault(job.queue, []).append(job.id)
        state.queue_jobs.update({name: tuple(ids) for name, ids in found.items()})
    return state.queue_jobs.get(queue, ())

"""Places in named queues that several nodes share: what a start has to ask the ledger for."""

from __future__ import annotations

from collections.abc import Iterable

from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.model.ledger import Claim
from evertick.model.run import RunKey


def needs_claim(state: State, queue: str | None) -> bool:
    """Whether runs of other nodes may be in the queue: then only the ledger knows how full it is."""
    return state.lease_until is not None and queue is not None and queue in state.queues


def claims_of(state: State, launches: Iterable[OpenRun]) -> tuple[Claim, ...]:
    """What the runs that are about to be launched need, by queue."""
    wanted: dict[str, list[RunKey]] = {}
    for run in launches:
        job = state.jobs.get(run.key.job_id)
        queue = job.job.queue if job else None
        if queue is not None and needs_claim(state, queue):
            wanted.setdefault(queue, []).append(run.key)
    return tuple(Claim(name, state.queues[name].limit, _jobs_in(state, name), keys) for name, keys in wanted.items())


def _jobs_in(state: State, queue: str) -> tuple[str, ...]:
    """Of all definitions, whoever owns them; looked up once until one of them changes."""
    if not state.queue_jobs:
        found: dict[str, list[str]] = {}
        for job in state.definitions.values():
            if job.queue is not None:
                found.setdefault(job.queue, []).append(job.id)
        state.queue_jobs.update({name: tuple(ids) for name, ids in found.items()})
    return state.queue_jobs.get(queue, ())

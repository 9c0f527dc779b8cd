"""Telling a store that keeps files for people when its pipelines are due next, which the ledger does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from evertick.dispatch.clock import Clock
from evertick.loop.messages import Message
from evertick.loop.state import State
from evertick.model.instant import Instant
from evertick.model.work import Pipeline
from evertick.planning.schedules import compile_all, next_of
from evertick.store import Store


@runtime_checkable
class ShowsNextRuns(Protocol):
    def flush(self, now: Instant, next_runs: Mapping[str, Instant] | None = None) -> None: ...


def next_runs(state: State, now: Instant) -> dict[str, Instant]:
    """When each pipeline of this node is due next; one that is held is not."""
    found: dict[str, Instant] = {}
    for job_id, job in state.jobs.items():
        if job.hold is None and job.job.schedules and any(isinstance(step.kind, Pipeline) for step in job.job.steps):
            at = next_of(compile_all(job.job.schedules), now)
            if at is not None:
                found[job_id] = at
    return found


def show(clock: Clock, due: Mapping[str, Instant], store: Store) -> Sequence[Message]:
    """Asked by the writer in its turn."""
    if isinstance(store, ShowsNextRuns):
        store.flush(clock.now(), due)
    return ()

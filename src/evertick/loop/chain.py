"""Jobs that run after other jobs."""

from __future__ import annotations

import json

from evertick.loop.delivery import answer_known, take
from evertick.loop.job_state import JobState, UpstreamEnd
from evertick.loop.messages import UpstreamEnded
from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.answer import SUPERSEDED, TAKEN
from evertick.model.facts import Facts, Parent, facts_text
from evertick.model.ids import origin_of, request_id_of
from evertick.model.instant import Instant
from evertick.model.job import AfterMode, Job
from evertick.model.ledger import Request, RequestKind
from evertick.model.lifecycle import PLANNED, SUCCEEDED, RunState, Trigger
from evertick.model.run import Entry, RunKey


def link(state: State, old: Job | None, new: Job | None) -> None:
    """Index which jobs run after which, and which jobs share a queue, whichever node owns them."""
    state.queue_jobs.clear()
    if old is not None and old.after is not None:
        for upstream in old.after.jobs:
            state.downstream.get(upstream, {}).pop(old.id, None)
    if new is not None and new.after is not None:
        for upstream in new.after.jobs:
            state.downstream.setdefault(upstream, {})[new.id] = new.after


def jobs_after(state: State, job_id: str, outcome: RunState) -> list[str]:
    """The jobs that start when a run of this job ends in this state."""
    return sorted(name for name, after in state.downstream.get(job_id, {}).items() if after.counts(outcome))


def announce(turn: Turn, run: OpenRun, outcome: RunState, jobs: list[str]) -> None:
    """A run has ended: request the jobs after it, in the transaction that records its end."""
    for downstream in jobs:
        told_of = {"upstream": run.key.job_id, "at": run.key.scheduled_for, "run": run.key.run_id}
        payload = json.dumps({**told_of, "state": outcome} if outcome is not SUCCEEDED else told_of)
        told = request_id_of("chain", run.key.run_id, downstream)
        turn.request(Request(told, RequestKind.CHAIN, downstream, payload, turn.now), rests_on=run.key)


def arrived(state: State, turn: Turn, message: UpstreamEnded) -> None:
    """An upstream job has ended.

    The request is answered when a run has used it, so that after a crash it arrives again.
    """
    if answer_known(state, message.request_id) is not None or not state.owns(message.job_id):
        return
    take(state, message.request_id, message.job_id, TAKEN)
    job = state.jobs.get(message.job_id)
    after = job.job.after if job else None
    if job is None or after is None or message.upstream not in after.jobs or not after.counts(message.state):
        turn.answer(message.request_id, message.job_id, TAKEN)
        return
    if job.arrivals is None:
        job.arrivals = {}
    arrival = UpstreamEnd(message.request_id, message.at, message.run)
    before = job.arrivals.get(message.upstream)
    if before is not None:
        # They may arrive in another order than that in which the runs ended.
        older, arrival = sorted((before, arrival), key=_order)
        turn.answer(older.request_id, message.job_id, SUPERSEDED)
    job.arrivals[message.upstream] = arrival
    start_chained(turn, job)


def _order(arrival: UpstreamEnd) -> tuple[Instant, str]:
    return arrival.at, arrival.request_id


def is_satisfied(job: JobState) -> bool:
    """Whether all upstream jobs have ended as this job requires, since it last used their ends."""
    after = job.job.after
    if after is None:
        return True
    arrivals = job.arrivals or {}
    if after.mode is AfterMode.ANY:
        return any(upstream in arrivals for upstream in after.jobs)
    return all(upstream in arrivals for upstream in after.jobs)


def missing(job: JobState) -> tuple[str, ...]:
    """The upstream jobs that have not ended yet."""
    return tuple(one for one in (job.job.after.jobs if job.job.after else ()) if one not in (job.arrivals or {}))


def is_held_back(job: JobState, run: OpenRun) -> bool:
    """Whether an occurrence must wait for upstream jobs."""
    is_first = not run.key.origin and run.attempt == 0 and not run.has_used_successes
    return job.job.after is not None and is_first and not is_satisfied(job)


def use(turn: Turn, job: JobState) -> None:
    """A run has used the ends; the next run needs new ones."""
    for arrival in (job.arrivals or {}).values():
        turn.answer(arrival.request_id, job.job.id, TAKEN)
    job.arrivals = None


def parents_of(job: JobState) -> tuple[Parent, ...]:
    """The upstream runs that have ended."""
    return tuple(Parent(arrival.run) for arrival in (job.arrivals or {}).values() if arrival.run)


def start_chained(turn: Turn, job: JobState) -> None:
    """Start a run of a job without a schedule for the newest upstream end, if all have arrived.

    Its key comes from the id of that request, so that the same ends arriving again create the same run.
    """
    if job.hold is not None or job.job.schedules or not job.arrivals or not is_satisfied(job):
        return
    newest = max(job.arrivals.values(), key=_order)
    key = RunKey(job.job.id, newest.at, origin_of(newest.request_id))
    detail, facts = f"after {', '.join(job.arrivals)}", facts_text(Facts(parents_of(job)))
    turn.enter_once(job, Entry(key, PLANNED, Trigger.CHAINED, turn.now, detail=detail, facts=facts))
    use(turn, job)

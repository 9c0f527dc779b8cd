"""What must hold for the runs of a job beyond its schedule, and what happens if it does not.

The executor watches some constraints (hooks, the allowed run time) and other rules cover some (how many runs at once);
this module has those that the loop sees: the previous success, and the expected run time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, TypeVar

from evertick.loop.effects import LookUpOutcomes, Notify
from evertick.loop.job_state import JobState
from evertick.loop.messages import OutcomesSeen
from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.constraint import (
    Action,
    ActionKind,
    Constraint,
    KillTarget,
    MaxAllowedRunTime,
    MaxConcurrentRuns,
    MaxExpectedRunTime,
    PostRunHook,
    PreRunHook,
    RequirePreviousSuccess,
)
from evertick.model.ids import request_id_of
from evertick.model.instant import Instant
from evertick.model.ledger import Request, RequestKind
from evertick.model.lifecycle import PLANNED, WAITING, Trigger
from evertick.model.run import RunKey

Kind = TypeVar("Kind", bound=Constraint)
_OVERDUE = "it is taking longer than expected"
PRE_RUN_HOOK, POST_RUN_HOOK, MAX_ALLOWED_RUN_TIME = "preRunHook", "postRunHook", "maxAllowedRunTime"
_WATCHED_BY_EXECUTORS: Final[dict[str, type[Constraint]]] = {
    PRE_RUN_HOOK: PreRunHook,
    POST_RUN_HOOK: PostRunHook,
    MAX_ALLOWED_RUN_TIME: MaxAllowedRunTime,
}


def _of(job: JobState, kind: type[Kind]) -> Iterable[Kind]:
    return (constraint for constraint in job.job.constraints if isinstance(constraint, kind))


def missing_success(state: State, turn: Turn, job: JobState, run: OpenRun) -> str | None:
    """The job whose last run must have succeeded and did not; None: the run may start."""
    for constraint in _of(job, RequirePreviousSuccess):
        for required in constraint.jobs or (job.job.id,):
            if _has_failed(state, required, run):
                detail = f"the last run of {required!r} did not succeed"
                violate(turn, job, run, "requirePreviousSuccess", constraint.on_violation, detail)
                return detail
    return None


def _has_failed(state: State, required: str, run: OpenRun) -> bool:
    other = state.jobs.get(required)
    if other is not None and other.is_outcome_known:
        return other.last_failed
    return required in (run.failed_elsewhere or ())


def must_ask(state: State, turn: Turn, job: JobState, run: OpenRun) -> bool:
    """Whether a run must wait until the ledger has reported the outcomes of other jobs; asks once."""
    constraints = _of(job, RequirePreviousSuccess)
    required = {name for constraint in constraints for name in constraint.jobs or (job.job.id,)}
    unknown = sorted(name for name in required if not _knows_outcome(state, name))
    if not unknown or run.failed_elsewhere is not None:
        return False
    if run.key not in state.outcomes_asked:
        state.outcomes_asked.add(run.key)
        turn.do(LookUpOutcomes(run.key, unknown))
    return True


def _knows_outcome(state: State, job_id: str) -> bool:
    """Whether the loop knows how the last run of a job ended, or that there was none."""
    other = state.jobs.get(job_id)
    return state.owns(job_id) and (other is None or other.is_outcome_known)


def outcomes_seen(state: State, message: OutcomesSeen) -> OpenRun | None:
    """Offer the run again, now that this is known."""
    if message.key not in state.outcomes_asked:
        return None  # a duplicate
    state.outcomes_asked.discard(message.key)
    job = state.jobs.get(message.key.job_id)
    run = job.find(message.key) if job is not None else None
    if run is None or run.state not in (PLANNED, WAITING):
        return None
    run.failed_elsewhere = message.failed
    return run


def violate_max_concurrent_runs(turn: Turn, job: JobState, run: OpenRun) -> None:
    """The overlap rule has skipped a run: report it where the job asks for that."""
    for constraint in _of(job, MaxConcurrentRuns):
        violate(turn, job, run, "maxConcurrentRuns", constraint.on_violation)


def expect_end(state: State, job: JobState, run: OpenRun, started_at: Instant) -> None:
    """Look at the run again when it should have ended; an item is a part of one that is looked at."""
    if run.is_item:
        return
    for constraint in _of(job, MaxExpectedRunTime):
        run.expected_at = started_at + constraint.duration_us
        state.ring.put(run.expected_at, run)


def check_behind(turn: Turn, job: JobState, run: OpenRun) -> None:
    """The run takes longer than expected: it continues, and is reported once."""
    if run.expected_at is None or run.expected_at > turn.now:
        return
    run.facts = run.facts._replace(overdue_since=run.expected_at)
    run.expected_at = None
    turn.note(run, _OVERDUE)
    turn.log("run.behind", is_alarming=True, job=job.job.id, run=run.key.run_id)
    for constraint in _of(job, MaxExpectedRunTime):
        violate(turn, job, run, "maxExpectedRunTime", constraint.on_violation, _OVERDUE)


def broken(turn: Turn, job: JobState, run: OpenRun, constraint: str, detail: str) -> None:
    """The executor reports that a constraint it watches is violated."""
    kind = _WATCHED_BY_EXECUTORS.get(constraint)
    for one in _of(job, kind) if kind is not None else ():
        violate(turn, job, run, constraint, one.on_violation, detail)


def violate(
    turn: Turn, job: JobState, run: OpenRun, constraint: str, actions: Iterable[Action], detail: str = ""
) -> None:
    """Run the actions that the definition names."""
    turn.log("constraint.violated", is_alarming=True, job=job.job.id, run=run.key.run_id, constraint=constraint)
    for number, action in enumerate(actions):
        match action.kind:
            case ActionKind.START_JOB:
                _request_start(turn, action.job_id, run, constraint, number, Trigger.CHAINED)
            case ActionKind.RETRY if all(parent.via != constraint for parent in run.facts.parents):
                # Once: a retry that violates the same constraint must not request another.
                _request_start(turn, job.job.id, run, constraint, number, Trigger.RETRY)
            case ActionKind.SKIP_NEXT:
                job.skip_next += 1
                turn.keep_job(job)
            case ActionKind.WEBHOOK:
                turn.do(Notify(job.job, constraint, run.key, action.url, detail))
            case ActionKind.KILL:
                _kill(turn, job, run, action.target, constraint)


def _request_start(turn: Turn, job_id: str, run: OpenRun, constraint: str, number: int, trigger: Trigger) -> None:
    """A run for the same scheduled time; a retry gets the same parameters."""
    is_again = trigger is Trigger.RETRY and run.trigger is not Trigger.BACKFILL
    payload = {
        "trigger": trigger,
        "params": run.params if is_again else "",
        "scheduled_for": run.key.scheduled_for,
        "detail": f"{constraint} was violated by {run.key.run_id}",
        "parents": [[run.key.run_id, constraint]],
    }
    name = request_id_of("rule", constraint, run.key.run_id, number)
    turn.request(Request(name, RequestKind.TRIGGER, job_id, json.dumps(payload), turn.now, "constraint"))


def _kill(turn: Turn, job: JobState, run: OpenRun, target: KillTarget, constraint: str) -> None:
    active: dict[RunKey, OpenRun] = {}
    for lane in (job.lanes or {}).values():
        active |= lane.active
    chosen: Iterable[OpenRun] = active.values()
    if target is KillTarget.THIS:
        chosen = [active[run.key]] if run.key in active else []
    elif target is KillTarget.LATEST:
        whole = [one for one in active.values() if not one.is_item]
        chosen = [max(whole, key=lambda one: one.key.scheduled_for)] if whole else []
    for one in chosen:
        turn.ask_to_stop(one, f"stopped because {constraint} was violated")

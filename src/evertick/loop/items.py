"""Items of a step that run elsewhere on the fleet than the run whose step it is.

Each is a run of the same job in a lane of its own, requested as the runs of other jobs are (`loop/subruns.py`). What a
member may request is decided here: items of its own attempts, by a step of the job that has items, and no more at once
than that step allows. What it may not have, the member runs itself, as part of the attempt.
"""

from __future__ import annotations

from enum import StrEnum

from evertick.loop.job_state import Hold, JobState
from evertick.loop.messages import SubRunWanted, TriggerJob
from evertick.loop.ownership import open_item_lane
from evertick.loop.plan import close_lane
from evertick.loop.requests import trigger
from evertick.loop.runs import AwaitedSubRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.facts import Parent
from evertick.model.lifecycle import CANCELLED, LAUNCHING, RUNNING, SKIPPED, Trigger
from evertick.model.subrun import SubRunEnd
from evertick.model.work import spreads_items
from evertick.planning.items import step_of

NOT_HERE = SubRunEnd(SKIPPED, "it runs with its run")
"""The answer to a request that is not granted: nothing has run, and the keeper that asks runs the item itself."""

STOPPED = SubRunEnd(CANCELLED, "it was stopped")
"""The answer about an item that its step has stopped before anything of it has run."""


class Grant(StrEnum):
    YES = "yes"
    LATER = "later"
    """Its attempt has as many items elsewhere as it may have or is not known to be active here yet, or the item of an
    earlier attempt has not ended."""
    NO = "no"


def is_item(message: SubRunWanted) -> bool:
    """Whether a run is requested for an item of a step, and not for a step that is a run of another job."""
    return message.job_id == message.key.job_id and step_of(message.step) is not None


def grant(state: State, awaited: AwaitedSubRun) -> Grant:
    message = awaited.wanted
    job = state.jobs.get(message.key.job_id)
    owner = step_of(message.step)
    if not message.is_from_member or job is None or job.hold is Hold.RETIRED or not job.job.routing.may_spread_items:
        return Grant.NO
    step = next((one for one in job.job.work.steps if one.name == owner), None)
    if step is None or step.each is None or not spreads_items(step):
        return Grant.NO
    parent = job.find(message.key)
    if parent is None or parent.is_item or parent.attempt > message.attempt:
        return Grant.NO
    if parent.attempt < message.attempt or parent.state not in (LAUNCHING, RUNNING):
        return Grant.LATER
    # Those that run: two that were not granted would wait for each other, where an edit has lowered the number.
    others = sum(
        one.wanted.key == message.key
        and step_of(one.wanted.step) == owner
        and key != awaited.key
        and job.find(key) is not None
        for key, one in state.sub_runs.items()
    )
    if others >= step.each.max_parallel or _runs_for_earlier_attempt(job, awaited):
        return Grant.LATER
    return Grant.YES


def _runs_for_earlier_attempt(job: JobState, awaited: AwaitedSubRun) -> bool:
    """Whether the same item of an attempt before this one is still being stopped: it must not run twice at once."""
    parent = Parent(awaited.wanted.key.run_id, awaited.wanted.step)
    active = (run for lane in (job.lanes or {}).values() for run in lane.active.values())
    return any(run.is_item and run.key != awaited.key and run.facts.parents == (parent,) for run in active)


def submit(state: State, turn: Turn, awaited: AwaitedSubRun) -> None:
    message, key, _is_stopped = awaited
    job = state.jobs[key.job_id]
    if job.find(key) is not None:
        return
    open_item_lane(job, key)
    parent = Parent(message.key.run_id, message.step)
    detail = f"for item {message.step!r} of {message.key.run_id}"
    asked = (key.origin, key.job_id, key.scheduled_for, Trigger.ITEM, message.params)
    trigger(state, turn, TriggerJob(*asked, detail=detail, parents=(parent,)))
    close_lane(job, key.origin)  # where the run has ended already, and was not entered again

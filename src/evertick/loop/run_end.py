"""Ends attempts and runs: is a lost or failed attempt followed by another one, and what follows the end of a run?"""

from __future__ import annotations

from evertick.loop import deadlines
from evertick.loop.chain import announce, jobs_after
from evertick.loop.constraints import MAX_ALLOWED_RUN_TIME, broken
from evertick.loop.fire import drain, leave_queue, note_cancelled
from evertick.loop.job_state import JobState
from evertick.loop.messages import RunFinished
from evertick.loop.plan import close_lane
from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.attempts import AttemptRecord, with_attempt
from evertick.model.instant import Instant, to_text
from evertick.model.lifecycle import CANCELLED, LOST, RETRYING, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.loss import LossReason
from evertick.model.policy import OnExecutorLost
from evertick.model.steps import read_steps
from evertick.planning.retry import retry_at

LOSSES_MAX = 3
"""A run that kills its executor is not retried forever."""


def lose(
    state: State,
    turn: Turn,
    job: JobState,
    run: OpenRun,
    reason: LossReason,
    detail: str,
    at: Instant | None = None,
) -> None:
    """An attempt is gone without a result: retry an at-least-once job, end an at-most-once job."""
    at = turn.now if at is None else at
    run.losses += 1
    turn.log("run.lost", is_alarming=True, run=run.key.run_id, attempt=run.attempt, reason=reason, detail=detail)
    if run.stop_detail is not None:
        end(state, turn, job, run, CANCELLED, run.stop_detail, None, at)
    elif job.job.policy.on_executor_lost is OnExecutorLost.RETRY and run.losses < LOSSES_MAX:
        run.lease_until = None
        run.retry_at = turn.now
        _note_attempt(run, LOST, at, None, detail, reason)
        turn.move(run, RETRYING, detail=detail)
        state.ring.put(turn.now, run)
    else:
        run.facts = run.facts._replace(loss=reason)
        end(state, turn, job, run, LOST, detail, None, at)


def _note_attempt(
    run: OpenRun, outcome: RunState, at: Instant, exit_code: int | None, detail: str, loss: str = ""
) -> None:
    """The outcome of an attempt that another one follows; the ledger's row has only the newest."""
    own = tuple(step for step in read_steps(run.steps) if step.attempt == run.attempt)
    known = (run.attempt, outcome, run.started_at, at, exit_code, detail, run.executor, run.definition, own)
    told = AttemptRecord(*known, loss)
    run.earlier = with_attempt(run.earlier, told)


def try_again(state: State, turn: Turn, job: JobState, run: OpenRun, message: RunFinished) -> bool:
    """Plan the next attempt of a failed one, if the rules of the job allow it; False: the run ends."""
    if run.is_item:
        return False  # the tries of its step are over; those of the job are its parent's
    if message.has_loss and job.job.policy.on_executor_lost is OnExecutorLost.FAIL:
        return False  # the next attempt would also run the lost shard
    at = retry_at(job.job.policy.retry, run.attempt - run.losses, turn.now, run.key.run_id)
    if at is None:
        return False
    run.retry_at = at
    run.lease_until = None
    _note_attempt(run, message.state, message.at, message.exit_code, message.detail)
    turn.move(run, RETRYING, detail=message.detail)
    turn.log("run.retrying", run=run.key.run_id, attempt=run.attempt, retry_at=to_text(at))
    state.ring.put(at, run)
    return True


def _note_broken(turn: Turn, job: JobState, run: OpenRun, outcome: RunState, message: RunFinished | None) -> None:
    """Once, when no attempt is left: an attempt that is retried successfully violates nothing."""
    if message is not None and message.broken:
        broken(turn, job, run, message.broken, message.detail)
    elif outcome is TIMED_OUT:
        broken(turn, job, run, MAX_ALLOWED_RUN_TIME, message.detail if message is not None else "")


def end(
    state: State,
    turn: Turn,
    job: JobState,
    run: OpenRun,
    outcome: RunState,
    detail: str,
    message: RunFinished | None,
    at: Instant | None = None,
) -> None:
    """End a run: its place, its entry, the jobs after it, and what its job remembers."""
    lane = job.lane_of(run.key)
    del lane.active[run.key]
    leave_queue(state, run)
    note_cancelled(state, turn, run)
    leads_to = jobs_after(state, run.key.job_id, outcome) if run.key.job_id in state.downstream else []
    if run.is_item:
        leads_to = []
    turn.move(
        run,
        outcome,
        is_with_batch=bool(leads_to),
        # A successful run keeps the detail of its entry: for which step, after which job.
        detail=None if not detail and outcome is SUCCEEDED and run.attempt == 1 and not run.stop_detail else detail,
        finished_at=at if message is None else message.at,
        exit_code=None if message is None else message.exit_code,
    )
    if leads_to:
        announce(turn, run, outcome, leads_to)
    if not run.is_item:
        _note_outcome(state, turn, job, run, outcome, message)
    if job.lanes is not None and len(job.lanes) == 1:
        if lane.waiting:
            drain(state, turn, job, lane)
    else:
        # Runs of a backfill may have waited for the member that this one used.
        for other in [one for one in job.lanes_in_turn() if one.waiting]:
            drain(state, turn, job, other)
    close_lane(job, run.key.origin)


def _note_outcome(
    state: State, turn: Turn, job: JobState, run: OpenRun, outcome: RunState, message: RunFinished | None
) -> None:
    """What the end of a run says of its job."""
    if job.job.constraints:
        _note_broken(turn, job, run, outcome, message)
    job.is_outcome_known = True
    has_failed = outcome not in (SUCCEEDED, CANCELLED)
    if has_failed is not job.last_failed:
        job.last_failed = has_failed
        turn.keep_job(job)
    if outcome is SUCCEEDED and (job.last_success_at is None or run.key.scheduled_for > job.last_success_at):
        job.last_success_at = run.key.scheduled_for
        if job.job.policy.skip_if_successful:
            turn.keep_job(job)
    if outcome is SUCCEEDED and job.deadlines is not None:
        finished_at = turn.now if message is None else message.at
        deadlines.succeeded(state, turn, job, run.key.scheduled_for, finished_at)

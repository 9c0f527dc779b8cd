"""Handles requests: runs, cancellations, pauses, backfills, and answers."""

from __future__ import annotations

from evertick.loop.delivery import answer_known, take
from evertick.loop.fire import cancel, drop_waiting_retries
from evertick.loop.job_state import Hold, JobState
from evertick.loop.jobs import hold, release
from evertick.loop.messages import (
    BackfillJob,
    CancelRun,
    PauseJob,
    ResumeJob,
    TriggerJob,
)
from evertick.loop.ownership import backfill_params
from evertick.loop.runs import Lane
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.answer import RESUMED, SUPERSEDED, Answer, Refusal
from evertick.model.facts import Facts, facts_text
from evertick.model.ids import origin_of
from evertick.model.lifecycle import PLANNED, Trigger
from evertick.model.run import Entry, RunKey


def _take(state: State, turn: Turn, message: TriggerJob | CancelRun | PauseJob | ResumeJob | BackfillJob) -> bool:
    """Whether to execute a request: not a second time, and only for a job of this node."""
    handled = answer_known(state, message.request_id)
    if handled is not None:
        return False
    if not state.owns(message.job_id):
        return False  # its owner will claim it
    job = state.jobs.get(message.job_id)
    # Active runs of a deleted job can be stopped; no other request about it is valid.
    is_deleted = job is not None and job.hold is Hold.RETIRED and not isinstance(message, CancelRun)
    if job is None or is_deleted:
        text = f"unknown job {message.job_id!r}"
        if job is not None and job.retired_at is None:
            text += "; it may be in a job file that has an error"
        _answer(state, turn, message, Answer(refusal=Refusal.NOT_FOUND, text=text))
        return False
    return True


def _answer(
    state: State, turn: Turn, message: TriggerJob | CancelRun | PauseJob | ResumeJob | BackfillJob, answer: Answer
) -> None:
    take(state, message.request_id, message.job_id, answer)
    turn.answer(message.request_id, message.job_id, answer)


def trigger(state: State, turn: Turn, message: TriggerJob) -> None:
    if not _take(state, turn, message):
        return
    job = state.jobs[message.job_id]
    key = RunKey(message.job_id, message.submitted_at, origin_of(message.request_id))
    facts = facts_text(Facts(message.parents))
    entry = Entry(key, PLANNED, message.trigger, turn.now, detail=message.detail, params=message.params, facts=facts)
    if not turn.has_ended(key):
        turn.enter_once(job, entry)
    _answer(state, turn, message, Answer(run_id=key.run_id))


def backfill(state: State, turn: Turn, message: BackfillJob) -> None:
    if not _take(state, turn, message):
        return
    job = state.jobs[message.job_id]
    if job.lanes is None:
        job.lanes = {}
    origin = origin_of(message.request_id)
    job.lanes.setdefault(origin, Lane(message.overlap, message.gap_us))
    params = backfill_params(message.overlap, message.gap_us)
    for instant in message.instants:
        key = RunKey(message.job_id, instant, origin)
        turn.enter_once(job, Entry(key, PLANNED, Trigger.BACKFILL, turn.now, params=params))
    _answer(state, turn, message, Answer(planned=len(message.instants)))


def cancel_runs(state: State, turn: Turn, message: CancelRun) -> None:
    """Cancel one run or all runs of the job; one that has not started ends at once, an active one is stopped."""
    if not _take(state, turn, message):
        return
    job = state.jobs[message.job_id]
    detail = f"cancelled by {message.by}" if message.by else "cancelled"
    chosen = [
        run
        for run in job.open_runs()
        if (run.key == message.key if message.key else run.key.scheduled_for <= turn.now or run.key.origin)
    ]
    if message.key and not chosen:
        text = f"the run {message.key.run_id} has already ended"
        _answer(state, turn, message, Answer(refusal=Refusal.CONFLICT, text=text))
        return
    for run in chosen:
        if job.active_run(run.key) is None:
            cancel(state, turn, job, run, detail)
        else:
            turn.ask_to_stop(run, detail)
    for lane in list((job.lanes or {}).values()):
        drop_waiting_retries(state, turn, job, lane)
    answer = Answer(cancelled=tuple(run.key.run_id for run in chosen))
    going_on = {run.key for run in chosen if job.active_run(run.key) is run}
    if going_on:
        # The ledger has the answer when they have ended: a crash before that repeats the request.
        take(state, message.request_id, message.job_id, answer)
        state.cancelling[message.request_id] = (message.job_id, going_on)
    else:
        _answer(state, turn, message, answer)


def _is_out_of_date(state: State, turn: Turn, job: JobState, message: PauseJob | ResumeJob) -> bool:
    if message.submitted_at and message.submitted_at < job.last_asked_at:
        _answer(state, turn, message, SUPERSEDED)
        return True
    job.last_asked_at = max(job.last_asked_at, message.submitted_at)
    turn.keep_job(job)  # with the answer: the next owner must not execute an older one
    return False


def pause(state: State, turn: Turn, message: PauseJob) -> None:
    if not _take(state, turn, message):
        return
    job = state.jobs[message.job_id]
    if _is_out_of_date(state, turn, job, message):
        return
    if job.paused_at is None:
        job.paused_at, job.pause_note = turn.now, message.note
        hold(state, turn, job, Hold.PAUSED)
    elif job.hold is None:  # asked to resume and not planned yet: the pause continues
        job.keep, job.pause_note = None, message.note
        hold(state, turn, job, Hold.PAUSED)
        if job.job.id in state.resuming:
            turn.answer(state.resuming.pop(job.job.id), job.job.id, RESUMED)
    _answer(state, turn, message, Answer(paused_at=job.paused_at))


def resume(state: State, turn: Turn, message: ResumeJob) -> None:
    if not _take(state, turn, message):
        return
    job = state.jobs[message.job_id]
    if _is_out_of_date(state, turn, job, message):
        return
    if job.paused_at is None:
        _answer(state, turn, message, Answer(is_resumed=False))  # it is not paused: there is nothing to do
        return
    release(state, turn, job, message.keep)
    if job.paused_at is None:
        _answer(state, turn, message, RESUMED)
    else:
        if message.job_id in state.resuming:
            _answer(state, turn, message, RESUMED)  # another request for the same is pending
            return
        take(state, message.request_id, message.job_id, RESUMED)
        state.resuming[message.job_id] = message.request_id

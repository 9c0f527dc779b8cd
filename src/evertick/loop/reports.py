"""Handles reports from executors: runs that started, ended, were lost or refused."""

from __future__ import annotations

from evertick.loop import deadlines
from evertick.loop.constraints import broken, expect_end
from evertick.loop.effects import Reconcile, Stop
from evertick.loop.fire import (
    cancel,
    drain,
    enqueue,
    is_of_schedule,
    leave_queue,
    note_cancelled,
    note_wait,
    wait_for_queue,
)
from evertick.loop.job_state import Hold, JobState
from evertick.loop.messages import LaunchRefused, RunFinished, RunHeartbeat, RunLost, RunStarted, RunUnknown, StepsSeen
from evertick.loop.orphans import forward_unwritten, is_outdated, settle_orphan
from evertick.loop.plan import drop
from evertick.loop.run_end import end, lose, try_again
from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.blackout import blackout_at
from evertick.model.instant import MINUTE, Instant
from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    LOST,
    PLANNED,
    RETRYING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
    SkipReason,
    Trigger,
)
from evertick.model.loss import LossReason
from evertick.model.report import AttemptQuestion, AttemptReport, AttemptSeen
from evertick.model.run import RunKey


def _find(state: State, turn: Turn, message: AttemptReport, node: str | None = None) -> tuple[JobState, OpenRun] | None:
    """The run that a report is about, unless the report is about another attempt or the run has ended.

    `node` is the reporting node, if it is not this one. Two nodes may use the same number for an attempt: what ended
    here before the ledger knew of it says nothing about the attempt that another node has started since.
    """
    job = state.jobs.get(message.key.job_id)
    run = job.active_run(message.key) if job else None
    if job is not None and run is not None and _is_plain(state, run, message):
        return job, run
    if run is not None and state.foreign.get(run.key, state.node) != (node or state.node):
        _refuse(state, turn, message)
        return None
    if job is not None and run is None:
        run = _adopt_waiting(turn, job, message)
    if run is None and settle_orphan(state, turn, message):
        return None
    if run is not None and run.awaits_ledger and isinstance(message, RunUnknown | LaunchRefused):
        return None  # a duplicate: an attempt that is not launched yet cannot be known
    if run is not None and not run.was_asked and isinstance(message, LaunchRefused) and is_outdated(run, message):
        return None  # a duplicate: it was offered again since, and may have been accepted
    if run is not None and run.state is RUNNING and not run.was_asked and isinstance(message, RunUnknown):
        return None  # the late answer to an earlier question: it was launched and has started since
    if job is not None and run is not None and _is_doubtful(state, run, message):
        run.was_asked = True
        job.asked += 1
        turn.do(Reconcile([AttemptQuestion(run.key, run.attempt, run.executor, run.fence)]))
        return None
    if job is None or run is None or run.attempt != message.attempt or run.state is RETRYING:
        _refuse(state, turn, message)
        return None
    if run.was_asked and not (run.is_to_be_asked and isinstance(message, RunStarted | RunHeartbeat | StepsSeen)):
        # It may have been reported as active before it ended: only what follows the question answers it.
        run.was_asked = False
        job.asked -= 1
        if not job.asked and not isinstance(message, RunUnknown):
            for lane in list((job.lanes or {}).values()):
                drain(state, turn, job, lane)
    if run.state is PLANNED and not isinstance(message, RunUnknown):
        turn.move(run, LAUNCHING)  # the earlier process had launched it and died before it could record that
    return job, run


def _is_plain(state: State, run: OpenRun, message: AttemptReport) -> bool:
    """Whether this is the common case: the current attempt of this node reports its progress."""
    return (
        run.attempt == message.attempt
        and (run.state is LAUNCHING or run.state is RUNNING)
        and not run.was_asked
        and run.key not in state.foreign
        and type(message) not in (RunUnknown, LaunchRefused)
    )


def _refuse(state: State, turn: Turn, message: AttemptReport) -> None:
    state.statistics.refused_reports += 1
    turn.log("run.report_refused", run=message.key.run_id, attempt=message.attempt, report=type(message).__name__)


def _is_doubtful(state: State, run: OpenRun, message: AttemptReport) -> bool:
    """Whether an executor reports as unknown an attempt that may still be on its way to it.

    An unknown attempt is launched again under the same number, so this may answer a question from before that launch.
    Or the launch was lost with the process that should have executed it. The executor knows which.
    """
    is_unasked = isinstance(message, RunUnknown) and not run.was_asked and run.key not in state.foreign
    return is_unasked and run.state is LAUNCHING and run.attempt == message.attempt


def _adopt_waiting(turn: Turn, job: JobState, message: AttemptReport) -> OpenRun | None:
    """After a restart: a run that waits according to the ledger may have been launched before the end."""
    lane = job.lane_of(message.key)
    run = next((run for run in lane.waiting if run.was_asked and run.key == message.key), None)
    if run is None or run.attempt + 1 != message.attempt:
        return None
    lane.waiting.remove(run)
    lane.active[run.key] = run
    run.attempt += 1
    turn.move(run, LAUNCHING)
    return run


def found_running(state: State, turn: Turn, message: AttemptSeen) -> None:
    """A member has an attempt that this node did not ask about: stop it if it was given up, otherwise leave it."""
    job = state.jobs.get(message.key.job_id)
    if job is None or not state.owns(message.key.job_id):
        return
    run = job.find(message.key)
    is_between = run is not None and run.state is RETRYING and run.attempt == message.attempt
    if run is None or message.attempt < run.attempt or is_between:
        turn.do(Stop(message.key, message.attempt, "it was given up while its executor was unreachable"))


def started(state: State, turn: Turn, message: RunStarted) -> None:
    found = _find(state, turn, message)
    if found is None:
        return
    _, run = found
    state.foreign.pop(run.key, None)  # it runs here, not on the earlier node of this name
    run.executor = message.executor or run.executor
    run.lease_us = message.lease_us
    if message.lease_us is not None:
        run.lease_until = turn.now + message.lease_us
        state.ring.put(run.lease_until, run)
    if run.state is RUNNING:
        return  # adopted, and reported again
    run.started_at = message.at
    run.refusals = 0
    turn.move(run, RUNNING)
    if found[0].job.constraints:
        expect_end(state, found[0], run, message.at)
    _measure_start(state, run, message.at)


def _measure_start(state: State, run: OpenRun, at: Instant) -> None:
    """How late a first attempt started; runs that waited for their turn or were caught up do not count."""
    if run.attempt != 1 or run.is_item:
        return
    if run.trigger is Trigger.SCHEDULER:
        if not run.has_waited:
            state.statistics.lateness.add(at - run.starts_at)
    elif run.trigger is not Trigger.CATCHUP:
        state.statistics.request_delay.add(at - run.decided_at)


def heartbeat(state: State, turn: Turn, message: RunHeartbeat) -> None:
    found = _find(state, turn, message)
    if found is not None and found[1].lease_us is not None:
        # The ring keeps the old place of this run, and checks here when it comes to it.
        found[1].lease_until = turn.now + found[1].lease_us


def steps_seen(state: State, turn: Turn, message: StepsSeen) -> None:
    found = _find(state, turn, message)
    if found is not None:
        _note_steps(found[1], message.steps)
        turn.note(found[1], None)


def _note_steps(run: OpenRun, steps: str | None) -> None:
    if steps is not None and steps != run.steps:
        run.steps, run.has_unsaid_steps = steps, True


def finished(state: State, turn: Turn, message: RunFinished, node: str | None = None) -> None:
    found = _find(state, turn, message, node)
    if found is None:
        return
    job, run = found
    state.foreign.pop(run.key, None)  # this attempt was the other node's; the next one is not
    _note_steps(run, message.steps)
    run.executor = message.executor or run.executor
    if message.state is SKIPPED:
        drop(job, run)
        leave_queue(state, run)
        turn.move(run, SKIPPED, reason=SkipReason.CONDITION, detail=message.detail)
        if job.deadlines is not None and not run.key.origin:
            deadlines.excuse(state, turn, job, run.key.scheduled_for)
        if message.broken:
            broken(turn, job, run, message.broken, message.detail)
        note_cancelled(state, turn, run)
        drain(state, turn, job, job.lane_of(run.key))
        return
    if run.started_at is None:
        run.started_at = message.at
        _measure_start(state, run, message.at)
    outcome = message.state
    if outcome is LOST:
        lose(state, turn, job, run, message.loss or LossReason.EXECUTOR, message.detail, message.at)
        return
    if run.stop_detail is not None and outcome is not SUCCEEDED:
        end(state, turn, job, run, CANCELLED, run.stop_detail, message)
    elif outcome in (FAILED, TIMED_OUT) and try_again(state, turn, job, run, message):
        return
    else:
        end(state, turn, job, run, outcome, message.detail, message)


def lost(state: State, turn: Turn, message: RunLost) -> None:
    found = _find(state, turn, message)
    if found is not None:
        _note_steps(found[1], message.steps)
        found[1].executor = message.executor or found[1].executor
        lose(state, turn, *found, message.reason, message.detail, message.at)


def disowned(state: State, turn: Turn, key: RunKey, fence: int) -> None:
    """The ledger refused our change to a run under its fence: another node has ended it, and that counts."""
    job = state.jobs.get(key.job_id)
    run = job.find(key) if job else None
    if job is None or run is None:
        return
    if run.fence > fence:
        return  # this node has loaded it again since, from the ledger: the refused change is older
    if job.active_run(key) is not None and run.state is not RETRYING:
        turn.stop(run)
    # Its next owner, which is not known here yet, may wait for the attempt that has ended here.
    forward_unwritten(state, turn, [run])
    lane = job.lane_of(key)
    drop(job, run)
    leave_queue(state, run)
    note_cancelled(state, turn, run)
    state.foreign.pop(key, None)
    drain(state, turn, job, lane)


def unknown(state: State, turn: Turn, message: RunUnknown) -> None:
    """After a restart: the executor never saw this attempt."""
    found = _find(state, turn, message)
    if found is None:
        return
    job, run = found
    if run.key in state.foreign:
        return  # under this node's name, from another state folder: wait for the lease of that one
    if run.state is RUNNING:
        lose(state, turn, job, run, LossReason.PROCESS_GONE, "its process disappeared")
        return
    if run.state is LAUNCHING and run.executor == state.local_executor and run.decided_at < state.remembers_since:
        detail = "the state folder of its node is new, so it is unknown whether it ran"
        lose(state, turn, job, run, LossReason.PROCESS_GONE, detail)
        return
    # Decided, perhaps even sent, but never started: judge it again like any other due run.
    run.attempt -= 1
    lane = job.lane_of(run.key)
    if run.stop_detail is not None:
        cancel(state, turn, job, run, run.stop_detail)
        drain(state, turn, job, lane)
        return
    del lane.active[run.key]
    leave_queue(state, run)
    in_blackout = job.hold is Hold.BLACKOUT and blackout_at(job.job.blackouts, run.key.scheduled_for) is not None
    if run.state is LAUNCHING or (in_blackout and is_of_schedule(run) and run.key.scheduled_for <= job.since):
        # Also what an earlier schedule decided, under a clock that was ahead: the current one would not plan it again.
        turn.move(run, WAITING)
        enqueue(lane, run)
    elif in_blackout and is_of_schedule(run):
        # It was entered ahead, then the blackout was added, and no owner saw it before the first one died.
        drop(job, run)
        turn.withdraw(run.key)
        job.watermark = min(job.watermark, run.key.scheduled_for - 1)
        turn.keep_job(job, may_rewind=True)
    else:
        assert run.state is PLANNED
        if job.planned is None:
            job.planned = {}
        job.planned[run.key] = run
        state.ring.put(run.due_at(turn.now), run)
    # All of them: this may have been the last answer that runs of other lanes waited for.
    for one in list((job.lanes or {}).values()):
        drain(state, turn, job, one)


def refused(state: State, turn: Turn, message: LaunchRefused) -> None:
    """The executor refused it: it waits in front, for a time that doubles up to a minute."""
    found = _find(state, turn, message)
    if found is None:
        return
    job, run = found
    if run.state is RUNNING:
        return  # it was offered twice, because an answer came twice; the first was accepted
    wait_us = min(state.settings.launch_retry_us << min(run.refusals, 10), MINUTE)
    run.refusals += 1
    if _wait_again(state, turn, job, run, turn.now + wait_us, message.detail):
        turn.log("run.launch_refused", run=run.key.run_id, detail=message.detail, tries=run.refusals)


def launch_written(state: State, turn: Turn, job: JobState, run: OpenRun) -> None:
    """The ledger has recorded the launch of a run: launch it, unless it should stop by now, or this node may not."""
    if run.stop_detail is not None:
        _wait_again(state, turn, job, run, turn.now, run.stop_detail)
    elif state.is_lease_over(turn.now):
        # Another node may own it now, and may have given it up already.
        run.awaits_ledger = True
        state.unlaunched[run.key] = run
    else:
        turn.launch(run, job, is_confirmed=True)


def launch_held(state: State, turn: Turn) -> None:
    """The lease is renewed, and this node knows which buckets it lost meanwhile: launch the rest."""
    held, state.unlaunched = state.unlaunched, {}
    for run in held.values():
        run.awaits_ledger = False
        job = state.jobs.get(run.key.job_id)
        if job is not None and job.active_run(run.key) is run:
            launch_written(state, turn, job, run)


def crowded(state: State, turn: Turn, run: OpenRun, *, is_outranked: bool) -> None:
    """Runs of other nodes fill its queue: it asks again, because no node announces a free place."""
    job = state.jobs.get(run.key.job_id)
    if job is None or job.active_run(run.key) is not run:
        state.orphans.pop(run.key, None)  # its next owner knows it as it was before
        return
    run.has_waited = True
    queue = state.queue_of(job)
    if queue is not None:
        note_wait(run, wait_for_queue(job, queue, turn.now))
    run.yields += is_outranked
    detail = f"the queue {job.job.queue!r} is full, here and on other nodes"
    if is_outranked:
        detail = f"a run with a higher priority waits for the place in the queue {job.job.queue!r}"
    _wait_again(state, turn, job, run, turn.now + state.settings.launch_retry_us, detail)


def _wait_again(state: State, turn: Turn, job: JobState, run: OpenRun, not_before: Instant, detail: str) -> bool:
    """Put a run that was not started before the waiting ones; False: it was asked to stop, and has ended."""
    lane = job.lane_of(run.key)
    del lane.active[run.key]
    leave_queue(state, run)
    run.attempt -= 1
    if run.stop_detail is not None:
        cancel(state, turn, job, run, run.stop_detail)
        drain(state, turn, job, lane)
        return False
    run.not_before = not_before
    turn.move(run, WAITING, detail=detail)
    run.has_wait_detail = run.trigger is Trigger.SCHEDULER and not run.key.origin
    enqueue(lane, run)
    state.ring.put(not_before, run)
    return True

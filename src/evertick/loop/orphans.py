"""Runs that this node started for jobs that another node owns now: this node reports to the owner how they end."""

from __future__ import annotations

from collections.abc import Iterable

from evertick.loop.effects import LookUpStops, Stop
from evertick.loop.messages import (
    LaunchRefused,
    RunFinished,
    RunHeartbeat,
    RunLost,
    RunStarted,
    RunUnknown,
    StepsSeen,
    StopsSeen,
)
from evertick.loop.runs import OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.attempts import read_attempts
from evertick.model.lifecycle import LOST, RUNNING, WAITING, RunState
from evertick.model.loss import LossReason, read_loss
from evertick.model.report import AttemptReport


def settle_orphan(state: State, turn: Turn, message: AttemptReport) -> bool:
    """Report how a run of another node's job ended."""
    if state.owns(message.key.job_id):
        return False
    if isinstance(message, RunStarted | RunHeartbeat | StepsSeen):
        return _note_orphan_report(state, turn, message)
    if _is_late(state, message):
        return True
    state.orphans.pop(message.key, None)
    if not isinstance(message, RunUnknown):
        state.looked_up.pop(message.key, None)
    if isinstance(message, RunFinished):
        turn.forward(message)
        return True
    if isinstance(message, RunLost | LaunchRefused | RunUnknown):
        reason, detail = _of_lost(state, message)
        ended = RunFinished(message.key, message.attempt, turn.now, LOST, detail=detail, loss=reason)
        if isinstance(message, RunLost):
            at = turn.now if message.at is None else message.at
            ended = ended._replace(at=at, steps=message.steps, executor=message.executor)
        turn.forward(ended)
        return True
    return False


def _is_late(state: State, message: AttemptReport) -> bool:
    """Whether it reports as not started an attempt that has started since, after it was offered once more."""
    run = state.orphans.get(message.key)
    if run is None or run.attempt != message.attempt:
        return False
    if isinstance(message, LaunchRefused) and not run.was_asked and is_outdated(run, message):
        return True
    if run.state is not RUNNING:
        return False
    return isinstance(message, LaunchRefused) or (isinstance(message, RunUnknown) and not run.was_asked)


def is_outdated(run: OpenRun, refused: LaunchRefused) -> bool:
    """Whether an earlier launch of the same attempt was refused, not the last one."""
    return refused.fence is not None and refused.fence < run.fence


def forward_unwritten(state: State, turn: Turn, runs: Iterable[OpenRun]) -> None:
    """Report attempts that have ended here, of jobs that were taken: the new owner may believe that they are active.

    It waits for this node, which is alive, and no other node can tell. A report that the owner already has changes
    nothing. All of them are reported, because this node does not know which one the ledger has received last.
    """
    for run in runs:
        if run.executor != state.local_executor:
            continue
        for ended in read_attempts(run.earlier):
            if ended.executor == state.local_executor:
                at = turn.now if ended.finished_at is None else ended.finished_at
                known = (RunState(ended.state), ended.exit_code, ended.detail)
                turn.forward(RunFinished(run.key, ended.attempt, at, *known, loss=read_loss(ended.loss)))
        if run.state is WAITING:
            detail = f"the node {state.node!r} did not start it"
            attempt, reason = run.attempt + 1, LossReason.NOT_STARTED
            turn.forward(RunFinished(run.key, attempt, turn.now, LOST, detail=detail, loss=reason))


def _of_lost(state: State, message: RunLost | LaunchRefused | RunUnknown) -> tuple[LossReason, str]:
    """Why an attempt has no result, as a reason and as text."""
    if isinstance(message, RunLost):
        return message.reason, message.detail
    if isinstance(message, LaunchRefused):
        return LossReason.NOT_STARTED, message.detail
    if state.looked_up.pop(message.key, False):
        return LossReason.PROCESS_GONE, f"the node {state.node!r} that had it does not know its result"
    return LossReason.NOT_STARTED, f"the node {state.node!r} never started it"


def _note_orphan_report(state: State, turn: Turn, message: RunStarted | RunHeartbeat | StepsSeen) -> bool:
    """It is active, and must report that to the node that started it: otherwise its owner would wait forever."""
    run = state.orphans.get(message.key)
    if run is None or run.attempt != message.attempt:
        return False
    if isinstance(message, RunStarted):
        run.state, run.lease_us = RUNNING, message.lease_us
    if run.lease_us is not None:
        run.lease_until = turn.now + run.lease_us
    return True


def look_for_stops(state: State, turn: Turn) -> None:
    """Ask the ledger which of them their owners want stopped: the owners cannot reach the executor that has them."""
    if state.is_looking_for_stops or turn.now < state.next_stops_look_at:
        return
    keys = {*state.orphans, *state.looked_up}
    state.stopped_orphans = {one for one in state.stopped_orphans if one[0] in keys}
    if keys:
        state.next_stops_look_at = turn.now + state.settings.interval_us
        state.is_looking_for_stops = True
        turn.do(LookUpStops(sorted(keys), state.local_executor))


def stops_seen(state: State, turn: Turn, message: StopsSeen) -> None:
    state.is_looking_for_stops = False
    for key, attempt, detail in message.wanted:
        is_here = key in state.orphans or key in state.looked_up
        if is_here and (key, attempt) not in state.stopped_orphans and not state.owns(key.job_id):
            state.stopped_orphans.add((key, attempt))
            turn.log("run.stopped_for_owner", run=key.run_id, attempt=attempt, detail=detail)
            turn.do(Stop(key, attempt, detail))


def give_up_silent(state: State, turn: Turn) -> None:
    """Runs of other nodes' jobs about which nothing was reported for the time of their lease."""
    for run in [run for run in state.orphans.values() if run.lease_until is not None and run.lease_until <= turn.now]:
        del state.orphans[run.key]
        detail = "its executor sent no heartbeat in time"
        turn.forward(RunFinished(run.key, run.attempt, turn.now, LOST, detail=detail, loss=LossReason.NO_HEARTBEAT))

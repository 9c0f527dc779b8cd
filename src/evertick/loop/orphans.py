"""Runs that this node started for jobs that are somebody else's by now: their owner is told how they end."""

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
    """A run of a job that is somebody else's now: they are told how it ended."""
    if state.owns(message.key.job_id):
        return False
    if isinstance(message, RunStarted | RunHeartbeat | StepsSeen):
        return _hear_of_orphan(state, turn, message)
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
    """Whether it says that an attempt was not started which has started since, when it was offered once more."""
    run = state.orphans.get(message.key)
    if run is None or run.attempt != message.attempt or run.state is not RUNNING:
        return False
    return isinstance(message, LaunchRefused) or (isinstance(message, RunUnknown) and not run.was_asked)


def forward_unwritten(state: State, turn: Turn, runs: Iterable[OpenRun]) -> None:
    """Attempts that are over here, of jobs that were taken: the next owner may have read that they go on.

    It waits for this node, which is alive, and nobody else could tell. Said of what it knows already, it is no news.
    All of them: which one the ledger has heard of last is not known here, and it is the only one that is news.
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
    """Why an attempt has no result, and in words."""
    if isinstance(message, RunLost):
        return message.reason, message.detail
    if isinstance(message, LaunchRefused):
        return LossReason.NOT_STARTED, message.detail
    if state.looked_up.pop(message.key, False):
        return LossReason.PROCESS_GONE, f"the node {state.node!r} that had it does not know its result"
    return LossReason.NOT_STARTED, f"the node {state.node!r} never started it"


def _hear_of_orphan(state: State, turn: Turn, message: RunStarted | RunHeartbeat | StepsSeen) -> bool:
    """It goes on, and has to show so to the node that started it: its owner would wait for it for ever."""
    run = state.orphans.get(message.key)
    if run is None or run.attempt != message.attempt:
        return False
    if isinstance(message, RunStarted):
        run.state, run.lease_us = RUNNING, message.lease_us
    if run.lease_us is not None:
        run.lease_until = turn.now + run.lease_us
    return True


def look_for_stops(state: State, turn: Turn) -> None:
    """Ask the ledger which of them their owners want ended: the owners cannot reach the executor that has them."""
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
    """Runs of jobs that are somebody else's now, and of which nothing was heard for their lease."""
    for run in [run for run in state.orphans.values() if run.lease_until is not None and run.lease_until <= turn.now]:
        del state.orphans[run.key]
        detail = "its executor sent no heartbeat in time"
        turn.forward(RunFinished(run.key, run.attempt, turn.now, LOST, detail=detail, loss=LossReason.NO_HEARTBEAT))

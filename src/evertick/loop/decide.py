"""The loop: what to do, given the state, the messages and the time.

An iteration has a fixed order: drain messages, plan, fire what is due, settle what ended, clean up after the grace,
report statistics. It reads no clock, touches no disk and never waits; the same code runs in production and in the
simulator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from evertick.loop import (
    audit,
    chain,
    clocks,
    deadlines,
    jobs,
    orphans,
    ownership,
    peers,
    placement,
    reports,
    requests,
    run_end,
    subruns,
)
from evertick.loop.batch_builder import changes_to_write
from evertick.loop.constraints import outcomes_seen
from evertick.loop.delivery import note_answered
from evertick.loop.effects import Decision, Resync
from evertick.loop.fire import RESTART, drain_queues, drop_waiting_retries, fire_due, retry_unplaced
from evertick.loop.messages import (
    AttemptSeen,
    BackfillJob,
    BatchCommitted,
    BatchFenced,
    BlackoutsSeen,
    BucketsGained,
    BucketsLost,
    CancelRun,
    ChangesRecorded,
    DefinitionEventsLost,
    DefinitionsChanged,
    DefinitionsResynced,
    ForwardedReport,
    LaunchRefused,
    LeaseRenewed,
    MembersSeen,
    Message,
    NodesSeen,
    OpenRunsSeen,
    OrphansFound,
    OutcomesSeen,
    PauseJob,
    PlacementsSeen,
    ReportsRead,
    ResumeJob,
    RunFinished,
    RunHeartbeat,
    RunLost,
    RunStarted,
    RunUnknown,
    Shutdown,
    StepsSeen,
    StopsSeen,
    SubRunsSeen,
    SubRunUnwanted,
    SubRunWanted,
    TimePassed,
    TriggerJob,
    UpstreamEnded,
)
from evertick.loop.plan import drop, is_ledger_behind, is_lull, plan_ahead, report_missed, settle_catchup
from evertick.loop.state import PendingBatch, State
from evertick.loop.turn import Turn
from evertick.model.instant import Instant, to_text
from evertick.model.lifecycle import PLANNED, RETRYING, RUNNING, TERMINAL, Trigger
from evertick.model.loss import LossReason
from evertick.model.run import Change, Entry, RunKey
from evertick.planning.catchup import is_missed


def decide(state: State, messages: Sequence[Message], now: Instant) -> Decision:
    """One iteration."""
    turn = Turn(state, now)
    state.statistics.iterations += 1
    clocks.note_time(state, turn)
    for message in messages:
        _take(state, turn, message)
    if state.blackout_bounds:
        jobs.pass_blackout_bounds(state, turn)
    plan_ahead(state, turn)
    for job in turn.planned:
        jobs.drain_all(state, turn, job)
    for run in fire_due(state, turn):
        if run.state is RUNNING:  # a run may have several places in the ring, all for the end of one lease
            detail = "its executor sent no heartbeat in time"
            run_end.lose(state, turn, state.jobs[run.key.job_id], run, LossReason.NO_HEARTBEAT, detail)
    drain_queues(state, turn)
    report_missed(turn)
    deadlines.judge(state, turn)
    _fire_stops(state, turn)
    orphans.give_up_silent(state, turn)
    orphans.look_for_stops(state, turn)
    subruns.settle(state, turn)
    subruns.look_up(state, turn)
    audit.ask(state, turn)
    _clean_up(state, turn)
    return Decision(turn.effects(), _wake_at(state, now))


def _take(state: State, turn: Turn, message: Message) -> None:
    match message:
        case RunStarted():
            reports.started(state, turn, message)
        case RunFinished():
            reports.finished(state, turn, message)
        case StepsSeen():
            reports.steps_seen(state, turn, message)
        case RunHeartbeat():
            reports.heartbeat(state, turn, message)
        case ChangesRecorded():
            _recorded(state, turn, message)
        case BatchCommitted():
            _committed(state, turn, message)
        case BatchFenced():
            _fenced(state, turn, message)
        case TimePassed(boottime_us):
            clocks.compare_clocks(state, turn, boottime_us)
        case RunLost():
            reports.lost(state, turn, message)
        case RunUnknown():
            reports.unknown(state, turn, message)
        case LaunchRefused():
            reports.refused(state, turn, message)
        case SubRunWanted():
            subruns.wanted(state, turn, message)
        case SubRunUnwanted():
            subruns.unwanted(state, turn, message)
        case SubRunsSeen():
            subruns.seen(state, turn, message)
        case StopsSeen():
            orphans.stops_seen(state, turn, message)
        case AttemptSeen():
            reports.found_running(state, turn, message)
        case MembersSeen():
            _continue_jobs(state, turn, placement.members_seen(state, message))
        case OutcomesSeen():
            run = outcomes_seen(state, message)
            if run is not None:
                state.ring.put(turn.now, run)
        case OpenRunsSeen():
            audit.seen(state, turn, message)
        case PlacementsSeen():
            _continue_jobs(state, turn, placement.placements_seen(state, message))
        case DefinitionsChanged():
            jobs.changed(state, turn, message)
        case DefinitionsResynced():
            jobs.resynced(state, turn, message)
        case DefinitionEventsLost():
            turn.do(Resync())
        case BlackoutsSeen():
            jobs.blackouts_seen(state, turn, message)
        case BucketsGained():
            ownership.gained(state, turn, message)
        case BucketsLost():
            ownership.lost(state, turn, message)
        case LeaseRenewed(until):
            _renewed(state, turn, until)
        case OrphansFound():
            ownership.found(state, turn, message)
        case NodesSeen():
            peers.seen(state, turn, message)
        case ReportsRead():
            peers.reports_read(state, turn, message)
        case UpstreamEnded():
            _arrived(state, turn, message)
        case ForwardedReport():
            peers.forwarded(state, turn, message)
        case TriggerJob():
            requests.trigger(state, turn, message)
        case CancelRun():
            requests.cancel_runs(state, turn, message)
        case PauseJob():
            requests.pause(state, turn, message)
        case ResumeJob():
            requests.resume(state, turn, message)
        case BackfillJob():
            requests.backfill(state, turn, message)
        case Shutdown(ends_runs):
            state.is_stopping = True
            if ends_runs:
                _end_runs(state, turn)


# --- the ledger's answers


def _committed(state: State, turn: Turn, message: BatchCommitted) -> None:
    """The entries are durable: from now on their runs may start."""
    pending = state.batches.pop(message.number, None)
    if pending is None:
        return
    for request_id in pending.batch.answers:
        note_answered(state, request_id)
    for job_id, deadline in pending.misses.items():
        deadlines.report_missed(state, turn, job_id, deadline)
    for run in pending.launches:
        job = state.jobs.get(run.key.job_id)
        run.awaits_ledger = run.is_inherited = False
        if run.key in message.crowded:
            reports.crowded(state, turn, run, is_outranked=run.key in message.outranked)
        elif run.key in message.overruled:
            state.orphans.pop(run.key, None)
            reports.disowned(state, turn, run.key, run.fence)
        elif job is not None and job.active_run(run.key) is run:
            reports.launch_written(state, turn, job, run)
        elif state.orphans.pop(run.key, None) is run:
            # Its job moved to another node before this answer came: no node will start it, and its owner must know.
            turn.forward(ownership.never_started(run, turn.now))
    for key in sorted(message.overruled.difference(run.key for run in pending.launches)):
        _overruled(state, turn, key, pending.batch.changes)
    _forget_ends(state, pending.batch.changes)
    if state.sub_run_ends:
        refused = message.refused | message.overruled
        subruns.recorded(state, turn, (*pending.batch.changes, *pending.batch.entries), refused)
    for run in pending.runs:
        run.early_change = None
        job = state.jobs.get(run.key.job_id)
        if job is None:
            continue
        if run.key in message.refused:
            if job.find(run.key) is run:
                drop(job, run)  # another node decided this occurrence, and its decision counts
                settle_catchup(state, turn, run, is_dispatched=False)
            continue
        run.in_ledger = True
        state.ring.put(run.due_at(turn.now), run)


def _fenced(state: State, turn: Turn, message: BatchFenced) -> None:
    """Another node owns the buckets, and with them everything that this node had decided about them."""
    pending = state.batches.get(message.number)
    if pending is None:
        return
    state.statistics.fenced += 1
    # The answer may be older than our regaining a bucket under a new epoch.
    epochs = pending.batch.epochs
    fenced = {bucket: epochs[bucket] for bucket in message.buckets if bucket in epochs}
    ownership.lost(state, turn, BucketsLost(fenced, is_fenced=True))
    for refused in _take_refused(state, message.number, fenced):
        lost = {bucket for bucket, epoch in fenced.items() if refused.epochs.get(bucket) == epoch}
        turn.write_ends(changes_to_write(refused.batch, lost))
        # What it requests of other jobs is valid although this node owns nothing of it any more.
        if len(lost) < len(refused.epochs) or refused.batch.requests:
            turn.resubmit(refused, lost)


def _take_refused(state: State, number: int, fenced: Mapping[int, int]) -> list[PendingBatch]:
    """The fenced batch, and all that rest on the same epochs: these will be fenced too.

    All are written again now, in their order: otherwise later decisions would tell the ledger how far planning has come
    before the ledger has what was planned.
    """
    refused = [
        one
        for one, pending in sorted(state.batches.items())
        if one == number or any(pending.batch.epochs.get(bucket) == epoch for bucket, epoch in fenced.items())
    ]
    return [state.batches.pop(one) for one in refused]


def _recorded(state: State, turn: Turn, message: ChangesRecorded) -> None:
    answered = [number for number in message.numbers if number in state.records]
    if not answered:
        return  # a duplicate
    changes = [change for number in answered for change in state.records.pop(number)]
    state.changes_in_flight -= len(changes)
    if state.sub_run_ends:
        subruns.recorded(state, turn, changes, message.refused)
    for key in sorted(message.refused):
        _overruled(state, turn, key, changes)
    _forget_ends(state, changes)


def _forget_ends(state: State, changes: Iterable[Change]) -> None:
    """The ledger has answered: it has these ends, or a refused one was forwarded to its owner."""
    for change in changes:
        if change.state in TERMINAL:
            state.unwritten_ends.pop(change.key, None)


def _overruled(state: State, turn: Turn, key: RunKey, changes: Iterable[Change]) -> None:
    """The ledger refused our change to a run: another node's version counts."""
    turn.log("run.change_refused", run=key.run_id)
    ended = state.unwritten_ends.get(key)
    if ended is not None and ended.finished_at is not None:
        # It ended here, and another node owns its job now: that node must know how.
        run = ended.run
        known = (ended.finished_at, run.state, ended.exit_code, ended.detail, run.steps or None)
        turn.forward(RunFinished(key, run.attempt, *known))
    reports.disowned(state, turn, key, max((change.fence for change in changes if change.key == key), default=0))


def _renewed(state: State, turn: Turn, until: Instant) -> None:
    was_over = state.is_lease_over(turn.now)
    state.lease_until = until
    if was_over and not state.is_lease_over(turn.now):
        reports.launch_held(state, turn)
        # Runs that could have continued meanwhile were not started, and nothing else wakes them.
        _continue_jobs(state, turn, [job_id for job_id, job in state.jobs.items() if job.lanes])


def _continue_jobs(state: State, turn: Turn, job_ids: Iterable[str]) -> None:
    """What these jobs' runs waited for may be over."""
    for job_id in job_ids:
        job = state.jobs.get(job_id)
        if job is not None and job.lanes:
            retry_unplaced(state, turn, job)
            jobs.drain_all(state, turn, job)


def _arrived(state: State, turn: Turn, message: UpstreamEnded) -> None:
    chain.arrived(state, turn, message)
    job = state.jobs.get(message.job_id)
    if job is not None and job.lanes:
        jobs.drain_all(state, turn, job)  # an occurrence may have waited for it


# --- stop and restart schedules: when due, within the grace, or not at all


def _fire_stops(state: State, turn: Turn) -> None:
    if state.is_stopping or state.is_lease_over(turn.now):
        return
    for instant, members in state.stops.advance(turn.now):
        for member in members:
            kind, _, job_id = member.partition(":")
            job = state.jobs.get(job_id)
            if job is None or job.hold is not None or is_missed(instant, turn.now, job.job.policy.grace_us):
                continue
            own = (job.lanes or {}).get("")
            was_active = own is not None and bool(own.active)
            if own is not None:
                for active in list(own.active.values()):
                    turn.ask_to_stop(active, f"stopped by its {kind} schedule at {to_text(instant)}")
                drop_waiting_retries(state, turn, job, own)
            if kind == RESTART and was_active:  # a restart without an active run does nothing
                key = RunKey(job_id, instant, RESTART)
                turn.enter_once(job, Entry(key, PLANNED, Trigger.SCHEDULER, turn.now, detail="by its restart schedule"))


def _end_runs(state: State, turn: Turn) -> None:
    """Stop all active runs; the next scheduler finds runs that wait or are between two attempts."""
    for job in state.jobs.values():
        for lane in (job.lanes or {}).values():
            for run in lane.active.values():
                if run.state is not RETRYING:
                    turn.ask_to_stop(run, "stopped because the scheduler stopped")


# --- the end of an iteration


def _clean_up(state: State, turn: Turn) -> None:
    # The ledger answers about all but those that were not written, because their buckets were lost.
    if state.unwritten_ends and not _has_unanswered_changes(state, turn):
        ends = takewhile(lambda one: one[1].forget_at <= turn.now, state.unwritten_ends.items())
        for key in [key for key, _ in ends]:
            del state.unwritten_ends[key]
    if state.retiring:
        jobs.end_retired(state, turn)


def _has_unanswered_changes(state: State, turn: Turn) -> bool:
    if state.changes_in_flight or turn.has_changes:
        return True
    return any(pending.batch.changes for pending in state.batches.values())


def _wake_at(state: State, now: Instant) -> Instant:
    """The next instant at which there is something to do; at most one loop interval from now, or two in a lull."""
    wake_at = now + state.settings.interval_us * (2 if is_lull(state) else 1)
    if not (state.is_stopping or is_ledger_behind(state)):
        wake_at = min(max(state.next_plan_at, now), wake_at)
    if not (state.is_stopping or state.is_lease_over(now)):
        for at in (state.ring.next_at(), state.stops.next_at(), state.deadlines.next_at()):
            if at is not None and at < wake_at:
                wake_at = at
    if state.blackout_bounds:
        wake_at = min(wake_at, state.blackout_bounds[0][0])
    return max(wake_at, now)

"""Jobs that are added, changed, removed, paused and resumed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop, heappush

from evertick.loop import deadlines
from evertick.loop.chain import link, start_chained
from evertick.loop.fire import cancel, drain, is_of_schedule
from evertick.loop.job_state import Hold, JobState
from evertick.loop.messages import BlackoutsSeen, DefinitionsChanged, DefinitionsResynced
from evertick.loop.placement import neighbours
from evertick.loop.plan import drop, hold_in_error, settle_job
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.answer import RESUMED
from evertick.model.blackout import Blackout, blackout_at
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.lifecycle import PLANNED, RETRYING, SKIPPED, SkipReason, Trigger
from evertick.model.policy import Missed, OverlapKind
from evertick.model.run import Entry, RunKey
from evertick.model.schedule import AtSpec, ScheduleSpec, specs_to_text
from evertick.planning.catchup import is_missed
from evertick.planning.entries import planned_facts
from evertick.planning.schedules import compile_all


def changed(state: State, turn: Turn, message: DefinitionsChanged) -> None:
    for job_id in message.removed:
        _remove(state, turn, job_id)
    for job in message.jobs:
        _put(state, turn, job)
    _judge_missing(state, turn, is_whole=message.is_whole)


def resynced(state: State, turn: Turn, message: DefinitionsResynced) -> None:
    """Replace the set of jobs by exactly these."""
    present = {job.id for job in message.jobs}
    for job_id in [job_id for job_id in state.definitions if job_id not in present]:
        _remove(state, turn, job_id)
    for job in message.jobs:
        if state.definitions.get(job.id) != job:
            _put(state, turn, job)
    _judge_missing(state, turn, is_whole=message.is_whole)


def _judge_missing(state: State, turn: Turn, *, is_whole: bool) -> None:
    """When every definition can be read again, a job that is still missing is deleted."""
    was_whole, state.is_whole = state.is_whole, is_whole
    if is_whole and not was_whole:
        for job_id, job in state.jobs.items():
            if job_id not in state.definitions and job.retired_at is None:
                retire(state, turn, job)


def _put(state: State, turn: Turn, job: Job) -> None:
    link(state, state.definitions.get(job.id), job)
    state.definitions[job.id] = job
    if not state.owns(job.id):
        return
    if state.blackouts:
        job = job.with_blackouts(state.blackouts)
    known = state.jobs.get(job.id)
    if known is None or known.is_gone:
        add_job(state, turn, job)
    elif known.hold is Hold.RETIRED:
        _return(state, turn, known, job)
    else:
        _edit(state, turn, known, job)


def add_job(state: State, turn: Turn, definition: Job) -> None:
    """A job seen for the first time: times before now are not part of its history."""
    known_until = state.removed.pop(definition.id, turn.now)
    since = max(turn.now, known_until)
    job = JobState(definition, since)
    gone = state.jobs.get(definition.id)
    if gone is not None:
        job.lanes, job.asked = gone.lanes, gone.asked  # its last runs are still active, and count
        _wake_retries(state, turn, job)
        state.retiring.pop(definition.id, None)
    state.jobs[definition.id] = job
    if known_until < since:
        turn.begin_schedule(job, known_until, "[]")  # nothing was due while it was away
    turn.begin_schedule(job, since, specs_to_text(definition.schedules))
    deadlines.begin(state, job, since)
    turn.keep_job(job)
    turn.define(job)
    turn.log("job.added", job=definition.id)
    _enter_past(turn, job, definition.schedules)
    activate(state, turn, job)


def _wake_retries(state: State, turn: Turn, job: JobState) -> None:
    """Runs may have come due while there was no definition."""
    for run in job.open_runs():
        if run.state is RETRYING:
            state.ring.put(max(turn.now, run.retry_at or 0), run)


def _enter_past(turn: Turn, job: JobState, schedules: Iterable[ScheduleSpec], *, is_back: bool = False) -> None:
    """One-offs that are past at first sight: run within the grace, otherwise record as missed, never run.

    For a job that `is_back` this may not be the first sight: up to its watermark the plan has decided.
    """
    for spec in schedules:
        if not isinstance(spec, AtSpec):
            continue
        key = RunKey(job.job.id, spec.instant)
        is_decided = spec.instant <= job.watermark
        if is_back and not is_decided:
            continue
        # By another node's clock the job may be planned beyond now; a schedule that is not in force yet starts nothing.
        if _is_past(spec, turn, job) or (is_decided and job.since > turn.now):
            detail = "its time had already passed when the scheduler first read it"
            turn.enter(Entry(key, SKIPPED, Trigger.SCHEDULER, turn.now, reason=SkipReason.MISSED, detail=detail))
            turn.past[job.job.id] = (*turn.past.get(job.job.id, ()), spec.instant)
        elif is_decided and job.find(key) is None:
            # The watcher may see a file that says "in two seconds" after those two seconds: the run must not be lost.
            facts = planned_facts(job.job, spec.instant)
            run = turn.enter(Entry(key, PLANNED, Trigger.SCHEDULER, turn.now, facts=facts))
            assert run is not None
            if job.planned is None:
                job.planned = {}
            job.planned[key] = run


def _is_past(spec: ScheduleSpec, turn: Turn, job: JobState) -> bool:
    return isinstance(spec, AtSpec) and is_missed(spec.instant, turn.now, job.job.policy.on_time_us)


def activate(state: State, turn: Turn, job: JobState) -> None:
    """Plan a job from its watermark on, unless it is disabled or invalid."""
    if not _can_be_read(state, turn, job):
        return
    if not job.job.enabled:
        if job.hold is not Hold.DISABLED:
            job.watermark = _withdraw(state, turn, job)
        job.hold, job.idle_reason = Hold.DISABLED, SkipReason.DISABLED
        deadlines.suspend(job)
        turn.keep_job(job, may_rewind=True)
        return
    job.error = ""
    if blackout_at(job.job.blackouts, state.furthest_now) is not None:
        job.watermark = _withdraw(state, turn, job)
        job.hold = Hold.BLACKOUT
        deadlines.suspend(job)
        turn.keep_job(job, may_rewind=True)
        return
    if job.hold not in (None, Hold.RETIRED):
        deadlines.resume(job, turn.now)
    job.hold = None
    deadlines.watch(state, job, turn.now)
    state.to_plan[job.job.id] = None
    turn.keep_job(job, may_rewind=True)
    drain_all(state, turn, job)
    start_chained(turn, job)


def drain_all(state: State, turn: Turn, job: JobState) -> None:
    for lane in job.lanes_in_turn():
        if lane.waiting and lane.active and job.overlap_of(lane).kind is OverlapKind.REPLACE:
            replaced = [run for newer in lane.waiting for run in neighbours(job, lane, newer, lane.active.values())]
            for run in replaced:
                turn.ask_to_stop(run, "replaced by a newer run")
        drain(state, turn, job, lane)


def _can_be_read(state: State, turn: Turn, job: JobState) -> bool:
    """Whether the definition is valid; if not, the job is held in error."""
    error = job.job.invalid
    try:
        compile_all(job.job.schedules)
        _watch_stops(state, job.job)
        _watch_blackouts(state, job.job)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    if error:
        watermark = state.watermark_of(job) if job.job.id in state.index else job.watermark
        hold_in_error(state, turn, job, watermark, error)
    return not error


def _watch_stops(state: State, job: Job) -> None:
    for kind, specs in (("stop", job.stops), ("restart", job.restarts)):
        if specs:
            state.stops.add(f"{kind}:{job.id}", specs)
        else:
            state.stops.remove(f"{kind}:{job.id}")


def _watch_blackouts(state: State, job: Job) -> None:
    for one in job.blackouts:
        for at in (one.start, one.end):
            if at > state.furthest_now:
                heappush(state.blackout_bounds, (at, job.id))


def blackouts_seen(state: State, turn: Turn, message: BlackoutsSeen) -> None:
    """Blackouts were added or removed: a job is written only if it is in one now, or what is entered ahead of it is."""
    if message.blackouts == state.blackouts:
        return
    state.blackouts = message.blackouts
    for job_id, job in state.jobs.items():
        definition = state.definition_of(job_id)
        if definition is None or job.is_gone or definition.blackouts == job.job.blackouts:
            continue
        former, job.job = job.job.blackouts, definition
        _watch_blackouts(state, definition)
        inside = blackout_at(definition.blackouts, state.furthest_now)
        if job.hold is Hold.BLACKOUT and inside is None:
            # What was due in it is settled as at its end: one that was removed ends at that instant.
            turn.log("job.blackout_over", job=job_id)
            activate(state, turn, job)
        elif job.hold is None and (inside is not None or _is_other_ahead(job, former)):
            job.watermark = _withdraw(state, turn, job)
            activate(state, turn, job)
            if inside is not None:
                turn.log("job.held", job=job_id, why=str(inside))


def _is_other_ahead(job: JobState, former: tuple[Blackout, ...]) -> bool:
    """Whether an occurrence that is entered ahead has come to be in a blackout, or is in none any more."""
    ahead = [key.scheduled_for for key in job.planned or ()]
    return any(blackout_at(former, at) != blackout_at(job.job.blackouts, at) for at in ahead)


def pass_blackout_bounds(state: State, turn: Turn) -> None:
    """Hold the jobs whose blackout begins, before anything fires, and release those whose blackout is over."""
    bounds = state.blackout_bounds
    while bounds and bounds[0][0] <= state.furthest_now:
        _, job_id = heappop(bounds)
        job = state.jobs.get(job_id)
        if job is None:
            continue
        inside = blackout_at(job.job.blackouts, state.furthest_now)
        if inside is None and job.hold is Hold.BLACKOUT:
            turn.log("job.blackout_over", job=job_id)
            activate(state, turn, job)
        elif inside is not None and job.hold is None:
            _black_out(state, turn, job, inside)


def _black_out(state: State, turn: Turn, job: JobState, blackout: Blackout) -> None:
    """Nothing of it fires from the first instant on, which may be now: what was entered ahead is withdrawn."""
    before = blackout.start - 1
    watermark = state.watermark_of(job)
    if job.job.id in state.index and watermark < before and settle_job(state, turn, job, watermark, before):
        watermark = before  # the loop was late: what was due before is not the blackout's
    for run in list((job.planned or {}).values()):
        if run.key.scheduled_for > before and is_of_schedule(run):
            drop(job, run)
            turn.withdraw(run.key)
    state.index.remove(job.job.id)
    state.to_plan.pop(job.job.id, None)
    if job.hold is not None:
        return  # it cannot be planned, and is held in error
    job.watermark, job.hold, job.idle_reason = min(watermark, before), Hold.BLACKOUT, SkipReason.MISSED
    deadlines.suspend(job)
    turn.keep_job(job, may_rewind=True)
    turn.log("job.held", job=job.job.id, why=str(blackout))


def _edit(state: State, turn: Turn, known: JobState, job: Job) -> None:
    old, known.job = known.job, job
    turn.define(known)
    if known.hold is Hold.BLACKOUT and old.blackouts != job.blackouts:
        known.idle_reason = SkipReason.PAUSED  # the definition may no longer say why nothing was planned
    was_disabled = known.hold is Hold.DISABLED
    if old.policy.expectation != job.policy.expectation:
        deadlines.begin(state, known, turn.now)
        if known.hold is None:
            deadlines.watch(state, known, turn.now)
        turn.keep_job(known)
    is_replanned = (old.schedules, old.invalid, old.blackouts) != (job.schedules, job.invalid, job.blackouts)
    if is_replanned or known.hold is Hold.ERROR:
        replan(state, turn, known, old.schedules)
    elif old.enabled != job.enabled and known.hold in (None, Hold.DISABLED, Hold.BLACKOUT):
        if job.enabled:
            activate(state, turn, known)
        else:
            hold(state, turn, known, Hold.DISABLED)
    elif known.hold is None:
        if (old.stops, old.restarts) != (job.stops, job.restarts):
            _can_be_read(state, turn, known)
        drain_all(state, turn, known)  # another overlap rule may let some of them start
    turn.log("job.changed", job=job.id, schedule_changed=old.schedules != job.schedules, was_disabled=was_disabled)


def replan(
    state: State, turn: Turn, job: JobState, former: Collection[ScheduleSpec] | None, *, is_back: bool = False
) -> None:
    """The schedule has changed: withdraw planned entries; planning settles the waiting ones.

    `former` are the schedules before; None if the ledger knows only that they were different.
    """
    job.watermark = _withdraw(state, turn, job)
    job.is_edited = True
    deadlines.begin(state, job, turn.now)
    turn.begin_schedule(job, job.watermark, specs_to_text(job.job.schedules))
    if former is None:
        # An older one may have run long ago. The ledger refuses a second entry for a recent one.
        _enter_past(turn, job, (one for one in job.job.schedules if not _is_past(one, turn, job)))
    else:
        _enter_past(turn, job, set(job.job.schedules).difference(former), is_back=is_back)
    if job.hold in (None, Hold.ERROR, Hold.DISABLED, Hold.BLACKOUT):
        activate(state, turn, job)
    turn.keep_job(job, may_rewind=True)


def _withdraw(state: State, turn: Turn, job: JobState) -> Instant:
    """Withdraw planned entries that are not due yet; returns the resulting watermark, at most now."""
    watermark = min(state.watermark_of(job), state.furthest_now)
    for run in list((job.planned or {}).values()):
        if run.key.scheduled_for > state.furthest_now and is_of_schedule(run):
            drop(job, run)
            turn.withdraw(run.key)
    state.index.remove(job.job.id)
    state.to_plan.pop(job.job.id, None)
    return watermark


def hold(state: State, turn: Turn, job: JobState, why: Hold) -> None:
    """Stop planning a job; its watermark stays at the present time."""
    if job.hold is None:
        job.watermark = _withdraw(state, turn, job)
    job.hold = why
    deadlines.suspend(job)
    job.idle_reason = {Hold.PAUSED: SkipReason.PAUSED, Hold.DISABLED: SkipReason.DISABLED}.get(why, SkipReason.MISSED)
    turn.keep_job(job, may_rewind=True)
    turn.log("job.held", job=job.job.id, why=why)


def release(state: State, turn: Turn, job: JobState, keep: Missed | None) -> None:
    """Plan a paused job again; its catch-up rule, or the operator's choice, decides about the time in between."""
    job.keep = keep
    activate(state, turn, job)
    if job.hold is not None:
        # Disabled or in error: no longer paused, but not planned either.
        job.paused_at, job.pause_note = None, ""
    turn.log("job.resumed", job=job.job.id, keep=keep)


def _remove(state: State, turn: Turn, job_id: str) -> None:
    link(state, state.definitions.pop(job_id, None), None)
    job = state.jobs.get(job_id)
    if job is not None and job.hold is not Hold.RETIRED:
        retire(state, turn, job)


def retire(state: State, turn: Turn, job: JobState) -> None:
    """The definition is gone: keep the job for a while, in case its file is only being rewritten."""
    for kind in ("stop", "restart"):
        state.stops.remove(f"{kind}:{job.job.id}")
    job.retired_at = job.retired_at or turn.now
    hold(state, turn, job, Hold.RETIRED)
    state.retiring[job.job.id] = turn.now + state.settings.retire_us


def miss(state: State, turn: Turn, job: JobState) -> None:
    """The definition is missing, but an unreadable file may contain it: keep the job until that is known."""
    hold(state, turn, job, Hold.RETIRED)


def _return(state: State, turn: Turn, job: JobState, definition: Job) -> None:
    """The definition is back within the grace: continue from the watermark."""
    state.retiring.pop(definition.id, None)
    job.retired_at = None
    old, job.job = job.job, definition
    turn.define(job)
    _wake_retries(state, turn, job)
    if job.paused_at is not None:
        job.hold, job.idle_reason = Hold.PAUSED, SkipReason.PAUSED
        turn.keep_job(job)
        if old.schedules != definition.schedules:
            replan(state, turn, job, old.schedules, is_back=True)
        _drain_all(state, turn, job)
        return
    job.hold = None
    if old.schedules != definition.schedules:
        replan(state, turn, job, old.schedules, is_back=True)
    else:
        activate(state, turn, job)
    _drain_all(state, turn, job)
    turn.log("job.returned", job=definition.id)


def _drain_all(state: State, turn: Turn, job: JobState) -> None:
    """Requested runs have waited for the definition too."""
    for lane in job.lanes_in_turn():
        drain(state, turn, job, lane)


def end_retired(state: State, turn: Turn) -> None:
    """Remove jobs whose grace is over: cancel their waiting runs; nothing more is due."""
    for job_id in [job_id for job_id, at in state.retiring.items() if at <= turn.now]:
        job = state.jobs[job_id]
        for run in job.open_runs():
            if run.state is RETRYING or job.active_run(run.key) is None:
                cancel(state, turn, job, run, "its job was deleted")
        if not job.is_gone:
            job.is_gone = True
            state.late_jobs.discard(job_id)
            turn.begin_schedule(job, job.watermark, "[]")
            state.removed[job_id] = max(job.watermark, job.since)
            turn.keep_job(job, may_rewind=True)
            if job_id in state.resuming:  # it was deleted before it could be planned
                turn.answer(state.resuming.pop(job_id), job_id, RESUMED)
            turn.log("job.removed", job=job_id)
        if any(lane.active for lane in (job.lanes or {}).values()):
            state.retiring[job_id] = turn.now + state.settings.retire_us  # its last runs are still active
        else:
            del state.retiring[job_id], state.jobs[job_id]

"""Enters occurrences in the ledger, before or after they are due."""

from __future__ import annotations

from evertick.loop.deadlines import suspend
from evertick.loop.job_state import Hold, JobState
from evertick.loop.runs import Lane, OpenRun
from evertick.loop.state import Catchup, State
from evertick.loop.turn import MissedOccurrences, Turn
from evertick.model.answer import RESUMED
from evertick.model.facts import facts_text, joined, read_facts
from evertick.model.instant import Instant, to_text
from evertick.model.lifecycle import PLANNED, SKIPPED, SkipReason, Trigger
from evertick.model.run import Change, Entry, RunKey, run_key_of
from evertick.planning.entries import planned_facts
from evertick.planning.planner import JobView, Plan, plan
from evertick.planning.schedules import compile_all, next_of

_NO_LANE = Lane()


def plan_ahead(state: State, turn: Turn) -> None:
    """Enter what falls due until `preread` from now, and settle jobs that must be planned individually."""
    if state.is_stopping:
        return
    if is_ledger_behind(state):
        # The watermark stays, so nothing is lost: what is late by then is handled like everything late.
        state.statistics.planning_held_back += 1
        return
    settings, index = state.settings, state.index
    is_behind = index.horizon < max(turn.now, state.known_floor)
    if is_behind or (turn.now >= state.next_plan_at and not _must_fire_first(state, turn.now)):
        # Jobs that join are planned up to the floor of their bucket, even if another node's clock set it.
        until = max(turn.now + settings.preread_us, state.known_floor)
        if index.horizon >= turn.now:
            _enter_on_time(state, turn, until)
        else:
            _settle_stretch(state, turn, until)
        state.next_plan_at = turn.now + settings.interval_us * (2 if is_lull(state) else 1)
        if turn.now >= state.next_flush_at:
            if state.epochs:
                turn.write_floors()
            state.next_flush_at = turn.now + settings.flush_us
    if state.to_plan:
        _plan_singly(state, turn)


def _must_fire_first(state: State, now: Instant) -> bool:
    """Whether runs are due now and the plan reaches far enough to wait: launches come before planning."""
    due_at = state.ring.next_at()
    is_firing = due_at is not None and due_at <= now and not state.is_lease_over(now)
    return is_firing and state.index.horizon >= now + state.settings.preread_us // 2


def is_lull(state: State) -> bool:
    """Whether the loop may sleep for two intervals: a plan in between would find nothing, and nothing else waits."""
    settings, due_at = state.settings, state.index.next_at()
    two_intervals_us = 2 * settings.interval_us
    return (
        (due_at is None or due_at > state.index.horizon + two_intervals_us)
        and state.ring.next_at() is None
        and state.lease_until is None
        and not (state.is_stopping or state.to_plan or state.retiring or state.sub_runs or state.orphans)
        and two_intervals_us <= min(settings.preread_us, settings.stall_us // 2)
    )


def is_ledger_behind(state: State) -> bool:
    return len(state.batches) >= state.settings.batches or state.changes_in_flight >= state.settings.changes


def _enter_on_time(state: State, turn: Turn, until: Instant) -> None:
    """Nothing is late: every occurrence becomes an entry, without applying any rule."""
    now, jobs, index = turn.now, state.jobs, state.index
    entries: list[Entry] = []
    runs: list[OpenRun] = []
    while index.horizon < until:
        for instant, members in index.advance(until):
            for job_id in members:
                key = run_key_of((job_id, instant, ""))
                run = OpenRun(key, Trigger.SCHEDULER, now)
                job = jobs[job_id]
                facts = planned_facts(job.job, instant)
                if facts:
                    run.facts = run.told_facts = read_facts(facts)
                entries.append(Entry(key, PLANNED, Trigger.SCHEDULER, now, facts=facts))
                runs.append(run)
                if job.planned is None:
                    job.planned = {}
                job.planned[key] = run
    if entries:
        turn.enter_on_time(entries, runs)


def _settle_stretch(state: State, turn: Turn, until: Instant) -> None:
    """The loop was away for longer than it plans ahead: each job that was due is settled by its rules."""
    before = state.index.horizon
    for job_id in state.index.skip(until):
        job = state.jobs[job_id]
        if not settle_job(state, turn, job, before, until):
            job.watermark = before


def _plan_singly(state: State, turn: Turn) -> None:
    for job_id in list(state.to_plan):
        job = state.jobs.get(job_id)
        if job is not None and (job.asked or job.watermark > state.index.horizon):
            # The plan needs the answer of its executor; and if the clock was set back, time must first reach the point
            # up to which the job was planned.
            continue
        del state.to_plan[job_id]
        if job is None or job.hold is not None:
            continue
        if settle_job(state, turn, job, _supersede_edited(state, turn, job), state.index.horizon):
            job.is_edited = False
            job.idle_reason, job.keep = SkipReason.MISSED, None
            job.paused_at, job.pause_note = None, ""
            state.index.add(job_id, job.job.schedules)
            turn.keep_job(job)
            turn.planned.append(job)
            if job_id in state.resuming:
                turn.answer(state.resuming.pop(job_id), job_id, RESUMED)


def _supersede_edited(state: State, turn: Turn, job: JobState) -> Instant:
    """Waiting runs of another schedule are superseded; from the earliest of them on, the current schedule decides."""
    waiting = [run for run in ((job.lanes or {}).get("") or _NO_LANE).waiting if not run.key.origin]
    if not waiting:
        return job.watermark
    schedules = compile_all(job.job.schedules)  # without what the current calendar excludes
    skipped = list(turn.past.get(job.job.id, ()))
    is_edited = job.is_edited
    for run in waiting:
        if next_of(schedules, run.key.scheduled_for - 1) != run.key.scheduled_for:
            is_edited = True
            detail = "the schedule was edited while it waited"
            _skip_with_batch(
                state, turn, job, run, Change(run.key, SKIPPED, turn.now, reason=SkipReason.SUPERSEDED, detail=detail)
            )
            skipped.append(run.key.scheduled_for)
    # A calendar may exclude it: then it is still an occurrence, and the plan must not enter it a second time.
    turn.past[job.job.id] = tuple(skipped)
    return min(job.watermark, waiting[0].key.scheduled_for - 1) if is_edited else job.watermark


def settle_job(state: State, turn: Turn, job: JobState, watermark: Instant, through: Instant) -> bool:
    """Plan one job up to `through`; returns whether that worked. A job that cannot be planned affects no other job."""
    view = JobView(
        job.job,
        watermark,
        planned=tuple(sorted(key.scheduled_for for key, run in (job.planned or {}).items() if _is_undecided(run))),
        waiting=_backlog(job),
        skipped=turn.past.get(job.job.id, ()),
        excluded={key.scheduled_for: run.facts for key, run in (job.planned or {}).items() if run.facts.calendar},
        starts={key.scheduled_for: run.starts_at for key, run in (job.planned or {}).items() if run.facts.starts_at},
        idle_reason=job.idle_reason,
        keep=job.keep,
    )
    try:
        result = plan(view, turn.now, through - turn.now)
    except Exception as error:
        hold_in_error(state, turn, job, watermark, f"{type(error).__name__}: {error}")
        return False
    _apply(state, turn, job, result)
    if result.kept or result.skipped:
        turn.missed.append(MissedOccurrences(job.job.id, job.keep or job.job.policy.missed, watermark, result))
    return True


def report_missed(turn: Turn) -> None:
    """Report what was missed in this turn: all of it in one line, then by job; nothing if nothing was missed."""
    if not turn.missed:
        return
    turn.log(
        "catchup.found",
        jobs=len(turn.missed),
        candidates=sum(one.plan.kept + one.plan.skipped for one in turn.missed),
        since=to_text(min(one.since for one in turn.missed)),
        until=to_text(turn.now),
    )
    for one in turn.missed:
        turn.log("catchup.planned", job=one.job_id, missed=one.keep, kept=one.plan.kept, skipped=one.plan.skipped)
        for key, reason, occurrences in one.plan.skips():
            turn.log(
                "run.skipped",
                job=one.job_id,
                scheduled_for=to_text(key.scheduled_for),
                reason=reason,
                occurrences=occurrences,
            )


def hold_in_error(state: State, turn: Turn, job: JobState, watermark: Instant, error: str) -> None:
    job.hold, job.error, job.watermark = Hold.ERROR, error, watermark
    suspend(job)
    state.index.remove(job.job.id)
    turn.keep_job(job, may_rewind=True)
    turn.log("job.error", is_alarming=True, job=job.job.id, error=error)


def _is_undecided(run: OpenRun) -> bool:
    """Whether a planned entry was neither fired nor kept as a caught-up run."""
    return run.trigger is Trigger.SCHEDULER and not run.key.origin


def _backlog(job: JobState) -> tuple[RunKey, ...]:
    own = (job.lanes or {}).get("")
    return tuple(run.key for run in own.waiting) if own else ()


def _apply(state: State, turn: Turn, job: JobState, result: Plan) -> None:
    # By a clock that was ahead, an occurrence may be entered as missed before it is due: that run stays.
    known = {run.key for run in job.open_runs()} if result.entries else ()
    for entry in result.entries:
        if entry.key in known and entry.state is PLANNED:
            continue
        run = turn.enter(entry)
        if run is not None:
            if job.planned is None:  # most jobs of a hundred thousand have nothing planned
                job.planned = {}
            job.planned[entry.key] = run
            if run.trigger is Trigger.CATCHUP:
                _catchup(state, turn).outstanding.add(run.key)
    if state.catchup is not None:
        state.catchup.skipped += result.skipped
    for change in result.changes:
        run = job.find(change.key)
        assert run is not None, "a plan only speaks of entries it was shown"
        if change.state is SKIPPED:
            _skip_with_batch(state, turn, job, run, change)
        else:
            run.facts = run.told_facts = joined(run.facts, read_facts(change.facts or ""))
            turn.change_with_batch(change._replace(fence=run.fence, facts=facts_text(run.facts) or None))
            run.trigger = Trigger.CATCHUP
            _catchup(state, turn).outstanding.add(run.key)
            if run.in_ledger:
                state.ring.put(run.key.scheduled_for, run)  # before those that were missed after it


def _skip_with_batch(state: State, turn: Turn, job: JobState, run: OpenRun, change: Change) -> None:
    """Skip a run in the same transaction as the plan that decided it."""
    reason = change.reason
    assert reason is not None
    run.facts = run.told_facts = joined(run.facts, read_facts(change.facts or ""))
    change = change._replace(fence=run.fence, facts=facts_text(run.facts) or None)
    turn.change_with_batch(change)
    drop(job, run)
    run.state = SKIPPED
    if not run.in_ledger:
        run.early_change = change
    state.statistics.skipped[reason] += 1
    settle_catchup(state, turn, run, is_dispatched=None)


def _catchup(state: State, turn: Turn) -> Catchup:
    if state.catchup is None:
        state.catchup = Catchup(turn.now)
    return state.catchup


def settle_catchup(state: State, turn: Turn, run: OpenRun, *, is_dispatched: bool | None) -> None:
    """Count a caught-up run towards its catch-up, and report when it was the last; None: it is already counted."""
    catchup = state.catchup
    if catchup is None or run.key not in catchup.outstanding:
        return
    catchup.outstanding.discard(run.key)
    if is_dispatched:
        catchup.dispatched += 1
        turn.log("catchup.dispatched", job=run.key.job_id, scheduled_for=to_text(run.key.scheduled_for))
    elif is_dispatched is False:
        catchup.skipped += 1
    if not catchup.outstanding:
        turn.log(
            "catchup.completed",
            dispatched=catchup.dispatched,
            skipped=catchup.skipped,
            duration_us=turn.now - catchup.began_at,
        )
        state.catchup = None


def drop(job: JobState, run: OpenRun) -> None:
    """Remove a run from its job, wherever it is."""
    if run.was_asked:  # what its executor reports about it no longer matters
        run.was_asked = False
        job.asked -= 1
    if job.planned and job.planned.get(run.key) is run:
        del job.planned[run.key]
    lane = job.lane_of(run.key)
    if lane.active.get(run.key) is run:  # another run of the same key may be the one that was started
        del lane.active[run.key]
    if run in lane.waiting:
        lane.waiting.remove(run)
    close_lane(job, run.key.origin)


def close_lane(job: JobState, origin: str) -> None:
    """Remove a backfill's lane with the last of its runs."""
    lanes = job.lanes
    if not origin or not lanes or origin not in lanes or not lanes[origin].is_empty:
        return
    if not any(key.origin == origin for key in job.planned or ()):
        del lanes[origin]

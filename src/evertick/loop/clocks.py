"""What the loop does when a clock is set, and after time in which it did not run."""

from __future__ import annotations

from evertick.loop.job_state import JobState
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.instant import to_text
from evertick.model.lifecycle import RETRYING


def note_time(state: State, turn: Turn) -> None:
    """The clock went backward: timers restart from now, and nothing up to the watermark is repeated."""
    if turn.now < state.last_now:
        state.next_plan_at = turn.now
        state.next_flush_at = turn.now
        state.next_look_up_at = turn.now
        state.next_stops_look_at = turn.now
    state.last_now = turn.now
    state.furthest_now = max(state.furthest_now, turn.now)


def compare_clocks(state: State, turn: Turn, boottime_us: int) -> None:
    """Tell a stall from a jump: a stall (or a suspend) advances both clocks, a jump only the wall clock."""
    before = state.last_boottime_us
    if before is not None and boottime_us <= before[1]:
        return  # a duplicate, or late
    state.last_boottime_us = (turn.now, boottime_us)
    if before is None:
        return
    wall_us, steady_us = turn.now - before[0], boottime_us - before[1]
    jumped_us = wall_us - steady_us
    if abs(jumped_us) > state.settings.clock_jump_us:
        state.statistics.clock_jumps += 1
        state.statistics.last_jump = (turn.now, jumped_us)
        _move_leases(state, jumped_us)
        if jumped_us < 0:
            _move_waits(state, jumped_us)
        turn.log("clock.jumped", is_alarming=True, by_us=jumped_us, now=to_text(turn.now))
    if steady_us > state.settings.stall_us:
        state.statistics.stalls += 1
        turn.log("loop.stalled", is_alarming=True, for_us=steady_us)


def _move_leases(state: State, by_us: int) -> None:
    """Leases follow elapsed time, not the wall clock.

    The lease of this node is never extended here: it is renewed soon, and the renewal may have used either clock.
    """
    if state.lease_until is not None:
        state.lease_until += min(by_us, 0)
    for run in state.orphans.values():
        if run.lease_until is not None:
            run.lease_until += by_us
    for job in state.jobs.values():
        for lane in (job.lanes or {}).values():
            for run in lane.active.values():
                if run.lease_until is not None:
                    run.lease_until += by_us
                    state.ring.put(run.lease_until, run)


def _move_waits(state: State, by_us: int) -> None:
    """A clock that was set back makes no wait longer; one that was set forward ends waits, as a downtime does."""
    state.audit.next_at += by_us
    state.retiring = {job_id: at + by_us for job_id, at in state.retiring.items()}
    state.unwritten_ends = {
        key: ended._replace(forget_at=ended.forget_at + by_us) for key, ended in state.unwritten_ends.items()
    }
    for job in state.jobs.values():
        # Otherwise a resume requested now would look older than the pause.
        job.last_asked_at += by_us
        _move_waits_of(state, job, by_us)


def _move_waits_of(state: State, job: JobState, by_us: int) -> None:
    for run in (job.planned or {}).values():
        if run.in_ledger:  # a run that was late may now be due later
            state.ring.put(run.due_at(state.last_now), run)
    for lane in (job.lanes or {}).values():
        lane.next_start_at += by_us
        for run in lane.waiting:
            run.not_before += by_us
            state.ring.put(max(run.not_before, lane.next_start_at), run)
        for run in lane.active.values():
            if run.expected_at is not None:
                run.expected_at += by_us
                state.ring.put(run.expected_at, run)
            if run.state is RETRYING and run.retry_at is not None:
                run.retry_at += by_us
                state.ring.put(run.retry_at, run)

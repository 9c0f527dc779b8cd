"""Watches the deadlines of occurrences, and settles each of them once.

A job has one place among those to look at: that of its first deadline that is not settled. What is settled is written
with the job, so a restart or the next owner goes on from there.
"""

from __future__ import annotations

from typing import Final

from evertick.loop.job_state import DeadlineWatch, JobState
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.blackout import blackout_at
from evertick.model.instant import SECOND, Instant, to_text
from evertick.model.ledger import JobRecord
from evertick.planning.deadlines import Deadline, next_deadline, passed_deadlines
from evertick.planning.schedules import compile_all

REPORT_US: Final = 2 * SECOND
"""How long a report of a success may be on its way: a deadline is judged so much later."""


def take_up(state: State, job: JobState, record: JobRecord, now: Instant) -> None:
    """Go on from what the ledger has; a job that was gone or could not be planned had no deadlines meanwhile."""
    if job.job.policy.expectation is None:
        return
    known = max(record.deadlines_through, record.last_success_at or 0, record.since)
    had_none = bool(record.error) or record.retired_at is not None
    job.deadlines = DeadlineWatch(max(known, now) if had_none else known, record.late_since)
    if record.late_since is not None:
        state.late_jobs.add(job.job.id)


def begin(state: State, job: JobState, now: Instant) -> None:
    """The job, its schedule or its deadline is new: occurrences until now have none."""
    state.late_jobs.discard(job.job.id)
    if job.job.policy.expectation is None:
        job.deadlines = None
        return
    job.deadlines = DeadlineWatch(max(now, job.deadlines.through if job.deadlines is not None else 0))


def resume(job: JobState, now: Instant) -> None:
    """The job is no longer held: what was due meanwhile has no deadline."""
    if job.deadlines is not None:
        job.deadlines.through = max(job.deadlines.through, now)


def suspend(job: JobState) -> None:
    """While a job is held, none of its deadlines is judged."""
    if job.deadlines is not None:
        job.deadlines.next = None


def watch(state: State, job: JobState, now: Instant) -> None:
    """Look at the job when its next deadline has passed; not at once, because reports may be on their way."""
    if job.deadlines is not None:
        _arm(state, job, job.deadlines, now + REPORT_US)


def succeeded(state: State, turn: Turn, job: JobState, success_for: Instant, finished_at: Instant) -> None:
    """A success for an occurrence or a later time meets its deadline, if it came before that."""
    watch = job.deadlines
    if watch is None:
        return
    if watch.next is not None and watch.next.at < finished_at:
        _settle(turn, job, watch, finished_at - 1)
    if success_for < watch.through:
        return
    watch.through = success_for
    if watch.late_since is not None:
        watch.late_since = None
        state.late_jobs.discard(job.job.id)
        turn.keep_job(job)
    if watch.next is not None:
        _arm(state, job, watch, turn.now)


def excuse(state: State, turn: Turn, job: JobState, scheduled_for: Instant) -> None:
    """An occurrence was skipped on purpose."""
    watch = job.deadlines
    if watch is None or scheduled_for <= watch.through:
        return
    watch.excused.add(scheduled_for)
    if watch.next is not None and watch.next.scheduled_for == scheduled_for:
        _arm(state, job, watch, turn.now)
        turn.keep_job(job)


def judge(state: State, turn: Turn) -> None:
    """Report the deadlines that have passed without a success: of each job the newest, and once."""
    if state.is_stopping or state.is_lease_over(turn.now):
        return
    while job_ids := state.deadlines.take(turn.now):
        for job_id in job_ids:
            job = state.jobs.get(job_id)
            watch = job.deadlines if job is not None else None
            if job is None or watch is None:
                continue
            if watch.placed_at is not None and watch.placed_at <= turn.now:
                watch.placed_at = None
            if watch.next is None:
                continue  # held
            if job.asked:  # what its executor has to say may be that it succeeded in time
                _place(state, job, watch, turn.now + state.settings.interval_us)
                continue
            _settle(turn, job, watch, turn.now - REPORT_US)
            _arm(state, job, watch, turn.now)


def report_missed(state: State, turn: Turn, job_id: str, deadline: Deadline) -> None:
    """Report it: the ledger has it."""
    state.statistics.deadlines_missed += 1
    job = state.jobs.get(job_id)
    if job is not None and job.deadlines is not None and job.deadlines.late_since is not None:
        state.late_jobs.add(job_id)
    times = {"scheduled_for": to_text(deadline.scheduled_for), "deadline": to_text(deadline.at)}
    turn.log("job.deadline_missed", is_alarming=True, job=job_id, **times)


def _settle(turn: Turn, job: JobState, watch: DeadlineWatch, until: Instant) -> None:
    """Settle what has passed: the newest stands for those before it, as after a downtime."""
    expected = job.job.policy.expectation
    assert expected is not None
    passed = passed_deadlines(compile_all(job.job.schedules), expected, watch.through, until)
    missed = next((one for one in passed if not _is_excused(job, watch, one.scheduled_for)), None)
    if missed is None:
        return
    if watch.late_since is None:
        watch.late_since = missed.at if watch.next is None else min(watch.next.at, missed.at)
    watch.through = missed.scheduled_for
    turn.miss_deadline(job, missed)


def _arm(state: State, job: JobState, watch: DeadlineWatch, not_before: Instant) -> None:
    expected = job.job.policy.expectation
    assert expected is not None
    schedules = compile_all(job.job.schedules)
    watch.excused = {at for at in watch.excused if at > watch.through}
    watch.next = next_deadline(schedules, expected, watch.through)
    while watch.next is not None and _is_excused(job, watch, watch.next.scheduled_for):
        watch.through = watch.next.scheduled_for
        watch.next = next_deadline(schedules, expected, watch.through)
    if watch.next is not None:
        _place(state, job, watch, max(watch.next.at + REPORT_US, not_before))


def _is_excused(job: JobState, watch: DeadlineWatch, scheduled_for: Instant) -> bool:
    return scheduled_for in watch.excused or blackout_at(job.job.blackouts, scheduled_for) is not None


def _place(state: State, job: JobState, watch: DeadlineWatch, at: Instant) -> None:
    """At most one place for each job that counts: an earlier one looks again."""
    if watch.placed_at is None or at < watch.placed_at:
        watch.placed_at = at
        state.deadlines.put(at, job.job.id)

"""Starts what is due: overlap rules, waiting, launching."""

from __future__ import annotations

from collections.abc import Sequence

from evertick.loop import deadlines
from evertick.loop.chain import is_held_back, missing, parents_of, use
from evertick.loop.claims import needs_claim
from evertick.loop.constraints import check_behind, missing_success, must_ask, violate_max_concurrent_runs
from evertick.loop.delivery import take
from evertick.loop.job_state import Hold, JobState
from evertick.loop.placement import find_place, neighbours, next_to_go, note_placed, overlapping_runs
from evertick.loop.plan import drop, settle_catchup, settle_job
from evertick.loop.runs import Lane, OpenRun, Queue
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.answer import TAKEN
from evertick.model.facts import NO_FACTS, Wait, WaitKind, joined, with_wait
from evertick.model.instant import Instant, to_text
from evertick.model.lifecycle import (
    CANCELLED,
    LAUNCHING,
    PLANNED,
    RETRYING,
    RUNNING,
    SKIPPED,
    WAITING,
    SkipReason,
    Trigger,
)
from evertick.model.policy import OnExecutorLost, Overlap, OverlapKind
from evertick.model.routing import Strategy
from evertick.model.schedule import has_calendar
from evertick.planning.admission import Admission, Occupancy, admit, already_succeeded, may_leave_queue
from evertick.planning.calendar import excluded_text
from evertick.planning.catchup import is_missed, is_too_late
from evertick.planning.deadlines import EXCUSED
from evertick.planning.schedules import compile_all, exclusion_of, previous_of

RESTART = "restart"
"""The origin of a run that a restart schedule requested."""
FENCE_BITS = 16
"""A fence is the epoch, then a number that grows with each launch of the run.

Every fence of a later owner is greater than any of an earlier one.
"""
_LAUNCHES_MAX = (1 << FENCE_BITS) - 1


def fire_due(state: State, turn: Turn) -> list[OpenRun]:
    """Take the oldest due instant off the ring; returns the running runs whose lease has ended."""
    late_jobs: dict[str, JobState] = {}
    expired: list[OpenRun] = []
    if state.is_lease_over(turn.now):
        return expired  # another node may be launching these at this moment
    jobs = state.jobs
    # Without those that another node owns now.
    due = [(job, run) for run in state.ring.take(turn.now) if (job := jobs.get(run.key.job_id)) is not None]
    if len(due) > 1:
        # Within one instant: higher priority first, then the job that has waited longest since its last start.
        due.sort(key=_last_started_at)
        if any(job.job.priority for job, _ in due):
            due.sort(key=_priority_last)
    for job, run in due:
        if run.state is PLANNED:
            if not job.planned or job.planned.get(run.key) is not run:
                continue  # withdrawn, or skipped since
            if not _is_late(job, run, turn):
                offer(state, turn, job, run)
            elif state.index.horizon < turn.now or (job.hold is None and run.key.job_id not in state.index):
                # Later occurrences are not planned yet; it is decided together with them.
                state.ring.put(turn.now + state.settings.interval_us, run)
            else:
                late_jobs[run.key.job_id] = job
        elif run.state is WAITING:
            if job.is_waiting(run):
                drain(state, turn, job, job.lane_of(run.key))
        elif job.active_run(run.key) is not run:
            continue  # another node owns it now, or it ended
        elif run.state is RETRYING:
            if run.retry_at is not None and run.retry_at <= turn.now:
                _start_retry(state, turn, job, run)
        elif run.state is RUNNING and run.expected_at is not None and run.expected_at <= turn.now:
            check_behind(turn, job, run)
        elif run.state is RUNNING and run.lease_until is not None:
            # Its place was kept for the end of the lease, which may have been renewed since.
            if run.lease_until <= turn.now:
                expired.append(run)
            else:
                state.ring.put(run.lease_until, run)
    for job in late_jobs.values():
        settle_job(state, turn, job, state.watermark_of(job), state.watermark_of(job))
    return expired


def _start_retry(state: State, turn: Turn, job: JobState, run: OpenRun) -> None:
    # Without a definition there is nothing to run; it continues when the job returns, or ends with the grace.
    if state.is_stopping or job.hold is Hold.RETIRED:
        return
    if not _retry_now(state, turn, job, run):
        # The limit was lowered since, or no executor can take it: it waits for its turn and keeps its place.
        state.ring.put(turn.now + state.settings.interval_us, run)


def _retry_now(state: State, turn: Turn, job: JobState, run: OpenRun) -> bool:
    lane = job.lane_of(run.key)
    others = [other for other in lane.active.values() if other.state is not RETRYING]
    has_place = find_place(state, turn, job, run)
    if not has_place or not may_leave_queue(job.overlap_of(lane), len(neighbours(job, lane, run, others))):
        return False
    start(state, turn, job, lane, run)
    return True


def retry_unplaced(state: State, turn: Turn, job: JobState) -> None:
    """Members have changed: retries that wait for a member get their turn with the others."""
    if state.is_stopping or job.hold is Hold.RETIRED or state.is_lease_over(turn.now):
        return
    for lane in (job.lanes or {}).values():
        for run in list(lane.active.values()):
            is_due = run.state is RETRYING and run.retry_at is not None and run.retry_at <= turn.now
            if is_due and run.key in state.unplaced:
                _retry_now(state, turn, job, run)


def _last_started_at(due: tuple[JobState, OpenRun]) -> Instant:
    return due[0].last_started_at


def _priority_last(due: tuple[JobState, OpenRun]) -> int:
    return -due[0].job.priority


def _is_late(job: JobState, run: OpenRun, turn: Turn) -> bool:
    policy, key = job.job.policy, run.key
    return (
        turn.now - key.scheduled_for > policy.grace_us  # whatever its jitter
        and run.trigger is Trigger.SCHEDULER
        and not key.origin
        and is_missed(run.latest_start(policy), turn.now, policy.grace_us)
    )


def offer(state: State, turn: Turn, job: JobState, run: OpenRun) -> None:
    """An occurrence is due: start it, let it wait, or skip it."""
    if state.is_stopping:
        return  # it stays `planned`; the next scheduler finds it
    assert job.planned is not None
    if job.is_unconditional and run.facts is NO_FACTS and job.hold is None and not (job.asked or job.skip_next):
        # The short way of nearly all runs: nothing that is asked below can be true of them.
        lane = job.lane_of(run.key)
        if not (lane.active or lane.waiting or lane.gap_us) and find_place(state, turn, job, run):
            del job.planned[run.key]
            start(state, turn, job, lane, run)
            return
    # First: a run that waits for something else leaves its queue without another look at the calendar.
    excluded = exclusion_of(job.job.schedules, run.key.scheduled_for) if _has_calendar(job, run) else None
    if excluded is not None:
        run.facts = joined(run.facts, excluded.facts)
        skip(state, turn, job, run, SkipReason.CALENDAR, str(excluded))
        return
    if run.facts.calendar:
        # It was due on an excluded day, and an edit came before it could be skipped.
        skip(state, turn, job, run, SkipReason.CALENDAR, excluded_text(run.facts))
        return
    if job.hold is Hold.RETIRED or (job.hold is not None and is_of_schedule(run)) or job.asked:
        if job.hold is not None:
            note_wait(run, Wait(WaitKind.HOLD, turn.now, str(job.hold)))
        _wait(state, turn, job, job.lane_of(run.key), run)
        return
    if job.job.constraints and not run.is_item and must_ask(state, turn, job, run):
        return  # it is offered again when the ledger has answered
    reason = _reason_to_skip(state, turn, job, run)
    if reason is not None:
        skip(state, turn, job, run, *reason)
        return
    lane = job.lane_of(run.key)
    if not (lane.active or lane.waiting or job.job.routing.has_members) and _may_start(state, turn, job, lane, run):
        # With no run in its way, every overlap rule lets it start.
        del job.planned[run.key]
        start(state, turn, job, lane, run)
        return
    in_line = [other for other in lane.waiting if not is_frozen(job, other)]
    met = overlapping_runs(state, turn, job, lane, run, in_line)
    if met is None:
        _wait(state, turn, job, lane, run)
        return
    admission = admit(_overlap_for(job, lane, run), Occupancy(len(met.active), len(met.waiting)))
    if admission is Admission.START and not _may_start(state, turn, job, lane, run):
        admission = Admission.WAIT
    elif admission in (Admission.WAIT, Admission.SUPERSEDE, Admission.REPLACE) and met.active:
        note_wait(run, Wait(WaitKind.OVERLAP, turn.now, runs=tuple(one.key.run_id for one in met.active)))
    match admission:
        case Admission.START:
            del job.planned[run.key]
            start(state, turn, job, lane, run)
        case Admission.WAIT:
            _wait(state, turn, job, lane, run)
        case Admission.SKIP:
            holder = (*met.active, *met.waiting)[0]
            detail = f"the run of {to_text(holder.key.scheduled_for)} was still {holder.state}"
            run.facts = run.facts._replace(other=holder.key.run_id, other_state=str(holder.state))
            violate_max_concurrent_runs(turn, job, run)
            skip(state, turn, job, run, SkipReason.OVERLAP, detail)
        case Admission.SUPERSEDE:
            _supersede(state, turn, job, met.waiting, run)
            _wait(state, turn, job, lane, run)
        case Admission.REPLACE:
            _supersede(state, turn, job, met.waiting, run)
            for active in met.active:
                active.facts = active.facts._replace(other=run.key.run_id)
                turn.ask_to_stop(active, f"replaced by the run of {to_text(run.key.scheduled_for)}")
            _wait(state, turn, job, lane, run)
            drop_waiting_retries(state, turn, job, lane)


def _may_start(state: State, turn: Turn, job: JobState, lane: Lane, run: OpenRun) -> bool:
    """Whether only the overlap rule can hold it back, not the lane's rate, its queue or its upstream jobs."""
    if lane.gap_us and lane.next_start_at > turn.now:
        note_wait(run, Wait(WaitKind.RATE, turn.now))
        return False
    if is_held_back(job, run):
        note_wait(run, Wait(WaitKind.AFTER, turn.now, jobs=missing(job)))
        return False
    queue = state.queue_of_run(job, run)
    if queue is not None and not queue.has_room:
        queue.waiting[job.job.id, run.key.origin if job.lanes and run.key.origin in job.lanes else ""] = None
        note_wait(run, wait_for_queue(job, queue, turn.now))
        return False
    return find_place(state, turn, job, run)


def wait_for_queue(job: JobState, queue: Queue, now: Instant) -> Wait:
    """A full queue, and the runs of this node that have places in it."""
    holders = tuple(key.run_id for key in sorted(queue.active))
    return Wait(WaitKind.QUEUE, now, job.job.queue or "", holders, limit=queue.limit)


def note_wait(run: OpenRun, wait: Wait) -> None:
    """What a run waits for is written with the next change of the run."""
    run.facts = with_wait(run.facts, wait)


def leave_queue(state: State, run: OpenRun) -> None:
    """A run is no longer active: its place in its queue is free."""
    for name, queue in state.queues.items():
        if run.key in queue.active:
            queue.active.discard(run.key)
            state.freed_queues.add(name)


def drain_queues(state: State, turn: Turn) -> None:
    """A place in a queue is free: offer it by priority, then by how long runs have waited."""
    while state.freed_queues:
        queue = state.queues[state.freed_queues.pop()]
        waiting = sorted(queue.waiting, key=lambda place: -_priority_of(state, place[0]))
        queue.waiting.clear()
        for job_id, origin in waiting:
            job = state.jobs.get(job_id)
            lane = (job.lanes or {}).get(origin) if job else None
            if job is None or lane is None or not lane.waiting:
                continue
            if queue.has_room:
                drain(state, turn, job, lane)
            else:
                queue.waiting[job_id, origin] = None


def _priority_of(state: State, job_id: str) -> int:
    job = state.jobs.get(job_id)
    return job.job.priority if job else 0


def _overlap_for(job: JobState, lane: Lane, run: OpenRun) -> Overlap:
    """The lane's overlap rule; a run of a restart schedule replaces the one before."""
    return Overlap(OverlapKind.REPLACE) if run.key.origin == RESTART else job.overlap_of(lane)


def _has_calendar(job: JobState, run: OpenRun) -> bool:
    """Whether a calendar applies to the run: requested runs ignore it."""
    return has_calendar(job.job.schedules) and is_of_schedule(run)


def _reason_to_skip(state: State, turn: Turn, job: JobState, run: OpenRun) -> tuple[SkipReason, str] | None:
    policy, at = job.job.policy, run.key.scheduled_for
    if job.skip_next and is_of_schedule(run):
        job.skip_next -= 1
        turn.keep_job(job)
        return SkipReason.CONDITION, "a violated constraint skips this occurrence"
    missing = missing_success(state, turn, job, run) if job.job.constraints and not run.is_item else None
    if missing is not None:
        return SkipReason.CONDITION, missing
    if run.trigger in (Trigger.SCHEDULER, Trigger.CATCHUP):
        if is_too_late(run.latest_start(policy), turn.now, policy.max_delay_us):
            return SkipReason.LATE, "later than the job's window allows"
        if policy.skip_if_successful and run.trigger is Trigger.SCHEDULER:
            # A success under an earlier schedule does not count for this one.
            previous_for = max(previous_of(compile_all(job.job.schedules), at) or 0, job.since)
            if already_succeeded(run.trigger, previous_for, job.last_success_at):
                assert job.last_success_at is not None
                run.facts = run.facts._replace(success_for=job.last_success_at)
                return SkipReason.ALREADY_SUCCEEDED, f"a run has already succeeded for {to_text(job.last_success_at)}"
    return None


def start(state: State, turn: Turn, job: JobState, lane: Lane, run: OpenRun) -> None:
    """Launch the next attempt of a run."""
    lane.active[run.key] = run
    lane.next_start_at = turn.now + lane.gap_us
    queue = state.queue_of_run(job, run)
    if queue is not None:
        queue.active.add(run.key)
    if job.arrivals and not run.key.origin and run.attempt == 0:
        run.facts = run.facts._replace(parents=parents_of(job))
        use(turn, job)
        run.has_used_successes = True
    run.attempt += 1
    run.failed_elsewhere = None  # it was judged; if it has to wait again, it is judged again
    epoch_fence = state.epochs.get(job.bucket, 0) << FENCE_BITS
    # An attempt that was refused is offered again under its number: only the fence tells the two launches apart.
    run.fence = min(max(run.fence + 1, epoch_fence | run.attempt), epoch_fence | _LAUNCHES_MAX)
    run.retry_at = None
    run.definition = job.job.definition
    note_placed(state, job, run)
    job.last_started_at = turn.now
    # Only the node that launched a broadcast knows the number of its shards, so another node cannot ask about them.
    is_broadcast = job.job.routing.strategy is Strategy.SHARDING_BROADCAST
    is_once = is_broadcast or job.job.policy.on_executor_lost is OnExecutorLost.FAIL
    # A restart asks about one attempt: a second must not run before the ledger has recorded the end of the first.
    is_retry = run.attempt > 1
    detail = "" if run.has_wait_detail else None  # it has what it waited for
    run.has_wait_detail = False
    if is_once or is_retry or run.is_inherited or (queue is not None and needs_claim(state, job.job.queue)):
        turn.move(run, LAUNCHING, detail=detail, is_with_batch=True)
        turn.launch_once_written(run)
        # With the launch: a later owner would take a report from before it for one about this attempt.
        for request_id in state.unused_reports.pop(run.key, ()):
            take(state, request_id, job.job.id, TAKEN)
            turn.answer(request_id, job.job.id, TAKEN)
    else:
        turn.move(run, LAUNCHING, detail=detail)
        turn.launch(run, job)
    if run.trigger is Trigger.CATCHUP and run.attempt == 1:
        settle_catchup(state, turn, run, is_dispatched=True)


def skip(state: State, turn: Turn, job: JobState, run: OpenRun, reason: SkipReason, detail: str) -> None:
    drop(job, run)
    turn.move(run, SKIPPED, reason=reason, detail=detail)
    if job.deadlines is not None and reason in EXCUSED and not run.key.origin:
        deadlines.excuse(state, turn, job, run.key.scheduled_for)
    turn.log("run.skipped", job=job.job.id, scheduled_for=to_text(run.key.scheduled_for), reason=reason)
    settle_catchup(state, turn, run, is_dispatched=False)


def cancel(state: State, turn: Turn, job: JobState, run: OpenRun, detail: str) -> None:
    """End a run that has not been launched, or is between two attempts."""
    drop(job, run)
    leave_queue(state, run)
    turn.move(run, CANCELLED, detail=detail, finished_at=turn.now)
    note_cancelled(state, turn, run)
    turn.log("run.cancelled", job=job.job.id, scheduled_for=to_text(run.key.scheduled_for), detail=detail)
    settle_catchup(state, turn, run, is_dispatched=False)


def note_cancelled(state: State, turn: Turn, run: OpenRun) -> None:
    """A run has ended: requests that asked for it are answered when it was the last they wait for."""
    if not state.cancelling:
        return
    for request_id, (job_id, keys) in list(state.cancelling.items()):
        keys.discard(run.key)
        if not keys:
            del state.cancelling[request_id]
            turn.answer(request_id, job_id, state.handled[request_id].answer)


def drop_waiting_retries(state: State, turn: Turn, job: JobState, lane: Lane) -> None:
    """A run between two attempts has nothing to stop: its place is free at once."""
    for run in [run for run in lane.active.values() if run.state is RETRYING and run.stop_detail is not None]:
        cancel(state, turn, job, run, run.stop_detail or "")
    drain(state, turn, job, lane)


def drain(state: State, turn: Turn, job: JobState, lane: Lane) -> None:
    """Start waiting runs, as far as the overlap rule permits."""
    if _is_superseded_by_plan(state, job):
        return
    while lane.waiting:
        run = next_to_go(job, lane, (run for run in lane.waiting if not is_frozen(job, run)))
        if run is None or job.asked or not run.in_ledger or state.is_stopping or state.is_lease_over(turn.now):
            return
        not_before = max(run.not_before, lane.next_start_at)
        if not_before > turn.now:
            state.ring.put(not_before, run)
            return
        policy = job.job.policy
        if is_of_schedule(run) and is_too_late(run.latest_start(policy), turn.now, policy.max_delay_us):
            skip(state, turn, job, run, *_why_too_late(state, run))
            continue
        if not _may_start(state, turn, job, lane, run):
            if run.facts is not run.told_facts:
                turn.note(run, None)  # it waited for something else before
            return
        if job.job.constraints and not run.is_item:
            if must_ask(state, turn, job, run):
                return  # it gets its turn again when the ledger has answered
            missing = missing_success(state, turn, job, run)
            if missing is not None:
                # Not only when it was due: the run that it waited for may have failed since.
                skip(state, turn, job, run, SkipReason.CONDITION, missing)
                continue
        lane.waiting.remove(run)
        start(state, turn, job, lane, run)


def _is_superseded_by_plan(state: State, job: JobState) -> bool:
    """Whether the plan of this turn may find a newer occurrence than the one that waits, as after a downtime."""
    is_planned_next = job.job.id in state.to_plan and job.watermark <= state.index.horizon
    return is_planned_next and job.job.policy.overlap.kind is OverlapKind.LATEST


def _why_too_late(state: State, run: OpenRun) -> tuple[SkipReason, str]:
    no_placement = state.unplaced.pop(run.key, None)
    if no_placement is not None:
        reason = SkipReason.SATURATED if no_placement.is_full else SkipReason.NO_EXECUTOR
        return reason, f"no executor could take it within the job's window: {no_placement.why}"
    return SkipReason.LATE, "it waited longer than the job's window allows"


def is_frozen(job: JobState, run: OpenRun) -> bool:
    """Whether a run waits because its job is held, or edited and not planned yet; requested runs do not.

    Without a definition nothing can run: the run continues when the job returns, or ends with the grace.
    """
    return job.hold is Hold.RETIRED or ((job.hold is not None or job.is_edited) and is_of_schedule(run))


def is_of_schedule(run: OpenRun) -> bool:
    """Whether a run comes from the schedule, not from a request."""
    return not run.key.origin


def _wait(state: State, turn: Turn, job: JobState, lane: Lane, run: OpenRun) -> None:
    assert job.planned is not None
    del job.planned[run.key]
    run.failed_elsewhere = None
    run.has_waited = not job.asked  # reading the state after a restart is the scheduler's own delay
    enqueue(lane, run)
    turn.move(run, WAITING)
    # A backfill is requested as a whole; the cap is for occurrences that accumulate by themselves.
    while lane.overlap is None and len(lane.waiting) > job.job.policy.backlog_max:
        detail = f"more than {job.job.policy.backlog_max} runs were waiting"
        skip(state, turn, job, lane.waiting[0], SkipReason.CAP, detail)
    # A waiting run that can start now: behind a finished one, or under a rate.
    drain(state, turn, job, lane)


def enqueue(lane: Lane, run: OpenRun) -> None:
    """Insert a run among the waiting ones by its due time: a caught-up run comes before the live ones."""
    place = len(lane.waiting)
    while place and lane.waiting[place - 1].key.scheduled_for > run.key.scheduled_for:
        place -= 1
    lane.waiting.insert(place, run)


def _supersede(state: State, turn: Turn, job: JobState, waiting: Sequence[OpenRun], newer: OpenRun) -> None:
    for run in waiting:
        detail = f"the newer run of {to_text(newer.key.scheduled_for)} replaced it"
        run.facts = run.facts._replace(other=newer.key.run_id, other_state="")
        skip(state, turn, job, run, SkipReason.SUPERSEDED, detail)

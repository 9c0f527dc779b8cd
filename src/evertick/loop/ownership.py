"""Takes over buckets with what the ledger knows about them, and releases them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from evertick.loop import deadlines
from evertick.loop.constraints import expect_end
from evertick.loop.effects import ReadReports, Reconcile, Release
from evertick.loop.fire import FENCE_BITS, enqueue, leave_queue
from evertick.loop.job_state import Hold, JobState
from evertick.loop.jobs import activate, add_job, miss, replan, retire
from evertick.loop.messages import BucketsGained, BucketsLost, NodesSeen, OrphansFound, RunFinished
from evertick.loop.orphans import forward_unwritten
from evertick.loop.peers import seen
from evertick.loop.runs import ALONE, Lane, OpenRun
from evertick.loop.state import State
from evertick.loop.turn import Turn
from evertick.model.attempts import read_attempts
from evertick.model.blackout import blackout_at
from evertick.model.facts import read_facts
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, bucket_of
from evertick.model.lifecycle import LOST, PLANNED, RETRYING, RUNNING, WAITING, SkipReason, Trigger
from evertick.model.loss import LossReason
from evertick.model.policy import OnExecutorLost, Overlap, OverlapKind, Policy
from evertick.model.report import AttemptQuestion
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import specs_to_text
from evertick.planning.retry import wait_us
from evertick.routing.placement import is_shared

_NO_POLICY = Policy(on_executor_lost=OnExecutorLost.FAIL)
"""For a job whose definition is gone: nothing says that a lost run of it may be retried."""


def gained(state: State, turn: Turn, message: BucketsGained) -> None:
    """Own these buckets: load every job and every waiting run, and ask about every run that may be active."""
    epochs = {bucket: epoch for bucket, epoch in message.epochs.items() if epoch > state.newest_epochs.get(bucket, -1)}
    if not epochs:
        return  # a duplicate, or late: the snapshot lacks what this node has decided since
    message = _limited_to(message, epochs)
    taken_over = [bucket for bucket in epochs if bucket in state.epochs]
    if taken_over:
        _forget(state, turn, taken_over, is_fenced=False)
    state.epochs.update(epochs)
    state.newest_epochs.update(epochs)
    state.known_floor = max(state.known_floor, *message.snapshot.floors.values(), 0)
    # The time up to which the previous owner planned, in case the clock was set back since.
    come = max(message.snapshot.floors.values(), default=0) - state.settings.preread_us
    state.furthest_now = max(state.furthest_now, come)
    rows: defaultdict[str, list[LedgerRow]] = defaultdict(list)
    for row in message.snapshot.open_runs:
        rows[row.key.job_id].append(row)
    to_ask: list[AttemptQuestion] = []
    known: set[str] = set()
    for record in message.snapshot.jobs:
        floor = message.snapshot.floors.get(bucket_of(record.job_id), 0)
        if _take_up(state, turn, _as_of_newest(record, message), floor, rows[record.job_id], to_ask):
            known.add(record.job_id)
    for job_id in state.definitions:
        if job_id not in known and bucket_of(job_id) in message.epochs:
            definition = state.definition_of(job_id)
            assert definition is not None
            add_job(state, turn, definition)
    if state.foreign and state.live_nodes is not None:
        seen(state, turn, NodesSeen(state.live_nodes, state.holding, state.forgotten))
    if to_ask and state.lease_until is None:
        turn.do(Reconcile(to_ask))
    elif to_ask:
        _reconcile_behind_reports(state, turn, to_ask)
    for notice in message.snapshot.notices:
        turn.log("store.notice", is_alarming=True, notice=notice)
    turn.log("buckets.gained", buckets=len(message.epochs), jobs=len(known), open_runs=len(message.snapshot.open_runs))


def _reconcile_behind_reports(state: State, turn: Turn, to_ask: list[AttemptQuestion]) -> None:
    """Ask the executors after every earlier report has been processed.

    An attempt that an executor does not know is launched again under the same number. An earlier report that arrived
    only later would be taken for a report about the new launch.
    """
    state.reports_number += 1
    asked = {one.key: state.jobs[one.key.job_id].find(one.key) for one in to_ask}
    state.to_reconcile[state.reports_number] = [(asked[one.key], one) for one in to_ask]
    for run in asked.values():
        if run is not None:
            run.is_to_be_asked = True
    turn.do(ReadReports(state.reports_number, sorted({bucket_of(key.job_id) for key in asked})))


def _limited_to(message: BucketsGained, epochs: Mapping[int, int]) -> BucketsGained:
    """The part of the snapshot about these buckets."""
    if len(epochs) == len(message.epochs):
        return message
    known = message.snapshot
    return BucketsGained(
        epochs,
        replace(
            known,
            jobs=[record for record in known.jobs if bucket_of(record.job_id) in epochs],
            open_runs=[row for row in known.open_runs if bucket_of(row.key.job_id) in epochs],
            floors={bucket: floor for bucket, floor in known.floors.items() if bucket in epochs},
        ),
        message.successes,
        message.failures,
    )


def _as_of_newest(record: JobRecord, message: BucketsGained) -> JobRecord:
    """With the outcome of its newest run, which its row may lack."""
    if record.job_id in message.failures:
        record = record._replace(has_failed=True)
    known = message.successes.get(record.job_id)
    return record if known is None else record._replace(last_success_at=max(known, record.last_success_at or known))


def _take_up(
    state: State,
    turn: Turn,
    record: JobRecord,
    floor: Instant,
    rows: Sequence[LedgerRow],
    to_ask: list[AttemptQuestion],
) -> bool:
    """Continue a job from the ledger's state; returns False if it must be treated as new."""
    definition = state.definition_of(record.job_id)
    is_gone = record.retired_at is not None and turn.now - record.retired_at > state.settings.retire_us
    watermark = record.watermark if record.held else max(record.watermark, floor)
    if is_gone and not rows:
        state.removed[record.job_id] = max(watermark, record.since)
        return definition is None
    known_until = watermark
    if is_gone and definition is not None:
        watermark = max(watermark, turn.now)  # only its last runs are left; a new definition begins now
    job = JobState(definition or Job(record.job_id, policy=_NO_POLICY), watermark)
    job.since, job.skip_next, job.told = record.since, record.skip_next, record.definition
    if is_gone and definition is not None:
        turn.begin_schedule(job, known_until, "[]")
        turn.begin_schedule(job, watermark, specs_to_text(definition.schedules))
    job.last_success_at, job.last_failed = record.last_success_at, record.has_failed
    job.is_outcome_known = False
    job.paused_at, job.pause_note = record.paused_at, record.pause_note
    job.last_asked_at = min(record.asked_at, turn.now)  # the clock may have been set back since
    state.jobs[record.job_id] = job
    deadlines.take_up(state, job, record, turn.now)
    turn.define(job)
    for row in rows:
        restore(state, turn, job, row, to_ask)
    if definition is None:
        job.retired_at = record.retired_at
        if state.is_whole or job.retired_at is not None:
            retire(state, turn, job)
        else:
            miss(state, turn, job)
    elif record.fingerprint != definition.fingerprint:
        _hold_if_paused(job)
        replan(state, turn, job, None)
    elif not _hold_if_paused(job):
        job.idle_reason = SkipReason.DISABLED if record.held and not definition.enabled else SkipReason.MISSED
        activate(state, turn, job)
    return True


def _hold_if_paused(job: JobState) -> bool:
    if job.paused_at is None:
        return False
    job.hold, job.idle_reason = Hold.PAUSED, SkipReason.PAUSED
    return True


def restore(state: State, turn: Turn, job: JobState, row: LedgerRow, to_ask: list[AttemptQuestion]) -> None:
    """Load an open run from the ledger, and ask about it if it may be active."""
    run = OpenRun(row.key, row.trigger, row.decided_at)
    run.state, run.attempt, run.fence = row.state, row.attempt, row.fence
    run.params, run.executor, run.started_at, run.retry_at = row.params, row.executor, row.started_at, row.retry_at
    run.steps, run.definition, run.earlier = row.steps, row.definition, row.earlier
    run.facts = run.told_facts = read_facts(row.facts)
    run.losses = sum(one.state == LOST for one in read_attempts(row.earlier))
    run.in_ledger = True
    # An occurrence of the schedule is entered without a detail; a waiting one has a detail about its waiting.
    is_plain = row.trigger is Trigger.SCHEDULER and not row.key.origin
    run.has_wait_detail = row.state is WAITING and is_plain and bool(row.detail)
    run.has_used_successes = bool(row.definition)  # it was launched once, by an earlier owner
    state.orphans.pop(row.key, None)
    state.looked_up.pop(row.key, None)
    # From now on only this owner's changes count: those that the previous owner still sends are refused.
    fence = state.epochs[job.bucket] << FENCE_BITS
    if fence > run.fence:
        run.fence = fence
        turn.note(run, None)
    if row.trigger is Trigger.BACKFILL:
        _open_backfill_lane(job, row)
    elif run.is_item:
        open_item_lane(job, row.key)
    if row.state is PLANNED and run.due_at(turn.now) > turn.now:
        if job.planned is None:
            job.planned = {}
        job.planned[run.key] = run
        state.ring.put(run.due_at(turn.now), run)
        return
    is_held = run.facts.held_until and blackout_at(job.job.blackouts, state.furthest_now) is not None
    if row.state is PLANNED and is_held and blackout_at(job.job.blackouts, row.key.scheduled_for):
        # It was entered ahead of a blackout that began since: nothing has launched it, and the end decides about it.
        # By a clock that was ahead the end may be past already: then nothing holds the job, and it fires as any other.
        if job.planned is None:
            job.planned = {}
        job.planned[run.key] = run
        return
    run.is_inherited = state.lease_until is not None
    lane = job.lane_of(run.key)
    if row.state is WAITING:
        # It may have been launched just before the end; until its executor has answered, no run of its job starts.
        run.has_waited = True
        enqueue(lane, run)
        _ask(job, run, row.attempt + 1, _executor_to_ask(job, row), to_ask)
        return
    lane.active[run.key] = run
    queue = state.queue_of_run(job, run)
    if queue is not None:
        queue.active.add(run.key)
    if row.state is RUNNING and row.started_at is not None and run.facts.overdue_since < row.started_at:
        expect_end(state, job, run, row.started_at)
    if row.state is RETRYING:
        run.retry_at = _retry_at(job, run, turn.now)
        state.ring.put(run.retry_at, run)
        return
    # Planned and due counts too: it may have been launched just before the end, with nothing written since.
    run.attempt = max(run.attempt, 1)
    node = row.executor.partition("@")[2]
    if node and (node != state.node or node in state.holding):
        state.foreign[run.key] = node  # it reports to this node when the run ends, or is found to be gone
        state.doubted.pop(run.key, None)
    if not node or node == state.node:
        _ask(job, run, run.attempt, _executor_to_ask(job, row), to_ask)


def _retry_at(job: JobState, run: OpenRun, now: Instant) -> Instant:
    """As in the ledger, but at most the job's longest delay: the clock may have been set back since."""
    at = now if run.retry_at is None else run.retry_at
    if job.job.policy is _NO_POLICY:
        return at
    return min(at, now + wait_us(job.job.policy.retry, max(run.attempt - run.losses, 1), run.key.run_id))


def _executor_to_ask(job: JobState, row: LedgerRow) -> str:
    """Where the ledger says it runs; before that is written, every member that may have received it."""
    routing = job.job.routing
    if routing.is_remote and row.state in (PLANNED, WAITING):
        return routing.executor
    return row.executor or (routing.executor if routing.is_remote else "")


def _ask(job: JobState, run: OpenRun, attempt: int, executor: str, to_ask: list[AttemptQuestion]) -> None:
    run.was_asked = True
    job.asked += 1
    to_ask.append(AttemptQuestion(run.key, attempt, executor, run.fence))


def ask_again(job: JobState, run: OpenRun, to_ask: list[AttemptQuestion]) -> None:
    """Ask the executor about an attempt that it has not reported."""
    _ask(job, run, run.attempt, run.executor, to_ask)


def _open_backfill_lane(job: JobState, row: LedgerRow) -> None:
    if job.lanes is None:
        job.lanes = {}
    if row.key.origin not in job.lanes:
        overlap, gap_us = backfill_rule(row.params)
        job.lanes[row.key.origin] = Lane(overlap, gap_us)


def open_item_lane(job: JobState, key: RunKey) -> None:
    """An item of a step has a lane of its own: it blocks no other run of its job, and none blocks it."""
    if job.lanes is None:
        job.lanes = {}
    job.lanes.setdefault(key.origin, Lane(ALONE))


def backfill_params(overlap: Overlap, gap_us: int) -> str:
    """A backfill's own rule, stored with each of its runs so that it survives a restart."""
    return json.dumps({"overlap": overlap.kind, "limit": overlap.limit, "gap_us": gap_us})


def backfill_rule(params: str) -> tuple[Overlap, int]:
    plain = json.loads(params)
    return Overlap(OverlapKind(plain["overlap"]), plain["limit"]), plain["gap_us"]


def found(state: State, turn: Turn, message: OrphansFound) -> None:
    """Runs that an earlier process of this node had: their outcome is reported to their owners."""
    asked = [row for row in message.runs if not state.owns(row.key.job_id)]
    for row in asked:
        state.looked_up[row.key] = row.started_at is not None or row.decided_at < state.remembers_since
    if asked:
        turn.do(Reconcile([AttemptQuestion(row.key, max(row.attempt, 1), row.executor) for row in asked]))


def lost(state: State, turn: Turn, message: BucketsLost) -> None:
    mine = [bucket for bucket, epoch in message.buckets.items() if state.epochs.get(bucket) == epoch]
    if mine:
        _forget(state, turn, mine, is_fenced=message.is_fenced)
        if not message.is_fenced:
            turn.do(Release(mine))
        turn.log("buckets.lost", is_alarming=message.is_fenced, buckets=len(mine), is_fenced=message.is_fenced)


def never_started(run: OpenRun, now: Instant) -> RunFinished:
    """What to report to the next owner of a run that this node was about to start."""
    detail = "its node lost ownership of the job before starting it"
    return RunFinished(run.key, run.attempt, now, LOST, detail=detail, loss=LossReason.NOT_STARTED)


def _forget(state: State, turn: Turn, buckets: Collection[int], *, is_fenced: bool) -> None:
    for bucket in buckets:
        del state.epochs[bucket]
    gone = set(buckets)
    turn.forget(gone)
    # The next owner claims requests about their jobs that the ledger has no answer for.
    for known in (state.handled, state.answered):
        for request_id in [key for key, handled in known.items() if bucket_of(handled.job_id) in gone]:
            del known[request_id]
            state.cancelling.pop(request_id, None)
    for key in [key for key in state.unused_reports if bucket_of(key.job_id) in gone]:
        del state.unused_reports[key]
    for job_id in [job_id for job_id, job in state.jobs.items() if job.bucket in gone]:
        job = state.jobs.pop(job_id)
        state.late_jobs.discard(job_id)
        state.outcomes_asked = {key for key in state.outcomes_asked if key.job_id != job_id}
        state.index.remove(job_id)
        state.to_plan.pop(job_id, None)
        state.retiring.pop(job_id, None)
        state.resuming.pop(job_id, None)
        for kind in ("stop", "restart"):
            state.stops.remove(f"{kind}:{job_id}")
        for lane in (job.lanes or {}).values():
            if is_fenced:
                forward_unwritten(state, turn, (*lane.active.values(), *lane.waiting))
            for run in lane.active.values():
                leave_queue(state, run)
                # A run on the fleet belongs to its member: the next owner asks there.
                if run.state in (PLANNED, RETRYING) or run.key in state.foreign or is_shared(run.executor):
                    state.foreign.pop(run.key, None)
                    continue
                if state.unlaunched.pop(run.key, None) is run:
                    turn.forward(never_started(run, turn.now))
                    continue
                state.orphans[run.key] = run
                # If this node holds its runs, the next owner waits for it; what it cannot know of ends by itself.
                if is_fenced and not state.holds_runs:
                    turn.stop(run)

"""Does the loop know every overdue entry of the ledger, and what each of them waits for?

The audit compares the ledger with the state of the loop, one portion of the open entries at a time. An entry that waits
for nothing twice in a row is stuck; the loop resumes it in the same way as after a restart.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from evertick.loop.chain import is_held_back
from evertick.loop.effects import Audit, Reconcile
from evertick.loop.fire import drain, is_frozen
from evertick.loop.job_state import Hold, JobState
from evertick.loop.messages import OpenRunsSeen
from evertick.loop.ownership import ask_again, restore
from evertick.loop.placement import neighbours, next_to_go
from evertick.loop.runs import OpenRun
from evertick.loop.state import STALLED_CHECKS, StalledEntry, State
from evertick.loop.turn import Turn
from evertick.model.instant import MINUTE, to_text
from evertick.model.lifecycle import LAUNCHING, PLANNED, RETRYING, RUNNING, WAITING
from evertick.model.report import AttemptQuestion
from evertick.model.run import LedgerRow, RunKey
from evertick.planning.admission import may_leave_queue
from evertick.routing.placement import is_shared

PORTION: Final = 500
"""Entries checked in one turn."""
EVERY_US: Final = MINUTE
"""Time between two portions."""
OVERDUE_US: Final = 2 * MINUTE
"""An entry that has been due for less than this is not checked."""
LAUNCH_CHECKS: Final = 6
"""How often an attempt is checked before this machine's executor must have reported it: some minutes.

Counted in rounds, not in time: a clock that was set forward must not make an executor late.
"""


class Wait(StrEnum):
    """What an open entry waits for."""

    LEDGER = "the ledger to answer"
    LEASE = "the lease of this node"
    HOLD = "its job to be planned again"
    EXECUTOR = "its executor to report"
    NODE = "the node that has it"
    MEMBER = "a member of the fleet that can take it"
    OVERLAP = "another run of its job"
    QUEUE = "a place in its queue"
    UPSTREAM = "the jobs that its job runs after"
    TIME = "its time"


def ask(state: State, turn: Turn) -> None:
    """Ask the ledger for the next portion, when it is time."""
    if not state.epochs or state.is_stopping or not state.audit.is_answered or turn.now < state.audit.next_at:
        return
    state.audit.number += 1
    turn.do(Audit(state.audit.number, turn.now - OVERDUE_US, state.audit.after, PORTION))


def seen(state: State, turn: Turn, message: OpenRunsSeen) -> None:
    """Compare a portion of the ledger's open entries with the loop's state, and resume what the loop has lost."""
    audit = state.audit
    if message.number != audit.number or audit.is_answered:
        return  # a duplicate, or late
    audit.answered = message.number
    # From the answer on: after an outage of the ledger, delayed entries must get their turn first.
    audit.next_at = turn.now + EVERY_US
    # Compare with the ledger as it was when it was read, not with the loop as it is now: reports in flight count.
    written = {change.key for pending in state.batches.values() for change in pending.batch.changes}
    written |= {run.key for pending in state.batches.values() for run in pending.runs}
    written |= state.unwritten_ends.keys()
    to_ask: list[AttemptQuestion] = []
    for row in message.rows:
        job = state.jobs.get(row.key.job_id)
        if job is None or not state.owns(row.key.job_id):
            continue
        audit.looked_at.add(row.key)
        run = job.find(row.key)
        waits_for = Wait.LEDGER if row.key in written else _waits_for(state, turn, job, run) if run else None
        if waits_for is not None:
            audit.stalled.pop(row.key, None)
            continue
        checks = _count_check(state, row.key, run)
        enough = LAUNCH_CHECKS if run is not None and run.state is LAUNCHING else STALLED_CHECKS
        if checks >= enough:
            _repair(state, turn, job, run, row, to_ask)
            _report(state, turn, run, row, is_news=checks == enough)
    if to_ask:
        turn.do(Reconcile(to_ask))
    audit.after = message.after
    if message.after is None:
        audit.stalled = {key: entry for key, entry in audit.stalled.items() if key in audit.looked_at}
        audit.looked_at.clear()


def _count_check(state: State, key: RunKey, run: OpenRun | None) -> int:
    """Count once more, from 1 if the entry has moved: a run that is refused and offered again is not stuck."""
    as_of = None if run is None else (run.state, run.attempt, run.refusals)
    before = state.audit.stalled.get(key)
    checks = before.checks + 1 if before is not None and before.as_of == as_of else 1
    state.audit.stalled[key] = StalledEntry(checks, as_of)
    return checks


def _report(state: State, turn: Turn, run: OpenRun | None, row: LedgerRow, *, is_news: bool) -> None:
    if not is_news:
        return
    state.statistics.repaired += 1
    key = row.key
    fields = {"job": key.job_id, "scheduled_for": to_text(key.scheduled_for), "state": row.state}
    turn.log("run.stuck", is_alarming=True, run=key.run_id, is_known=run is not None, **fields)


def _repair(
    state: State,
    turn: Turn,
    job: JobState,
    run: OpenRun | None,
    row: LedgerRow,
    to_ask: list[AttemptQuestion],
) -> None:
    if run is None:
        restore(state, turn, job, row, to_ask)
        return
    run.in_ledger = True
    if run.state is WAITING:
        drain(state, turn, job, job.lane_of(run.key))
    elif run.state is LAUNCHING:
        ask_again(job, run, to_ask)
    else:
        state.ring.put(turn.now, run)


def _waits_for(state: State, turn: Turn, job: JobState, run: OpenRun) -> Wait | None:
    """What an overdue entry waits for; None: nothing."""
    if run.key in state.foreign:
        return Wait.NODE  # its node reports when it has ended, or holds it until the lease ends
    if run.was_asked or (job.asked and run.state is not RETRYING):
        return Wait.EXECUTOR
    if state.is_lease_over(turn.now):
        return Wait.LEASE
    if run.state is RUNNING:
        return Wait.EXECUTOR
    if run.state is LAUNCHING:
        return Wait.LEDGER if run.awaits_ledger else Wait.EXECUTOR if is_shared(run.executor) else None
    if run.state is PLANNED:
        return _plan_waits_for(state, turn, job, run)
    if run.state is RETRYING:
        return _retry_waits_for(state, turn, job, run)
    return _turn_waits_for(state, turn, job, run)


def _plan_waits_for(state: State, turn: Turn, job: JobState, run: OpenRun) -> Wait | None:
    if run.key in state.outcomes_asked:
        return Wait.LEDGER
    if run.due_at(turn.now) > turn.now - OVERDUE_US:
        return Wait.TIME
    if job.hold is not None or job.job.id in state.to_plan or state.index.horizon < turn.now:
        return Wait.HOLD
    return None


def _retry_waits_for(state: State, turn: Turn, job: JobState, run: OpenRun) -> Wait | None:
    if run.retry_at is not None and run.retry_at > turn.now - OVERDUE_US:
        return Wait.TIME
    if job.hold is Hold.RETIRED:
        return Wait.HOLD
    if run.key in state.unplaced or job.job.id in state.placement_lookups:
        return Wait.MEMBER
    lane = job.lane_of(run.key)
    others = [other for other in lane.active.values() if other.state is not RETRYING]
    is_in_the_way = not may_leave_queue(job.overlap_of(lane), len(neighbours(job, lane, run, others)))
    return Wait.OVERLAP if is_in_the_way else None


def _turn_waits_for(state: State, turn: Turn, job: JobState, run: OpenRun) -> Wait | None:
    """The same for a run that waits for its turn."""
    lane = job.lane_of(run.key)
    if run.key in state.outcomes_asked:
        return Wait.LEDGER
    if is_frozen(job, run):
        return Wait.HOLD
    if next_to_go(job, lane, (one for one in lane.waiting if not is_frozen(job, one))) is not run:
        return Wait.OVERLAP
    if max(run.not_before, lane.next_start_at) > turn.now - OVERDUE_US:
        return Wait.TIME
    if is_held_back(job, run):
        return Wait.UPSTREAM
    queue = state.queue_of_run(job, run)
    if queue is not None and not queue.has_room:
        return Wait.QUEUE
    return Wait.MEMBER if run.key in state.unplaced or job.job.id in state.placement_lookups else None

"""Decides which attempts of a keeper run: accepts launches, stops attempts, and enforces the lease."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Final

from evertick.executor import AttemptId
from evertick.executors.keeper.attempt_runner import AttemptRunner
from evertick.executors.keeper.attempt_state import (
    ACCEPTED,
    CONFIRMED,
    FENCED,
    FINISHED,
    REFUSED,
    UNCONFIRMED,
    AttemptEnd,
    AttemptState,
    Loss,
)
from evertick.executors.keeper.lease import UNLIMITED, Lease
from evertick.executors.keeper.process import Runtime
from evertick.executors.keeper.procfs import boottime_us
from evertick.executors.keeper.recorder import AttemptRecorder, Recorder, SubRunRequest
from evertick.executors.keeper.unconfirmed import Deadline, DeadlineSummary, Unconfirmed
from evertick.executors.protocol import LaunchMessage
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SUCCEEDED
from evertick.model.loss import LossReason
from evertick.model.subrun import SubRunEnd

STARTS_PER_TURN: Final = 32
"""Attempts started before output is read and exits are handled: starting a process takes half a millisecond, and
attempts due at the same instant should not wait for the ends of others."""
LEASE_OVER: Final = Loss(LossReason.LEASE_EXPIRED, "its keeper's lease expired, so another node may start it")
NOT_CONFIRMED: Final = Loss(
    LossReason.NOT_CONFIRMED, "the ledger did not record its launch in time, so another node may start it"
)
FORGOTTEN: Final = Loss(LossReason.MACHINE_RESTARTED, "the machine was restarted, and its record may have been lost")


class Supervisor:
    def __init__(self, recorder: Recorder, runtime: Runtime, grace_us: int) -> None:
        self._recorder = recorder
        self._states = recorder.states
        self._runtime = runtime
        self._grace_us = grace_us
        self._queue: deque[tuple[AttemptState, LaunchMessage]] = deque()
        self._runners: dict[int, AttemptRunner] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped: dict[int, str | Loss] = {}
        """Attempts stopped before they started, and why."""
        self._is_starting = False
        self._is_leaving = False
        self.may_leave = asyncio.Event()
        self.cancellers: dict[int, Callable[[], None]] = {}
        """How to end the attempts that an earlier keeper started."""
        self.may_lack_records = False
        """The machine was restarted: the journal may lack its last lines, so an unknown attempt may have run."""
        self.lease = UNLIMITED
        self._save_lease: Callable[[Lease, DeadlineSummary], None] = _do_not_save
        self._unconfirmed: Unconfirmed[int] = Unconfirmed()
        self._abandoned: dict[int, Loss] = {}
        recorder.on_flushed = self._leave_if_idle

    @property
    def is_idle(self) -> bool:
        return not self._states.open

    # Requests of a scheduler

    def launch(self, launch: LaunchMessage, instance: str) -> None:
        """`instance` is the scheduler process that asks."""
        attempt_id = launch.attempt_id
        known = self._states.by_id.get(attempt_id)
        if known is not None:
            self._launch_again(known, launch, instance)
            self._recorder.report_state(known)
        elif (refusal := self._why_refused(launch, instance)) is not None:
            self._recorder.report_refused(attempt_id, refusal, launch.fence)
        else:
            number = self._states.last_number + 1
            self._recorder.write(ACCEPTED, number, *launch.key, launch.attempt, launch.fence)
            if not launch.is_confirmed:
                self._recorder.write(UNCONFIRMED, number, *self._unconfirmed.add(number, instance))
            self._queue.append((self._states.open[number], launch))
            self._start_soon()

    def _why_refused(self, launch: LaunchMessage, instance: str) -> str | None:
        newest, now = self._states.fence_of(launch.key), boottime_us()
        if launch.fence < newest:
            return f"its fence {launch.fence} is older than {newest}, which a newer owner has used"
        if self._recorder.problem is not None:
            return f"the keeper cannot write its journal: {self._recorder.problem}"
        if self._is_leaving:
            return "the keeper is about to exit"
        if self.lease.is_over(now):
            return "this node's lease on its runs has expired; launches resume when it reaches the ledger"
        if launch.valid_until is not None and now >= launch.valid_until:
            return "it arrived after its scheduler's lease had ended"
        if not (launch.is_confirmed or self._unconfirmed.has_room(instance, now)):
            return "the ledger has not recorded it, and its scheduler's lease is about to end"
        return None

    def _launch_again(self, state: AttemptState, launch: LaunchMessage, instance: str) -> None:
        """The next process of this node launches an attempt that the one before it had started."""
        now = boottime_us()
        is_in_time = launch.valid_until is None or now < launch.valid_until
        if launch.is_confirmed:
            self.confirm([state.attempt_id])
        elif state.number in self._unconfirmed and is_in_time and self._unconfirmed.has_room(instance, now):
            self._recorder.write(UNCONFIRMED, state.number, *self._unconfirmed.add(state.number, instance))

    def stop(self, attempt_id: AttemptId, detail: str) -> None:
        state = self._states.by_id.get(attempt_id)
        if state is None or state.end is not None:
            return
        self._runtime.reaper.reap()  # an attempt that has just ended by itself is not stopped
        self._cancel(state.number, detail)

    def reconcile(self, attempt_ids: list[AttemptId], fence: int = 0) -> None:
        """Report each attempt; from now on launches of an unknown one with an older fence are refused."""
        for attempt_id in attempt_ids:
            state = self._states.by_id.get(attempt_id)
            if state is None and fence > self._states.fence_of(attempt_id.key):
                # In the journal before the answer: the scheduler that asks may start the run elsewhere.
                self._recorder.write(FENCED, *attempt_id.key, fence)
            if state is not None:
                self._recorder.report_state(state)
            elif self.may_lack_records:
                self._recorder.report_lost(attempt_id, FORGOTTEN.to_end(_now()))
            else:
                self._recorder.report_unknown(attempt_id, self._states.fence_of(attempt_id.key))

    def delivered(self, serial: int) -> None:
        self._recorder.delivered(serial)

    def sub_run_ended(self, attempt_id: AttemptId, step: str, number: int, end: SubRunEnd) -> None:
        self._recorder.sub_runs.ended(SubRunRequest(attempt_id, step, number), end)

    def open_reports(self) -> list[bytes]:
        return self._recorder.open_reports()

    def leave(self) -> None:
        """Accept no more launches, and exit when nothing runs."""
        self._is_leaving = True
        self._leave_if_idle()

    def _leave_if_idle(self) -> None:
        if self._is_leaving and self.is_idle:
            self.may_leave.set()

    # The lease

    def restore_lease(self, lease: Lease, newest: Deadline, save: Callable[[Lease, DeadlineSummary], None]) -> None:
        """Continue with the lease and the last renewal of the keeper before; `save` stores each later one."""
        self.lease, self._save_lease = lease, save
        for state in self._states.open.values():
            if state.unconfirmed is not None:
                self._unconfirmed.restore(state.number, state.unconfirmed, newest)

    def renew(self, lease: Lease, instance: str) -> None:
        """`instance` is the scheduler process that renewed it."""
        self.enforce_lease()  # first: a lease that has just expired must not look continuous
        before = self.lease
        if before.is_limited and lease.is_limited and lease.epoch != before.epoch:
            self._abandon(tuple(self._states.open), LEASE_OVER)
        self._unconfirmed.renew(instance, lease)
        self._save_lease(lease, self._unconfirmed.summary())
        self.lease = lease

    def confirm(self, attempt_ids: list[AttemptId]) -> None:
        """The ledger has recorded these launches: no other node starts them while the lease lasts."""
        for attempt_id in attempt_ids:
            state = self._states.by_id.get(attempt_id)
            if state is not None and state.number in self._unconfirmed:
                self._unconfirmed.discard(state.number)
                self._recorder.record(state, CONFIRMED)

    def enforce_lease(self) -> None:
        """End the attempts that another node may soon start."""
        now, lease = boottime_us(), self.lease
        if unconfirmed := self._unconfirmed.over(now):
            self._runtime.grace_seconds = 0.0
            self._abandon(tuple(unconfirmed), NOT_CONFIRMED)
            self._runtime.grace_seconds = self._grace_us / 1_000_000
        if lease.is_over(now):
            self._runtime.grace_seconds = lease.grace_us(now, self._grace_us) / 1_000_000
            self._abandon(tuple(self._states.open), LEASE_OVER)
            self._runtime.grace_seconds = self._grace_us / 1_000_000

    def seconds_to_lease_end(self) -> float:
        """How soon `enforce_lease` has to be called again."""
        ends = [self.lease.end_at] if self.lease.is_limited and not self.is_idle else []
        left = [end - boottime_us() for end in (*ends, *self._unconfirmed.ends())]
        return min((us for us in left if us > 0), default=60_000_000) / 1_000_000

    def _abandon(self, numbers: tuple[int, ...], loss: Loss) -> None:
        self._runtime.reaper.reap()
        for number in numbers:
            self._unconfirmed.discard(number)
            if number not in self._abandoned and number in self._states.open:
                self._abandoned[number] = loss
                self._cancel(number, loss)

    def _cancel(self, number: int, why: str | Loss) -> None:
        if number in self._runners:
            self._runners[number].cancel(why)
        elif number in self.cancellers:
            self.cancellers[number]()
        else:
            self._stopped[number] = why

    def _why_late(self, state: AttemptState) -> Loss | None:
        """Why another node may have started it by now; None if none may."""
        now = boottime_us()
        if self.lease.is_over(now):
            return LEASE_OVER
        return NOT_CONFIRMED if self._unconfirmed.is_over(state.number, now) else None

    # Running attempts

    def _start_soon(self) -> None:
        if not self._is_starting:
            self._is_starting = True
            self._runtime.loop.call_soon(self._start_queued)

    def _start_queued(self) -> None:
        """The journal has all queued attempts on disk before the first of them starts."""
        self._is_starting = False
        is_written = self._recorder.write_through()
        for _ in range(min(STARTS_PER_TURN, len(self._queue))):
            state, launch = self._queue.popleft()
            if not is_written:
                self._take_back(state, f"the keeper cannot write its journal: {self._recorder.problem}")
            elif state.number in self._stopped:
                why = self._stopped.pop(state.number)
                now = _now()
                self.finish(state, why.to_end(now) if isinstance(why, Loss) else AttemptEnd(CANCELLED, now, None, why))
            elif (why_late := self._why_late(state)) is not None:
                self._take_back(state, why_late.detail)  # this keeper was suspended in between
            else:
                task = self._runtime.loop.create_task(self._run(state, launch))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        if self._queue:
            self._start_soon()

    async def _run(self, state: AttemptState, launch: LaunchMessage) -> None:
        runner = AttemptRunner(launch, self._runtime, AttemptRecorder(self._recorder, state))
        self._runners[state.number] = runner
        if state.number in self._stopped:
            runner.cancel(self._stopped.pop(state.number))
        try:
            end = await runner.run()
        except Exception as error:
            # A defect of the keeper, not of the job: keeper.log has the traceback, and the attempt must still end.
            traceback.print_exc(file=sys.stderr)
            end = AttemptEnd(FAILED, _now(), None, f"the keeper failed: {type(error).__name__}")
        del self._runners[state.number]
        if end is None:
            self._take_back(state, runner.why_not_started)
        else:
            self.finish(state, end)

    def finish(self, state: AttemptState, end: AttemptEnd) -> None:
        why_late = self._why_late(state)
        self._unconfirmed.discard(state.number)
        abandoned = self._abandoned.pop(state.number, None)
        if state.number in self._states.open:
            if end.state == LOST and abandoned is not None:
                end = end._replace(detail=abandoned.detail, cause=abandoned.reason)
            elif end.state in (FAILED, SUCCEEDED) and why_late is not None:
                # The watchdog killed what this keeper was too late to end. A program that is asked to end may exit
                # with 0, which is no success; and another node may be running it by now.
                end = end._replace(state=LOST, detail=why_late.detail, cause=why_late.reason)
            self._recorder.write(FINISHED, state.number, self._states.last_serial + 1, *end)
            self._recorder.report_state(state)

    def _take_back(self, state: AttemptState, detail: str) -> None:
        """Refuse an accepted attempt that started nothing: the scheduler may launch it again."""
        self._unconfirmed.discard(state.number)
        self._abandoned.pop(state.number, None)
        self._recorder.write(REFUSED, state.number)
        self._recorder.report_refused(state.attempt_id, detail, state.fence)


def _do_not_save(_: Lease, __: DeadlineSummary) -> None:
    """For a lease that need not outlive this keeper."""


def _now() -> int:
    return time.time_ns() // 1_000

"""Accepts orders and reports outcomes in a keeper; nothing is started or reported before it is in the journal."""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.keeper.attempt_runner import AttemptRunner
from evertick.executors.keeper.attempt_state import (
    ACCEPTED,
    BEGAN,
    CONFIRMED,
    DELIVERED,
    EXITED,
    FENCED,
    FINISHED,
    REFUSED,
    SPAWNED,
    STARTED,
    STEP,
    UNCONFIRMED,
    AttemptStates,
    Ending,
    Known,
    Loss,
    StepEnd,
)
from evertick.executors.keeper.journal import Aside, Journal
from evertick.executors.keeper.lease import UNLIMITED, Lease
from evertick.executors.keeper.process import Tools
from evertick.executors.keeper.procfs import boottime_us
from evertick.executors.keeper.sub_run_calls import Call, SubRunCalls
from evertick.executors.keeper.unconfirmed import Deadline, Outlook, Unconfirmed
from evertick.executors.protocol import LaunchMessage
from evertick.executors.settings import KeeperSettings
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SUCCEEDED
from evertick.model.loss import LossReason
from evertick.model.subrun import SubRunEnd, sub_run_key

STARTS_PER_TURN = 32
"""Attempts begun before output is read and ends are noticed again: starting a process takes half a millisecond, and
those that are due at the same instant should not wait for the ends of those before them."""
STEPS_SECONDS = 0.3
"""Steps that begin and end within this time are told together."""
LEASE_OVER = Loss(LossReason.LEASE_EXPIRED, "its keeper had no lease on it any more, so it may be started elsewhere")
NOT_CONFIRMED = Loss(LossReason.NOT_CONFIRMED, "the ledger was not told of it in time, so it may be started elsewhere")
FORGOTTEN = Loss(
    LossReason.MACHINE_RESTARTED, "the machine was restarted, and what was known of it may have been lost with it"
)
RETRY_SECONDS = 1.0
"""How soon a journal that could not be written is tried again."""


class Supervisor:
    """All attempts of a keeper. `say` hands a line to every scheduler that is connected."""

    def __init__(
        self,
        book: AttemptStates,
        journal: Journal,
        tools: Tools,
        settings: KeeperSettings,
        say: Callable[[bytes], None],
        connected_seconds: Callable[[], float],
    ) -> None:
        self._book = book
        self._journal = journal
        self._tools = tools
        self._settings = settings
        self._say = say
        self._connected_seconds = connected_seconds
        """A clock that stands still while nobody is there to be told."""
        self._orders: deque[tuple[Known, LaunchMessage]] = deque()
        self._carrying: dict[int, AttemptRunner] = {}
        self._calls = SubRunCalls(self._say_at_once)
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancelled: dict[int, str | Loss] = {}
        """Attempts that were ended before they were begun: at the wish of a scheduler, or by this keeper."""
        self._news: list[bytes] = []
        self._steps_due: set[int] = set()
        self._is_flush_due = False
        self._is_starting = False
        self._is_retrying = False
        self._is_leaving = False
        self.may_leave = asyncio.Event()
        self.enders: dict[int, Callable[[], None]] = {}
        """How to end what an earlier keeper had started."""
        self.is_forgetful = False
        """The machine was restarted: the last lines may have been lost with it, so the unknown may have run."""
        self.lease = UNLIMITED
        self._keep_lease: Callable[[Lease, Outlook], None] = _forget_lease
        self._unconfirmed: Unconfirmed[int] = Unconfirmed()
        self._abandoned: dict[int, Loss] = {}

    @property
    def is_idle(self) -> bool:
        return not self._book.open

    # What the scheduler asks for

    def launch(self, order: LaunchMessage, instance: str) -> None:
        """`instance` is the process that asks for it."""
        attempt_id = AttemptId(order.key, order.attempt)
        known = self._book.known.get(attempt_id)
        if known is not None:
            self._launch_again(known, order, instance)
            self._tell(known)
            return
        why_not = self._why_not(order, instance)
        if why_not is not None:
            self._refuse(attempt_id, order.fence, why_not)
            return
        number = self._book.last_number + 1
        self._write(ACCEPTED, number, *order.key, order.attempt, order.fence)
        if not order.is_confirmed:
            self._write(UNCONFIRMED, number, *self._unconfirmed.add(number, instance))
        self._orders.append((self._book.open[number], order))
        self._start_soon()

    def _why_not(self, order: LaunchMessage, instance: str) -> str | None:
        """Why an order is refused; None: it is taken."""
        newest, now = self._book.fence_of(order.key), boottime_us()
        if order.fence < newest:
            return f"its fence {order.fence} is older than {newest}, under which a newer owner launched it or asked"
        if self._journal.trouble is not None:
            return f"the keeper cannot write its journal: {self._journal.trouble}"
        if self._is_leaving:
            return "the keeper is about to end"
        if self.lease.is_over(now):
            return "the lease of this node on its runs is over; it goes on when the ledger is reached"
        if order.valid_until is not None and now >= order.valid_until:
            return "it came later than its scheduler's lease allows"
        if not (order.is_confirmed or self._unconfirmed.has_room(instance, now)):
            return "the ledger does not know of it, and its scheduler's lease is about to end"
        return None

    def _launch_again(self, known: Known, order: LaunchMessage, instance: str) -> None:
        """The next process of this node owns it, and wants what the one before it had begun."""
        now = boottime_us()
        is_in_time = order.valid_until is None or now < order.valid_until
        if order.is_confirmed:
            self.confirm([known.attempt_id])
        elif known.number in self._unconfirmed and is_in_time and self._unconfirmed.has_room(instance, now):
            self._write(UNCONFIRMED, known.number, *self._unconfirmed.add(known.number, instance))

    def stop(self, attempt_id: AttemptId, detail: str) -> None:
        known = self._book.known.get(attempt_id)
        if known is None or known.ending is not None:
            return
        self._tools.reaper.reap()  # what has ended by itself is not stopped any more
        if known.number in self._carrying:
            self._carrying[known.number].stop(detail)
        elif known.number in self.enders:
            self.enders[known.number]()
        else:
            self._cancelled[known.number] = detail

    def reconcile(self, attempt_ids: list[AttemptId], fence: int = 0) -> None:
        """Report what is known of each; an older order for one that is unknown here is refused from now on."""
        for attempt_id in attempt_ids:
            known = self._book.known.get(attempt_id)
            if known is None and fence > self._book.fence_of(attempt_id.key):
                # In the journal before it is said: whoever hears it may start the run elsewhere.
                self._write(FENCED, *attempt_id.key, fence)
            if known is not None:
                self._tell(known)
            elif self.is_forgetful:
                self._news.append(_finished(attempt_id, FORGOTTEN.ending(_now()), 0, None))
            else:
                self._news.append(
                    protocol.encode(
                        protocol.UNKNOWN, *attempt_id.key, attempt_id.attempt, self._book.fence_of(attempt_id.key)
                    )
                )
        self._flush_soon()

    def delivered(self, serial: int) -> None:
        if self._book.delivered < serial <= self._book.last_serial:
            self._write(DELIVERED, serial)
            self._calls.forget_hung_up()
            self._flush_soon()

    def sub_run_ended(self, attempt_id: AttemptId, step: str, number: int, end: SubRunEnd) -> None:
        self._calls.answer(Call(attempt_id, step, number), end)

    # How long what runs may go on

    def restore_lease(self, lease: Lease, newest: Deadline, keep: Callable[[Lease, Outlook], None]) -> None:
        """Go on under the lease of the keeper before, and its last renewal; `keep` writes down each that follows."""
        self.lease, self._keep_lease = lease, keep
        for known in self._book.open.values():
            if known.unconfirmed is not None:
                self._unconfirmed.restore(known.number, known.unconfirmed, newest)

    def renew(self, lease: Lease, instance: str) -> None:
        """`instance` is the process that has renewed it."""
        self.enforce_lease()  # first: what was over by then must not seem to have gone on
        before = self.lease
        if before.is_limited and lease.is_limited and lease.epoch != before.epoch:
            self._abandon(tuple(self._book.open), LEASE_OVER)
        self._unconfirmed.renew(instance, lease)
        self._keep_lease(lease, self._unconfirmed.outlook())
        self.lease = lease

    def confirm(self, attempt_ids: list[AttemptId]) -> None:
        """The ledger knows of these: nobody starts them elsewhere as long as the lease lasts."""
        for attempt_id in attempt_ids:
            known = self._book.known.get(attempt_id)
            if known is not None and known.number in self._unconfirmed:
                self._unconfirmed.discard(known.number)
                self._write(CONFIRMED, known.number)
                self._flush_soon()

    def enforce_lease(self) -> None:
        """End what may be started elsewhere soon."""
        now, lease = boottime_us(), self.lease
        if unconfirmed := self._unconfirmed.over(now):
            self._tools.grace_seconds = 0.0
            self._abandon(tuple(unconfirmed), NOT_CONFIRMED)
            self._tools.grace_seconds = self._settings.grace_us / 1_000_000
        if lease.is_over(now):
            self._tools.grace_seconds = lease.grace_us(now, self._settings.grace_us) / 1_000_000
            self._abandon(tuple(self._book.open), LEASE_OVER)
            self._tools.grace_seconds = self._settings.grace_us / 1_000_000

    def seconds_to_lease_end(self) -> float:
        """How soon the lease has to be looked at again."""
        ends = [self.lease.end_at] if self.lease.is_limited and not self.is_idle else []
        left = [end - boottime_us() for end in (*ends, *self._unconfirmed.ends())]
        return min((us for us in left if us > 0), default=60_000_000) / 1_000_000

    def _abandon(self, numbers: tuple[int, ...], loss: Loss) -> None:
        self._tools.reaper.reap()
        for number in numbers:
            self._unconfirmed.discard(number)
            if number in self._abandoned or number not in self._book.open:
                continue
            self._abandoned[number] = loss
            if number in self._carrying:
                self._carrying[number].abandon(loss)
            elif number in self.enders:
                self.enders[number]()
            else:
                self._cancelled[number] = loss

    def greet(self) -> list[bytes]:
        """What a scheduler is told that has just come: all that goes on, and all that was not delivered."""
        self._flush()
        lines = [line for known in self._book.open.values() for line in _lines_of(known)]
        lines += [line for known in self._book.undelivered() for line in _lines_of(known)]
        return lines + self._calls.lines()

    def leave(self) -> None:
        """Take nothing more, and go when nothing runs."""
        self._is_leaving = True
        if self.is_idle:
            self.may_leave.set()

    # What becomes of attempts

    def finish(self, known: Known, ending: Ending) -> None:
        why_late = self._why_late(known)
        self._unconfirmed.discard(known.number)
        abandoned = self._abandoned.pop(known.number, None)
        if known.number in self._book.open:
            if ending.state == LOST and abandoned is not None:
                ending = ending._replace(detail=abandoned.detail, cause=abandoned.reason)
            elif ending.state in (FAILED, SUCCEEDED) and why_late is not None:
                # Not by itself: the watchdog has ended what this keeper was too late for. A program that is asked to
                # end may exit with 0, which is no success; and by now it may be running elsewhere.
                ending = ending._replace(state=LOST, detail=why_late.detail, cause=why_late.reason)
            self._write(FINISHED, known.number, self._book.last_serial + 1, *ending)
            self._tell(known)

    def _why_late(self, known: Known) -> Loss | None:
        """Why it may have been started elsewhere by now; None while it may not."""
        now = boottime_us()
        if self.lease.is_over(now):
            return LEASE_OVER
        return NOT_CONFIRMED if self._unconfirmed.is_over(known.number, now) else None

    def _start_soon(self) -> None:
        if not self._is_starting:
            self._is_starting = True
            self._tools.loop.call_soon(self._start_some)

    def _start_some(self) -> None:
        """The notes of all that wait are on disk before the first of them is started."""
        self._is_starting = False
        is_written = self._journal.flush()
        for _ in range(min(STARTS_PER_TURN, len(self._orders))):
            known, order = self._orders.popleft()
            if not is_written:
                self._take_back(known, f"the keeper cannot write its journal: {self._journal.trouble}")
            elif known.number in self._cancelled:
                why = self._cancelled.pop(known.number)
                now = _now()
                self.finish(known, why.ending(now) if isinstance(why, Loss) else Ending(CANCELLED, now, None, why))
            elif (why_late := self._why_late(known)) is not None:
                self._take_back(known, why_late.detail)  # this keeper was stopped in between
            else:
                task = self._tools.loop.create_task(self._carry_out(known, order))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        if self._orders:
            self._start_soon()

    async def _carry_out(self, known: Known, order: LaunchMessage) -> None:
        carrying = AttemptRunner(order, self._tools, _Clerk(self, known, self._calls))
        self._carrying[known.number] = carrying
        if known.number in self._cancelled:
            why = self._cancelled.pop(known.number)
            if isinstance(why, Loss):
                carrying.abandon(why)
            else:
                carrying.stop(why)
        try:
            ending = await carrying.run()
        except Exception as error:
            # Ours, not the job's: said in full where the keeper complains, and the attempt must end all the same.
            traceback.print_exc(file=sys.stderr)
            ending = Ending(FAILED, _now(), None, f"the keeper failed: {type(error).__name__}")
        del self._carrying[known.number]
        if ending is None:
            self._take_back(known, carrying.no_room)
        else:
            self.finish(known, ending)

    def note(self, known: Known, verb: str, *fields: Any, is_news: bool = True) -> None:
        self._write(verb, known.number, *fields)
        if verb == STARTED:
            self._news.append(
                protocol.encode(protocol.STARTED, *known.attempt_id.key, known.attempt_id.attempt, fields[0])
            )
        elif verb in (BEGAN, STEP) and is_news and known.number not in self._steps_due:
            self._steps_due.add(known.number)
            # All of them are told each time: a run of a thousand steps says it less often than one of ten.
            self._tools.loop.call_later(STEPS_SECONDS * (1 + len(known.steps) // 100), self._say_steps, known)
        self._flush_soon()

    def _say_steps(self, known: Known) -> None:
        self._steps_due.discard(known.number)
        if known.number in self._book.open:  # otherwise its end has said it
            self._news.append(_steps(known))
            self._flush_soon()

    def _take_back(self, known: Known, detail: str) -> None:
        """Nothing of it was started: it may be offered again."""
        self._unconfirmed.discard(known.number)
        self._abandoned.pop(known.number, None)
        self._write(REFUSED, known.number)
        self._refuse(known.attempt_id, known.fence, detail)

    # How it is written down, and said

    def _write(self, *line: Any) -> None:
        self._book.apply(line)
        self._journal.append(*line)

    def _tell(self, known: Known) -> None:
        self._news.extend(_lines_of(known))
        self._flush_soon()

    def _say_at_once(self, line: bytes) -> None:
        self._news.append(line)
        self._flush_soon()

    def _refuse(self, attempt_id: AttemptId, fence: int, detail: str) -> None:
        self._news.append(protocol.encode(protocol.REFUSED, *attempt_id.key, attempt_id.attempt, detail, fence))
        self._flush_soon()

    def _flush_soon(self) -> None:
        """Once per turn of the loop: many lines, one write."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._tools.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if not self._journal.flush():
            # The run has ended whether or not it can be noted; it is said, and the note is tried again.
            self._retry_later()
        elif self._journal.is_full:
            self._rotate()
        if self._news:
            self._say(b"".join(self._news))
            self._news.clear()
        if self._is_leaving and self.is_idle:
            self.may_leave.set()

    def _retry_later(self) -> None:
        if not self._is_retrying:
            self._is_retrying = True
            self._tools.loop.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._is_retrying = False
        if not self._journal.flush():
            self._retry_later()

    def _rotate(self) -> None:
        try:
            self._journal.rotate(self._book.opening(), self._book.last_serial, self._connected_seconds())
        except OSError as error:
            sys.stderr.write(f"journal.not_rotated reason={error.strerror}\n")

    def tidy(self) -> None:
        """Forget what was delivered long enough ago."""
        now = self._connected_seconds()
        settings, journal = self._settings, self._journal

        def is_over(aside: Aside) -> bool:
            is_old = now - aside.closed_at > settings.remember_us / 1_000_000
            return aside.last_serial <= self._book.delivered and (
                is_old or len(journal.asides) > settings.journal_files
            )

        serial = journal.forget(is_over)
        if serial is not None:
            self._book.forget(serial)


class _Clerk:
    """Writes down what an attempt does."""

    def __init__(self, supervisor: Supervisor, known: Known, calls: SubRunCalls) -> None:
        self._supervisor = supervisor
        self._known = known
        self._calls = calls

    def started(self) -> None:
        self._supervisor.note(self._known, STARTED, _now())

    def spawned(self, pid: int, started_us: int) -> None:
        self._supervisor.note(self._known, SPAWNED, pid, started_us)

    def exited(self, pid: int) -> None:
        self._supervisor.note(self._known, EXITED, pid)

    def step_began(self, name: str) -> None:
        self._supervisor.note(self._known, BEGAN, name, _now(), "")

    def call(self, step: str, number: int, job_id: str, params: str, *, waits: bool) -> asyncio.Future[SubRunEnd]:
        key, attempt = self._known.attempt_id
        # Before it is asked for: if this keeper is killed, the next one's scheduler must find what to end.
        sub_run = sub_run_key(job_id, key, attempt, step, number).run_id if waits else ""
        self._supervisor.note(self._known, BEGAN, step, _now(), sub_run)
        return self._calls.make(Call(self._known.attempt_id, step, number), job_id, params, waits=waits)

    def hang_up(self, step: str, number: int) -> None:
        self._calls.hang_up(Call(self._known.attempt_id, step, number))

    def step_ended(self, step: StepEnd, pid: int, *, is_news: bool) -> None:
        self._supervisor.note(self._known, STEP, pid, step, is_news=is_news)


def _lines_of(known: Known) -> list[bytes]:
    key, attempt = known.attempt_id
    if known.ending is not None:
        return [_finished(known.attempt_id, known.ending, known.serial, known.steps_text())]
    if known.started_at is not None:
        started = protocol.encode(protocol.STARTED, *key, attempt, known.started_at)
        return [started, _steps(known)] if known.steps or known.begun else [started]
    return []  # accepted a moment ago: its start is about to be said


def _steps(known: Known) -> bytes:
    return protocol.encode(protocol.STEPS, *known.attempt_id.key, known.attempt_id.attempt, known.steps_text())


def _finished(attempt_id: AttemptId, ending: Ending, serial: int, steps: str | None) -> bytes:
    fields = (ending.at, ending.state, ending.exit_code, ending.detail)
    return protocol.encode(protocol.FINISHED, *attempt_id.key, attempt_id.attempt, *fields, serial, steps, ending.cause)


def _forget_lease(_: Lease, __: Outlook) -> None:
    """Where it need not outlive this keeper."""


def _now() -> int:
    return time.time_ns() // 1_000

"""Writes every change of an attempt to the journal before it is reported to the schedulers."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from evertick.executor import AttemptId
from evertick.executors import protocol
from evertick.executors.keeper.attempt_state import (
    BEGAN,
    DELIVERED,
    EXITED,
    SPAWNED,
    STARTED,
    STEP,
    AttemptEnd,
    AttemptState,
    AttemptStates,
    StepEnd,
)
from evertick.executors.keeper.journal import ArchivedFile, Journal
from evertick.model.subrun import SubRunEnd, sub_run_key
from evertick.settings.parts import KeeperSettings

STEPS_SECONDS = 0.3
"""Steps that start and end within this time are reported together."""
RETRY_SECONDS = 1.0
"""How soon a failed write of the journal is retried."""


class Recorder:
    """The journal and the states of all attempts. `send` sends lines to every connected scheduler."""

    def __init__(
        self,
        states: AttemptStates,
        journal: Journal,
        settings: KeeperSettings,
        loop: asyncio.AbstractEventLoop,
        send: Callable[[bytes], None],
        connected_seconds: Callable[[], float],
    ) -> None:
        self.states = states
        self.sub_runs = SubRunRequests(self.report)
        self._journal = journal
        self._settings = settings
        self._loop = loop
        self._send = send
        self._connected_seconds = connected_seconds
        """A clock that runs only while a scheduler is connected."""
        self._outbox: list[bytes] = []
        self._steps_due: set[int] = set()
        self._is_flush_due = False
        self._is_retrying = False
        self.on_flushed: Callable[[], None] = _do_nothing

    @property
    def problem(self) -> str | None:
        """Why the journal cannot be written; None if it can."""
        return self._journal.problem

    def write(self, *line: object) -> None:
        """Apply a change, and queue its line for the journal."""
        self.states.apply(line)
        self._journal.append(*line)

    def write_through(self) -> bool:
        """Write the queued lines to disk now; returns whether that worked."""
        return self._journal.flush()

    def record(self, state: AttemptState, verb: str, *fields: object, is_reported: bool = True) -> None:
        """Write a change of one attempt, and report it unless its end follows at once."""
        self.write(verb, state.number, *fields)
        if verb == STARTED:
            self._outbox.append(_line(protocol.STARTED, state.attempt_id, fields[0]))
        elif verb in (BEGAN, STEP) and is_reported and state.number not in self._steps_due:
            self._steps_due.add(state.number)
            # All steps are reported each time, so a run of a thousand steps reports less often than one of ten.
            self._loop.call_later(STEPS_SECONDS * (1 + len(state.steps) // 100), self._report_steps, state)
        self.flush_soon()

    def delivered(self, serial: int) -> None:
        if self.states.delivered < serial <= self.states.last_serial:
            self.write(DELIVERED, serial)
            self.sub_runs.forget_cancelled()
            self.flush_soon()

    # Reports

    def report(self, line: bytes) -> None:
        self._outbox.append(line)
        self.flush_soon()

    def report_state(self, state: AttemptState) -> None:
        self._outbox.extend(_lines_of(state))
        self.flush_soon()

    def report_lost(self, attempt_id: AttemptId, end: AttemptEnd) -> None:
        """An attempt without a line in the journal."""
        self.report(_finished(attempt_id, end, 0, None))

    def report_unknown(self, attempt_id: AttemptId, fence: int) -> None:
        self.report(_line(protocol.UNKNOWN, attempt_id, fence))

    def report_refused(self, attempt_id: AttemptId, detail: str, fence: int) -> None:
        self.report(_line(protocol.REFUSED, attempt_id, detail, fence))

    def open_reports(self) -> list[bytes]:
        """What a newly connected scheduler receives: every open attempt and every undelivered result."""
        self._flush()
        lines = [line for state in self.states.open.values() for line in _lines_of(state)]
        lines += [line for state in self.states.undelivered() for line in _lines_of(state)]
        return lines + self.sub_runs.lines()

    def _report_steps(self, state: AttemptState) -> None:
        self._steps_due.discard(state.number)
        if state.number in self.states.open:  # otherwise its end has reported them
            self.report(_steps(state))

    # The journal

    def flush_soon(self) -> None:
        """Once per turn of the event loop: many lines, one write."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        if not self._journal.flush():
            # The attempt has ended whether or not the journal has it: report it, and retry the write.
            self._retry_later()
        elif self._journal.is_full:
            try:
                self._journal.rotate(self.states.opening(), self.states.last_serial, self._connected_seconds())
            except OSError as error:
                sys.stderr.write(f"journal.not_rotated reason={error.strerror}\n")
        if self._outbox:
            self._send(b"".join(self._outbox))
            self._outbox.clear()
        self.on_flushed()

    def _retry_later(self) -> None:
        if not self._is_retrying:
            self._is_retrying = True
            self._loop.call_later(RETRY_SECONDS, self._retry)

    def _retry(self) -> None:
        self._is_retrying = False
        if not self._journal.flush():
            self._retry_later()

    def prune(self) -> None:
        """Forget results that were delivered long enough ago."""
        now, settings, journal = self._connected_seconds(), self._settings, self._journal

        def is_over(file: ArchivedFile) -> bool:
            is_old = now - file.closed_at > settings.remember_us / 1_000_000
            # By size, not by number: a keeper that is started again and again leaves many small files.
            is_much = journal.archived_bytes > settings.journal_files * settings.journal_bytes
            return file.last_serial <= self.states.delivered and (is_old or is_much)

        serial = journal.remove(is_over)
        if serial is not None:
            self.states.forget(serial)


class AttemptRecorder:
    """Records what happens to one attempt."""

    def __init__(self, recorder: Recorder, state: AttemptState) -> None:
        self._recorder = recorder
        self._state = state

    def started(self) -> None:
        self._recorder.record(self._state, STARTED, _now())

    def spawned(self, pid: int, started_us: int) -> None:
        self._recorder.record(self._state, SPAWNED, pid, started_us)

    def exited(self, pid: int) -> None:
        self._recorder.record(self._state, EXITED, pid)

    def step_started(self, name: str, item_of: str = "", item: str = "") -> None:
        known = (item_of, item) if item_of else ()
        self._recorder.record(self._state, BEGAN, name, _now(), "", *known)

    def step_ended(self, step: StepEnd, pid: int, *, is_reported: bool) -> None:
        """`is_reported` unless the end of the whole attempt follows at once and reports it too."""
        self._recorder.record(self._state, STEP, pid, step, is_reported=is_reported)

    def request_sub_run(
        self, step: str, number: int, job_id: str, params: str, *, waits: bool
    ) -> asyncio.Future[SubRunEnd]:
        key, attempt = self._state.attempt_id
        # Journalled before it is requested: if this keeper is killed, the scheduler of the next one must find it.
        sub_run = sub_run_key(job_id, key, attempt, step, number).run_id if waits else ""
        self._recorder.record(self._state, BEGAN, step, _now(), sub_run)
        request = SubRunRequest(self._state.attempt_id, step, number)
        return self._recorder.sub_runs.send(request, job_id, params, waits=waits)

    def cancel_sub_run(self, step: str, number: int) -> None:
        self._recorder.sub_runs.cancel(SubRunRequest(self._state.attempt_id, step, number))

    def stop_item(self, step: str, number: int) -> None:
        """The wait for its end goes on."""
        self._recorder.sub_runs.stop(SubRunRequest(self._state.attempt_id, step, number))

    def withdraw_sub_run(self, step: str, number: int, job_id: str) -> None:
        """It was answered, and must not be made all the same."""
        self._recorder.sub_runs.withdraw(SubRunRequest(self._state.attempt_id, step, number), job_id)


class SubRunRequest(NamedTuple):
    """A step of an attempt that asks for a run of another job."""

    attempt_id: AttemptId
    step: str
    number: int
    """The try of the step."""


class _Pending(NamedTuple):
    job_id: str
    line: bytes
    end: asyncio.Future[SubRunEnd]


class SubRunRequests:
    """The sub-runs that steps wait for; requested again from every scheduler that connects."""

    def __init__(self, report: Callable[[bytes], None]) -> None:
        self._report = report
        self._pending: dict[SubRunRequest, _Pending] = {}
        self._stopped: dict[SubRunRequest, asyncio.Future[SubRunEnd]] = {}
        """Not requested again, but their ends are waited for."""
        self._cancelled: list[bytes] = []
        """Sent again to a scheduler that connects, until one has acknowledged a result."""

    def send(self, request: SubRunRequest, job_id: str, params: str, *, waits: bool) -> asyncio.Future[SubRunEnd]:
        attempt_id, step, number = request
        line = _line(protocol.SUB_RUN_WANTED, attempt_id, step, number, job_id, params, waits)
        end: asyncio.Future[SubRunEnd] = asyncio.get_running_loop().create_future()
        self._pending[request] = _Pending(job_id, line, end)
        self._report(line)
        return end

    def ended(self, request: SubRunRequest, end: SubRunEnd) -> None:
        pending = self._pending.pop(request, None)
        waiting = pending.end if pending is not None else self._stopped.pop(request, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(end)

    def cancel(self, request: SubRunRequest) -> None:
        pending = self._pending.pop(request, None)
        if pending is not None:
            self.withdraw(request, pending.job_id)

    def stop(self, request: SubRunRequest) -> None:
        pending = self._pending.pop(request, None)
        if pending is not None:
            self._stopped[request] = pending.end
            pending.end.add_done_callback(lambda _end: self._stopped.pop(request, None))
            self.withdraw(request, pending.job_id)

    def withdraw(self, request: SubRunRequest, job_id: str) -> None:
        attempt_id, step, number = request
        line = _line(protocol.SUB_RUN_UNWANTED, attempt_id, step, number, job_id)
        self._cancelled.append(line)
        self._report(line)

    def lines(self) -> list[bytes]:
        return [*(pending.line for pending in self._pending.values()), *self._cancelled]

    def forget_cancelled(self) -> None:
        self._cancelled.clear()


def _lines_of(state: AttemptState) -> list[bytes]:
    if state.end is not None:
        return [_finished(state.attempt_id, state.end, state.serial, state.steps_text())]
    if state.started_at is not None:
        started = _line(protocol.STARTED, state.attempt_id, state.started_at)
        return [started, _steps(state)] if state.steps or state.begun else [started]
    return []  # accepted a moment ago: its start is about to be reported


def _steps(state: AttemptState) -> bytes:
    return _line(protocol.STEPS, state.attempt_id, state.steps_text())


def _finished(attempt_id: AttemptId, end: AttemptEnd, serial: int, steps: str | None) -> bytes:
    fields = (end.at, end.state, end.exit_code, end.detail, serial, steps, end.cause)
    return _line(protocol.FINISHED, attempt_id, *fields)


def _line(verb: str, attempt_id: AttemptId, *fields: object) -> bytes:
    return protocol.encode(verb, *attempt_id.key, attempt_id.attempt, *fields)


def _do_nothing() -> None:
    """Until the supervisor listens."""


def _now() -> int:
    return time.time_ns() // 1_000

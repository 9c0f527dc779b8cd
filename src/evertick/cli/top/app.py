"""Runs the page: reads every few seconds, draws, and executes the actions of the keys."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from evertick.cli.requests import ANSWER_SECONDS, new_id, runs_of
from evertick.cli.times import now as clock
from evertick.cli.top.frame import Freshness, draw, job_rows, widths_of
from evertick.cli.top.log_page import LogPage, LogPart, read_part
from evertick.cli.top.page import ActionKind, Command, Message, OpenLog, OpenWhy, Page, Plain, SendRequest
from evertick.cli.top.snapshot import Question, Snapshot, read_snapshot
from evertick.cli.top.strip import window_of
from evertick.cli.top.styled import Line
from evertick.cli.top.terminal import Terminal
from evertick.cli.top.worker import Opener, Worker
from evertick.model.instant import SECOND, Instant

if TYPE_CHECKING:
    from evertick.errors import EvertickError
    from evertick.operations.protocol import Operations
    from evertick.operations.results.requests import RequestStatus, Why

FRAME_SECONDS = 1.0
"""Elapsed times are redrawn this often."""
LOG_SECONDS = 0.5
RETRY_SECONDS_MAX = 10.0
REOPEN_SECONDS = 10.0
SILENT_SECONDS = 5.0
"""A read that takes longer makes the page stale."""


def first_question(width: int, now: Instant, *, lanes: int, hours: int = 12) -> Question:
    return Question(window_of(now, widths_of(width).strip, hours), lanes=lanes)


def run_page(opener: Opener, every: float) -> None:
    """Show the page until the user leaves; what is wrong from the start is raised before the screen is taken."""
    size = shutil.get_terminal_size()
    with Worker(opener) as worker:
        page = _App(worker, every, first_question(size.columns, clock(), lanes=2 * size.lines))
        page.wait_for_first()
        with Terminal(worker.wake) as terminal:
            try:
                page.run(terminal)
            except KeyboardInterrupt:
                return


class _App:
    def __init__(self, worker: Worker, every: float, question: Question) -> None:
        self._worker, self._every, self._asked = worker, every, question
        self._page = Page()
        self._log: LogPage | None = None
        self._found: Snapshot | None = None
        self._found_at = self._asked_at = self._opened_at = time.monotonic()
        self._found_clock = clock()
        self._is_asking = self._is_reading_log = False
        self._again_at = self._log_at = 0.0
        self._failures = 0
        self._trouble = ""

    def wait_for_first(self) -> None:
        """The first read; its error ends the command."""
        failed: list[EvertickError] = []
        self._read(self._asked, failed.append)
        while self._found is None and not failed:
            time.sleep(0.01)
            self._take_replies()
        if failed:
            raise failed[0]

    def run(self, terminal: Terminal) -> None:
        while True:
            width, height = terminal.size()
            now = time.monotonic()
            self._ask_again(width, height, now)
            terminal.draw(self._frame(width, height))
            rows = self._rows(width, height)
            for key in terminal.keys(self._worker.wake_fd, self._until_next(now)):
                if self._press(key, rows) is Plain.QUIT:
                    return
            self._take_replies()

    # --- reading

    def _ask_again(self, width: int, height: int, now: float) -> None:
        assert self._found is not None, "the page is shown after the first read"
        rows = self._rows(width, height)
        self._page.settle(self._found, rows)
        window = window_of(self._now(), widths_of(width).strip, self._page.hours)
        # More than fits: a user can scroll a few lines before the next read.
        lanes = max(3 * rows, 30)
        held = self._found.timeline.offset
        is_held = held <= self._page.first and self._page.first + rows <= held + len(self._found.timeline.lanes)
        total = self._found.timeline.total
        offset = held if is_held or total <= lanes else max(self._page.first - rows, 0)
        if total <= lanes:
            offset = 0
        question = Question(window, offset, lanes, self._page.search, self._page.sort, max(height // 4, 4))
        is_other = question._replace(window=window) != self._asked or window.cells != self._asked.window.cells
        if not self._is_asking and (now >= self._again_at or (is_other and not self._failures)):
            self._read(question, self._failed)
        log = self._log
        if log is not None and not self._is_reading_log and now >= self._log_at and not log.is_over:
            self._read_log(log)

    def _read(self, question: Question, otherwise: Callable[[EvertickError], None]) -> None:
        self._asked, self._is_asking, self._asked_at = question, True, time.monotonic()
        self._worker.call(lambda operations: read_snapshot(operations, question), self._take, otherwise)

    def _take(self, found: object) -> None:
        assert isinstance(found, Snapshot)
        self._found, self._found_at, self._found_clock = found, time.monotonic(), clock()
        self._is_asking, self._failures, self._trouble = False, 0, ""
        self._again_at = self._found_at + self._every
        if not found.overview.node and self._found_at - self._opened_at > REOPEN_SECONDS:
            # It reads a ledger: a scheduler with a server may have started, and job files may have changed.
            self._opened_at = self._found_at
            self._worker.reopen()

    def _failed(self, error: EvertickError) -> None:
        self._is_asking, self._failures, self._trouble = False, self._failures + 1, str(error)
        pause = min(self._every * 2 ** min(self._failures - 1, 5), max(RETRY_SECONDS_MAX, self._every))
        self._again_at = time.monotonic() + pause

    def _read_log(self, log: LogPage) -> None:
        self._is_reading_log = True
        target, chosen, offset = log.target, log.chosen, log.offset

        def take(part: object) -> None:
            assert isinstance(part, LogPart)
            self._is_reading_log = False
            if self._log is log:
                log.take(part)
            # A full part means that there is more to read.
            self._log_at = time.monotonic() + (0.0 if part.data else LOG_SECONDS)

        def otherwise(error: EvertickError) -> None:
            self._is_reading_log, self._log_at = False, time.monotonic() + self._every
            if self._log is log and log.part is None:
                self._log, self._page.message = None, Message(str(error), is_error=True)
            else:
                log.message = str(error)

        self._worker.call(lambda operations: read_part(operations, target, chosen, offset), take, otherwise)

    def _take_replies(self) -> None:
        for reply in self._worker.take_replies():
            if reply.error is not None:
                reply.otherwise(reply.error)
            else:
                reply.then(reply.value)

    # --- drawing

    def _frame(self, width: int, height: int) -> list[Line]:
        assert self._found is not None
        now = self._now()
        if self._log is not None:
            return self._log.draw(width, height, now)
        return draw(self._page, self._found, width, height, now, self._fresh())

    def _rows(self, width: int, height: int) -> int:
        assert self._found is not None
        if self._log is not None:
            return height - 2
        return job_rows(self._page, self._found, width, height, self._fresh())

    def _fresh(self) -> Freshness:
        silent = self._is_asking and time.monotonic() - self._asked_at > SILENT_SECONDS
        if not self._trouble and not silent:
            return Freshness()
        return Freshness(self._found_clock, clock(), self._trouble or "no answer yet")

    def _now(self) -> Instant:
        """The server's time: its last answer, and what has passed since; of a stale page, the last answer."""
        assert self._found is not None
        if self._fresh().since is not None:
            return self._found.now
        return self._found.now + round((time.monotonic() - self._found_at) * SECOND)

    def _until_next(self, now: float) -> float:
        due = [now + FRAME_SECONDS]
        if not self._is_asking:
            due.append(self._again_at)
        if self._log is not None and not self._is_reading_log and not self._log.is_over:
            due.append(self._log_at)
        return max(min(due) - time.monotonic(), 0.0)

    # --- keys

    def _press(self, key: str, rows: int) -> Command | None:
        assert self._found is not None
        if self._log is not None:
            if not self._log.press(key, rows):
                self._log = None
            elif self._log.offset is None:
                self._log_at = 0.0
            return None
        command = self._page.press(key, self._found, rows)
        match command:
            case SendRequest():
                self._act(command)
            case OpenLog(target):
                self._log, self._log_at = LogPage(target), 0.0
            case OpenWhy(target):
                self._explain(target)
            case Plain.REREAD:
                self._again_at = 0.0
        return command

    def _act(self, act: SendRequest) -> None:
        self._page.message = Message(f"{act.kind} {act.target} ...")

        def take(told: object) -> None:
            self._page.message = Message(str(told))
            self._again_at = 0.0

        self._worker.call(lambda operations: carry_out(operations, act), take, self._refused)

    def _explain(self, target: str) -> None:
        def take(why: object) -> None:
            self._page.show_text(str(why).splitlines())

        def ask(operations: Operations) -> Why:
            return operations.why(target)

        self._worker.call(ask, take, self._refused)

    def _refused(self, error: EvertickError) -> None:
        self._page.message = Message(str(error), is_error=True)


class _Given(TypedDict):
    request_id: str
    wait_seconds: float


def carry_out(operations: Operations, act: SendRequest) -> str:
    """Send the request once, and say what the scheduler answered."""
    given: _Given = {"request_id": new_id(), "wait_seconds": ANSWER_SECONDS}
    status: RequestStatus
    match act.kind:
        case ActionKind.RUN:
            status = operations.trigger(act.target, **given)
        case ActionKind.PAUSE:
            status = operations.pause(act.target, **given)
        case ActionKind.RESUME:
            status = operations.resume(act.target, **given)
        case ActionKind.CANCEL:
            status = operations.cancel(act.target, **given)
        case ActionKind.RETRY | ActionKind.RETRY_FAILED:
            status = operations.retry(act.target, act.kind is ActionKind.RETRY_FAILED, **given)
    if not status.is_answered:
        if not status.is_scheduler_running:
            return "No scheduler is running. The request is queued and will run when one starts."
        return f"The scheduler has not answered yet. The request {status.request} is queued."
    match act.kind:
        case ActionKind.RUN | ActionKind.RETRY | ActionKind.RETRY_FAILED:
            return f"Requested {status.run or act.target}."
        case ActionKind.CANCEL:
            runs = runs_of(status)
            return f"Cancelled {', '.join(runs)}." if runs else f"{act.target} has no unfinished runs."
        case ActionKind.PAUSE:
            return f"Paused {act.target}."
        case ActionKind.RESUME:
            return f"Resumed {act.target}."

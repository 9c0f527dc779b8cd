"""Runs functions of this program: in threads, on an event loop, or in a process for each attempt.

A thread cannot be ended from outside: a cancel, a timeout or a stop of the scheduler asks the function to end (see
`RunContext.is_stopping`), and it runs until it returns. A coroutine is cancelled at its next await. A process is ended:
SIGTERM to its group, then SIGKILL.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import traceback
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence

from evertick.executor import Attempt, AttemptId, Capabilities, Member
from evertick.executors.attempt_journal import NO_JOURNAL, AttemptJournal
from evertick.executors.child import ChildProcess
from evertick.executors.context import LOGGER, RunContext, StopRequested
from evertick.executors.function import Function, Isolation, error_text, result_text
from evertick.executors.function_run import FunctionLogs, FunctionRun, Outcome
from evertick.model.instant import SECOND, Instant
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.loss import LossReason
from evertick.model.plain_json import parse_json
from evertick.model.report import LaunchRefused, Report, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey
from evertick.planning.run_dates import dates_of, timetable_of

log = logging.getLogger(LOGGER)

RUNNING_MAX = 100
"""Attempts at once; more are queued."""
ENDED_KEPT = 10_000
GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL."""

Home = Callable[[], asyncio.AbstractEventLoop | None]


class InProcessExecutor:
    """`find` returns the function of a job, `home` the event loop that coroutines run on."""

    name = "inprocess"

    def __init__(
        self,
        find: Callable[[str], Function | None],
        home: Home = lambda: None,
        *,
        running_max: int = RUNNING_MAX,
        grace_seconds: float = GRACE_SECONDS,
        journal: AttemptJournal = NO_JOURNAL,
        logs: FunctionLogs | None = None,
    ) -> None:
        self._find, self._home = find, home
        self._running_max, self._grace_seconds = running_max, grace_seconds
        self._journal = journal
        self._logs = logs or FunctionLogs()
        self._report: Callable[[Report], None] = lambda _report: None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._runs: dict[AttemptId, FunctionRun] = {}
        self._queue: deque[FunctionRun] = deque()
        self._ended: OrderedDict[AttemptId, Outcome] = OrderedDict()

    # The contract

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._journal.open()

    def launch(self, attempt: Attempt) -> None:
        attempt_id = AttemptId(attempt.key, attempt.attempt)
        function = self._find(attempt.key.job_id)
        with self._lock:
            run, outcome = self._runs.get(attempt_id), self._ended.get(attempt_id)
            if run is None and outcome is None and function is not None:
                run = self._admit(attempt_id, function, attempt)
                if run is None:
                    return  # queued: it is reported when it starts
                is_new = True
            else:
                is_new = False
        if is_new and run is not None:
            self._start(run)
        elif run is not None or outcome is not None:
            self._report_known(attempt_id, run, outcome)
        else:
            reason = f"this process has no function for job '{attempt.key.job_id}'"
            self._report(LaunchRefused(attempt.key, attempt.attempt, reason, attempt.fence))

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        attempt_id = AttemptId(key, attempt)
        with self._lock:
            run = self._runs.get(attempt_id)
            if run is not None and run in self._queue:
                self._queue.remove(run)
            else:
                if run is not None:
                    run.request_stop(CANCELLED, detail)
                return
        self._finish(run, CANCELLED, detail)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for key, attempt in runs:
            attempt_id = AttemptId(key, attempt)
            with self._lock:
                run, outcome = self._runs.get(attempt_id), self._ended.get(attempt_id)
            self._report_known(attempt_id, run, outcome or (self._recorded(attempt_id) if run is None else None))

    def members(self) -> Sequence[Member]:
        with self._lock:
            return (Member(self.name, is_healthy=True, running=len(self._runs)),)

    def close(self) -> None:
        """End what can be ended; nothing is reported any more."""
        self.abandon(0)
        self._report = lambda _report: None
        self._journal.close()

    # Beyond the contract

    def abandon(self, timeout: float) -> bool:
        """End everything, to be retried by the next process; whether all of it ended in time."""
        with self._lock:
            runs = list(self._runs.values())
            self._queue.clear()
            for run in runs:
                run.is_abandoned = True
        for run in runs:
            run.request_stop(CANCELLED, "the scheduler stopped")
            if run.started_at is None:
                self._finish(run, CANCELLED, run.detail)
        with self._changed:
            return self._changed.wait_for(lambda: not self._runs, timeout)

    # Starting

    def _admit(self, attempt_id: AttemptId, function: Function, attempt: Attempt) -> FunctionRun | None:
        work = attempt.job.work
        run_log = self._logs.begin(attempt_id, attempt.key.job_id, work.log_max_bytes)
        context = RunContext.of(
            attempt.key,
            attempt.attempt,
            str(attempt.trigger),
            _params(attempt.params),
            dates_of(
                attempt.job.id,
                timetable_of(attempt.job),
                attempt.key.scheduled_for,
                attempt.previous_success_at,
            ),
            attempt.fence,
            None if run_log is None else run_log.write_text,
        )
        timeout = None if work.timeout_us is None else work.timeout_us / SECOND
        run = FunctionRun(attempt_id, function, context, timeout, run_log)
        has_room = len(self._runs) - len(self._queue) < self._running_max
        self._runs[attempt_id] = run
        if not has_room:
            self._queue.append(run)
            return None
        return run

    def _start(self, run: FunctionRun) -> None:
        try:
            # Journalled before the call: a run that must not happen twice is known to have started.
            self._journal.started(run.attempt_id)
        except OSError as error:
            self._refuse(run, f"its start cannot be journalled: {error.strerror}")
            return
        home = self._home() if run.function.isolation is Isolation.LOOP else None
        if run.function.isolation is Isolation.LOOP and (home is None or home.is_closed()):
            self._refuse(run, "its event loop is closed")
            return
        with self._lock:
            if run.attempt_id not in self._runs:
                return  # stopped before it started
            run.started_at = _now()
        self._report(RunStarted(*run.attempt_id, run.started_at))
        if home is not None:
            coroutine = self._run_on_loop(run)
            try:
                future = asyncio.run_coroutine_threadsafe(coroutine, home)
            except RuntimeError:  # closed a moment ago
                coroutine.close()
                self._lose(run, "its event loop is closed")
            else:
                # A coroutine cancelled before its first step reports nothing itself.
                future.add_done_callback(lambda _done: self._lose(run, "its event loop ended"))
            return
        target = self._run_in_thread if run.function.isolation is Isolation.THREAD else self._run_in_process
        name = f"evertick-run-{run.attempt_id.key.job_id}"
        threading.Thread(target=target, args=(run,), name=name, daemon=True).start()

    # Running

    def _run_in_thread(self, run: FunctionRun) -> None:
        timer = None
        if run.timeout is not None:
            timer = threading.Timer(run.timeout, run.request_stop, (TIMED_OUT, _timed_out(run)))
            timer.daemon = True
            timer.start()
        try:
            if run.function.is_async:
                result = asyncio.run(self._run_in_own_loop(run))
            else:
                result = run.function.call(**run.function.arguments(run.context))
        except BaseException as error:
            self._failed(run, error)
        else:
            self._succeeded(run, result)
        finally:
            if timer is not None:
                timer.cancel()

    async def _run_in_own_loop(self, run: FunctionRun) -> object:
        run.cancel = _canceller()
        if run.stop_state is not None:
            raise asyncio.CancelledError
        return await _called(run)

    async def _run_on_loop(self, run: FunctionRun) -> None:
        run.cancel = _canceller()
        if run.stop_state is not None:
            self._finish(run, run.stop_state, run.detail)
            return
        try:
            async with asyncio.timeout(run.timeout) as limit:
                result = await _called(run)
        except TimeoutError as error:
            if limit.expired():
                run.stop_state, run.detail = run.stop_state or TIMED_OUT, run.detail or _timed_out(run)
            self._failed(run, error)
        except asyncio.CancelledError as error:
            if run.stop_state is None:
                self._lose(run, "its event loop ended")
            else:
                self._failed(run, error)
            raise
        except BaseException as error:
            # SystemExit too: a job must not end the program around it.
            self._failed(run, error)
        else:
            self._succeeded(run, result)

    def _run_in_process(self, run: FunctionRun) -> None:
        """In a process of its own; this thread waits for it."""
        child: ChildProcess | None = None
        try:
            child = ChildProcess(
                run.function.call, run.context, self._grace_seconds, None if run.log is None else run.log.write
            )
            self._wait_for(child, run)
        except BaseException as error:
            # Whatever goes wrong while waiting: a run that never ends would block the queue.
            if child is not None:
                child.discard()
            self._failed(run, error)

    def _wait_for(self, child: ChildProcess, run: FunctionRun) -> None:
        run.cancel = child.end
        if run.stop_state is not None:
            child.end()
        result = child.wait(run.timeout)
        if result is None:
            run.request_stop(TIMED_OUT, _timed_out(run))
            result = child.wait(None)
        assert result is not None
        if run.stop_state is not None and not result.is_success:
            self._finish(run, run.stop_state, run.detail, result.exit_code)
        else:
            self._finish(run, SUCCEEDED if result.is_success else FAILED, result.detail, result.exit_code)

    # Ending

    def _succeeded(self, run: FunctionRun, result: object) -> None:
        if run.stop_state is TIMED_OUT:
            self._finish(run, TIMED_OUT, run.detail)
        else:
            self._finish(run, SUCCEEDED, result_text(result))

    def _failed(self, run: FunctionRun, error: BaseException) -> None:
        if run.stop_state is not None:
            self._finish(run, run.stop_state, run.detail)
            return
        if not isinstance(error, StopRequested):
            log.error(
                "run.raised run=%s attempt=%d", *(run.attempt_id.key.run_id, run.attempt_id.attempt), exc_info=error
            )
            if run.log is not None:
                with contextlib.suppress(Exception):  # a broken log costs the log, never the result
                    run.log.write_text("".join(traceback.format_exception(error)))
        self._finish(run, FAILED, error_text(error))

    def _lose(self, run: FunctionRun, detail: str) -> None:
        run.is_abandoned = True
        self._finish(run, FAILED, detail)

    def _finish(self, run: FunctionRun, state: RunState, detail: str, exit_code: int | None = None) -> None:
        outcome = Outcome(_now(), state, detail, exit_code)
        if run.log is not None:
            with contextlib.suppress(Exception):
                run.log.close()
        with self._lock:
            if self._runs.pop(run.attempt_id, None) is None:
                return  # its end was reported already
            is_lost = run.is_abandoned and state is not SUCCEEDED
            if not is_lost:
                self._ended[run.attempt_id] = outcome
            while len(self._ended) > ENDED_KEPT:
                self._ended.popitem(last=False)
            next_run = self._queue.popleft() if self._queue else None
        if is_lost:
            self._report(RunLost(*run.attempt_id, detail))
        else:
            try:
                self._journal.ended(run.attempt_id, outcome.at, str(state), detail)
            except OSError as error:
                log.warning("run.end_not_journalled run=%s reason=%s", run.attempt_id.key.run_id, error)
            self._report(RunFinished(*run.attempt_id, outcome.at, state, exit_code, detail))
        with self._changed:
            self._changed.notify_all()
        if next_run is not None:
            self._start(next_run)

    def _refuse(self, run: FunctionRun, reason: str) -> None:
        with self._lock:
            self._runs.pop(run.attempt_id, None)
        if run.log is not None:
            run.log.close()
        self._report(LaunchRefused(*run.attempt_id, reason, run.context.fence))

    # Reporting what is known

    def _recorded(self, attempt_id: AttemptId) -> Outcome | RunLost | None:
        known = self._journal.find(attempt_id)
        if known is None:
            return None
        if known.state is None:
            return RunLost(*attempt_id, "its process has ended", reason=LossReason.PROCESS_GONE)
        return Outcome(known.at, RunState(known.state), known.detail)

    def _report_known(self, attempt_id: AttemptId, run: FunctionRun | None, outcome: Outcome | RunLost | None) -> None:
        if run is not None:
            if run.started_at is not None:
                self._report(RunStarted(*attempt_id, run.started_at))
        elif isinstance(outcome, Outcome):
            self._report(RunFinished(*attempt_id, outcome.at, outcome.state, outcome.exit_code, outcome.detail))
        else:
            self._report(outcome or RunUnknown(*attempt_id))


def _canceller() -> Callable[[], None]:
    """A function that cancels the current task, from any thread."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so has the task
            loop.call_soon_threadsafe(task.cancel)

    return end


def _called(run: FunctionRun) -> Coroutine[object, None, object]:
    made = run.function.call(**run.function.arguments(run.context))
    assert isinstance(made, Coroutine)
    return made


def _params(text: str) -> Mapping[str, str]:
    """The parameters of the request that are texts; a backfill's own options are not."""
    try:
        found = parse_json(text) if text else {}
    except ValueError:
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _timed_out(run: FunctionRun) -> str:
    return f"it took longer than {run.timeout:g} s"


def _now() -> Instant:
    return time.time_ns() // 1_000

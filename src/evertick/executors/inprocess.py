"""Running functions of this very process: in threads, on an event loop, or in a process for each attempt.

What runs in a thread cannot be ended from outside: a cancel, a timeout and a stop of the scheduler ask it to end (see
`RunContext.is_stopping`), and it goes on until it returns. A coroutine ends at its next await. A process is really
ended: SIGTERM to its group, then SIGKILL.
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
from typing import Any

from evertick.executor import Attempt, AttemptId, Member
from evertick.executors.attempt_journal import NO_MEMORY, AttemptJournal
from evertick.executors.child import ChildProcess
from evertick.executors.context import LOGGER, RunContext, StopRequested
from evertick.executors.function import Function, Isolation, error_text, result_text
from evertick.executors.function_log import FunctionLogs
from evertick.executors.function_run import FunctionRun, Outcome
from evertick.model.instant import SECOND, Instant
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.loss import LossReason
from evertick.model.plain_json import parse_json
from evertick.model.report import LaunchRefused, Report, RunFinished, RunLost, RunStarted, RunUnknown
from evertick.model.run import RunKey

log = logging.getLogger(LOGGER)

RUNNING_MAX = 100
"""Attempts at once; more wait for their turn."""
ENDED_KEPT = 10_000
GRACE_SECONDS = 5.0
"""Between the polite end of a process and the one by force."""

Home = Callable[[], asyncio.AbstractEventLoop | None]


class InProcessExecutor:
    """`find` names the function of a job, `home` the event loop that coroutines run on."""

    name = "inprocess"

    def __init__(
        self,
        find: Callable[[str], Function | None],
        home: Home = lambda: None,
        *,
        running_max: int = RUNNING_MAX,
        grace_seconds: float = GRACE_SECONDS,
        memory: AttemptJournal = NO_MEMORY,
        logs: FunctionLogs | None = None,
    ) -> None:
        self._find, self._home = find, home
        self._running_max, self._grace_seconds = running_max, grace_seconds
        self._memory = memory
        self._logs = logs or FunctionLogs()
        self._report: Callable[[Report], None] = lambda _report: None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._runs: dict[AttemptId, FunctionRun] = {}
        self._queue: deque[FunctionRun] = deque()
        self._ended: OrderedDict[AttemptId, Outcome] = OrderedDict()

    # The contract

    def open(self, report: Callable[[Report], None]) -> None:
        self._report = report
        self._memory.open()

    def launch(self, attempt: Attempt) -> None:
        attempt_id = AttemptId(attempt.key, attempt.attempt)
        function = self._find(attempt.key.job_id)
        with self._lock:
            run, outcome = self._runs.get(attempt_id), self._ended.get(attempt_id)
            if run is None and outcome is None and function is not None:
                run = self._admit(attempt_id, function, attempt)
                if run is None:
                    return  # it waits for its turn, and says so when that has come
                is_new = True
            else:
                is_new = False
        if is_new and run is not None:
            self._start(run)
        elif run is not None or outcome is not None:
            self._say(attempt_id, run, outcome)
        else:
            reason = f"there is no function for job '{attempt.key.job_id}' in this process"
            self._report(LaunchRefused(attempt.key, attempt.attempt, reason))

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        attempt_id = AttemptId(key, attempt)
        with self._lock:
            run = self._runs.get(attempt_id)
            if run is not None and run in self._queue:
                self._queue.remove(run)
            else:
                if run is not None:
                    run.ask_to_end(CANCELLED, detail)
                return
        self._finish(run, CANCELLED, detail)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for key, attempt in runs:
            attempt_id = AttemptId(key, attempt)
            with self._lock:
                run, outcome = self._runs.get(attempt_id), self._ended.get(attempt_id)
            self._say(attempt_id, run, outcome or (self._remembered(attempt_id) if run is None else None))

    def members(self) -> Sequence[Member]:
        with self._lock:
            return (Member(self.name, is_healthy=True, running=len(self._runs)),)

    def close(self) -> None:
        """End what can be ended; nobody is told any more."""
        self.abandon(0)
        self._report = lambda _report: None
        self._memory.close()

    # Beyond the contract

    def abandon(self, timeout: float) -> bool:
        """End everything, to be tried again by whoever starts next; whether all of it has ended in time."""
        with self._lock:
            runs = list(self._runs.values())
            self._queue.clear()
            for run in runs:
                run.is_abandoned = True
        for run in runs:
            run.ask_to_end(CANCELLED, "the scheduler stopped")
            if run.started_at is None:
                self._finish(run, CANCELLED, run.detail)
        with self._changed:
            return self._changed.wait_for(lambda: not self._runs, timeout)

    # Starting

    def _admit(self, attempt_id: AttemptId, function: Function, attempt: Attempt) -> FunctionRun | None:
        work = attempt.job.work
        said = self._logs.begin(attempt.key, attempt.attempt, attempt.key.job_id, work.log_max_bytes)
        context = RunContext.of(
            attempt.key,
            attempt.attempt,
            str(attempt.trigger),
            _params(attempt.params),
            attempt.previous_success_at,
            attempt.fence,
            None if said is None else said.write_text,
        )
        timeout = None if work.timeout_us is None else work.timeout_us / SECOND
        run = FunctionRun(attempt_id, function, context, timeout, said)
        has_room = len(self._runs) - len(self._queue) < self._running_max
        self._runs[attempt_id] = run
        if not has_room:
            self._queue.append(run)
            return None
        return run

    def _start(self, run: FunctionRun) -> None:
        try:
            # Written down before anything happens: a run that must not happen twice is known to have begun.
            self._memory.started(run.attempt_id)
        except OSError as error:
            self._refuse(run, f"its start cannot be written down: {error.strerror}")
            return
        home = self._home() if run.function.isolation is Isolation.LOOP else None
        if run.function.isolation is Isolation.LOOP and (home is None or home.is_closed()):
            self._refuse(run, "the event loop that it runs on is closed")
            return
        with self._lock:
            if run.attempt_id not in self._runs:
                return  # ended before it began
            run.started_at = _now()
        self._report(RunStarted(*run.attempt_id, run.started_at))
        if home is not None:
            coroutine = self._await(run)
            try:
                future = asyncio.run_coroutine_threadsafe(coroutine, home)
            except RuntimeError:  # it was closed a moment ago
                coroutine.close()
                self._lose(run, "the event loop that it runs on is closed")
            else:
                # One that is cancelled before its first step says nothing itself.
                future.add_done_callback(lambda _done: self._lose(run, "its event loop ended"))
            return
        carry = self._carry_out if run.function.isolation is Isolation.THREAD else self._carry_out_apart
        name = f"evertick-run-{run.attempt_id.key.job_id}"
        threading.Thread(target=carry, args=(run,), name=name, daemon=True).start()

    # Carrying out

    def _carry_out(self, run: FunctionRun) -> None:
        timer = None
        if run.timeout is not None:
            timer = threading.Timer(run.timeout, run.ask_to_end, (TIMED_OUT, _timed_out(run)))
            timer.daemon = True
            timer.start()
        try:
            if run.function.is_async:
                result = asyncio.run(self._in_own_loop(run))
            else:
                result = run.function.call(**run.function.arguments(run.context))
        except BaseException as error:
            self._failed(run, error)
        else:
            self._succeeded(run, result)
        finally:
            if timer is not None:
                timer.cancel()

    async def _in_own_loop(self, run: FunctionRun) -> Any:
        run.end = _canceller()
        if run.ending is not None:
            raise asyncio.CancelledError
        return await _called(run)

    async def _await(self, run: FunctionRun) -> None:
        run.end = _canceller()
        if run.ending is not None:
            self._finish(run, run.ending, run.detail)
            return
        try:
            async with asyncio.timeout(run.timeout) as limit:
                result = await _called(run)
        except TimeoutError as error:
            if limit.expired():
                run.ending, run.detail = run.ending or TIMED_OUT, run.detail or _timed_out(run)
            self._failed(run, error)
        except asyncio.CancelledError as error:
            if run.ending is None:
                self._lose(run, "its event loop ended")
            else:
                self._failed(run, error)
            raise
        except BaseException as error:
            # Also one that says goodbye: a job is no reason for the program around it to end.
            self._failed(run, error)
        else:
            self._succeeded(run, result)

    def _carry_out_apart(self, run: FunctionRun) -> None:
        """In a process of its own, which this thread waits for."""
        child: ChildProcess | None = None
        try:
            child = ChildProcess(
                run.function.call, run.context, self._grace_seconds, None if run.said is None else run.said.write
            )
            self._wait_for(child, run)
        except BaseException as error:
            # Whatever goes wrong while we listen: a run that never ends would hold up all that are behind it.
            if child is not None:
                child.discard()
            self._failed(run, error)

    def _wait_for(self, child: ChildProcess, run: FunctionRun) -> None:
        run.end = child.end
        if run.ending is not None:
            child.end()
        said = child.wait(run.timeout)
        if said is None:
            run.ask_to_end(TIMED_OUT, _timed_out(run))
            said = child.wait(None)
        assert said is not None
        if run.ending is not None and not said.is_success:
            self._finish(run, run.ending, run.detail, said.exit_code)
        else:
            self._finish(run, SUCCEEDED if said.is_success else FAILED, said.detail, said.exit_code)

    # Ending

    def _succeeded(self, run: FunctionRun, result: object) -> None:
        if run.ending is TIMED_OUT:
            self._finish(run, TIMED_OUT, run.detail)
        else:
            self._finish(run, SUCCEEDED, result_text(result))

    def _failed(self, run: FunctionRun, error: BaseException) -> None:
        if run.ending is not None:
            self._finish(run, run.ending, run.detail)
            return
        if not isinstance(error, StopRequested):
            log.error(
                "run.raised run=%s attempt=%d", *(run.attempt_id.key.run_id, run.attempt_id.attempt), exc_info=error
            )
            if run.said is not None:
                with contextlib.suppress(Exception):  # a log that breaks costs the log, never the end of the run
                    run.said.write_text("".join(traceback.format_exception(error)))
        self._finish(run, FAILED, error_text(error))

    def _lose(self, run: FunctionRun, detail: str) -> None:
        run.is_abandoned = True
        self._finish(run, FAILED, detail)

    def _finish(self, run: FunctionRun, state: RunState, detail: str, exit_code: int | None = None) -> None:
        outcome = Outcome(_now(), state, detail, exit_code)
        if run.said is not None:
            with contextlib.suppress(Exception):
                run.said.close()
        with self._lock:
            if self._runs.pop(run.attempt_id, None) is None:
                return  # it is known already how it ended
            is_lost = run.is_abandoned and state is not SUCCEEDED
            if not is_lost:
                self._ended[run.attempt_id] = outcome
            while len(self._ended) > ENDED_KEPT:
                self._ended.popitem(last=False)
            following = self._queue.popleft() if self._queue else None
        if is_lost:
            self._report(RunLost(*run.attempt_id, detail))
        else:
            try:
                self._memory.ended(run.attempt_id, outcome.at, str(state), detail)
            except OSError as error:
                log.warning("run.end_not_written run=%s reason=%s", run.attempt_id.key.run_id, error)
            self._report(RunFinished(*run.attempt_id, outcome.at, state, exit_code, detail))
        with self._changed:
            self._changed.notify_all()
        if following is not None:
            self._start(following)

    def _refuse(self, run: FunctionRun, reason: str) -> None:
        with self._lock:
            self._runs.pop(run.attempt_id, None)
        if run.said is not None:
            run.said.close()
        self._report(LaunchRefused(*run.attempt_id, reason))

    # Saying what is known

    def _remembered(self, attempt_id: AttemptId) -> Outcome | RunLost | None:
        known = self._memory.recall(attempt_id)
        if known is None:
            return None
        if known.state is None:
            return RunLost(*attempt_id, "the process that ran it has ended", reason=LossReason.PROCESS_GONE)
        return Outcome(known.at, RunState(known.state), known.detail)

    def _say(self, attempt_id: AttemptId, run: FunctionRun | None, outcome: Outcome | RunLost | None) -> None:
        if run is not None:
            if run.started_at is not None:
                self._report(RunStarted(*attempt_id, run.started_at))
        elif isinstance(outcome, Outcome):
            self._report(RunFinished(*attempt_id, outcome.at, outcome.state, outcome.exit_code, outcome.detail))
        else:
            self._report(outcome or RunUnknown(*attempt_id))


def _canceller() -> Callable[[], None]:
    """Ends the present task, from any thread."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and so has the task
            loop.call_soon_threadsafe(task.cancel)

    return end


def _called(run: FunctionRun) -> Coroutine[Any, Any, Any]:
    made: Coroutine[Any, Any, Any] = run.function.call(**run.function.arguments(run.context))
    return made


def _params(text: str) -> Mapping[str, str]:
    """What was given with the request; a backfill's own rule is no parameter of the job."""
    try:
        found = parse_json(text) if text else {}
    except ValueError:
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}


def _timed_out(run: FunctionRun) -> str:
    return f"it took longer than {run.timeout:g} s"


def _now() -> Instant:
    return time.time_ns() // 1_000

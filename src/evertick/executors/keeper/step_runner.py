"""Runs a step: its preconditions, its tries and repetitions, and its output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable

from evertick.executors.keeper.attempt_context import AttemptContext
from evertick.executors.keeper.attempt_state import StepEnd
from evertick.executors.keeper.environment import VALUE_MAX, is_variable
from evertick.executors.keeper.exit_note_file import NO_HEAD
from evertick.executors.keeper.output import Capture
from evertick.executors.keeper.process import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    Cancellable,
    HttpTry,
    ProcessTry,
    Runtime,
    TryEnd,
)
from evertick.executors.keeper.recorder import AttemptRecorder
from evertick.executors.keeper.spawn import NoCapacity
from evertick.kinds import Program, StepError
from evertick.kinds.http import HttpRequest
from evertick.model.duration import format_duration
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, PLANNED, SUCCEEDED, RunState
from evertick.model.plain_json import parse_json
from evertick.model.subrun import SubRunEnd
from evertick.model.work import Condition, Pipeline, Step, SubJob
from evertick.planning.retry import wait_us
from evertick.planning.workflow import StepOutcome


class CancelScope:
    """Whether an attempt continues, and what to cancel when it does not."""

    def __init__(self, runtime: Runtime, recorder: AttemptRecorder) -> None:
        self.runtime = runtime
        self.recorder = recorder
        self.halted: tuple[RunState, str] | None = None
        """The state in which the attempt ends, and why; None while it continues."""
        self.has_started = False
        self.has_interrupted = False
        """Whether halting has ended something, or kept something from being done."""
        self.is_abandoned = False
        """Whether another node may start the run: nothing is waited for."""
        self.is_lost = False
        """Whether the last try lost what it ran elsewhere, such as a pod."""
        self._active: set[Cancellable] = set()
        self._ended: set[Cancellable] = set()
        """Those of them that halting has ended."""
        self._halting = asyncio.Event()

    def add(self, running: Cancellable) -> None:
        """Cancel this when the attempt is halted, or now if it was."""
        self._active.add(running)
        if self.halted is not None:
            self._cancel(running)

    def remove(self, running: Cancellable) -> None:
        self._active.discard(running)
        self._ended.discard(running)

    def why_ended(self, running: Cancellable) -> str:
        """Why halting ended this, for the record of its step; empty: it ended by itself."""
        return self.halted_text() if running in self._ended else ""

    def halted_text(self) -> str:
        """The detail of a step that did not fail, but whose run was ended; empty while it continues."""
        return "" if self.halted is None else f"ended with its run: {self.halted[1] or self.halted[0]}"

    def mark_started(self) -> None:
        if not self.has_started:
            self.has_started = True
            self.recorder.started()

    def halt(self, state: RunState, detail: str) -> None:
        """The first reason counts; whatever runs is cancelled in any case."""
        if self.halted is None:
            self.halted = state, detail
        self._halting.set()
        for running in tuple(self._active):
            self._cancel(running)

    def _cancel(self, running: Cancellable) -> None:
        if running.cancel():
            self.has_interrupted = True
            self._ended.add(running)

    def resume(self) -> None:
        """The steps are over; the handlers that follow run although the steps were halted."""
        self.halted = None
        self._halting.clear()

    async def sleep(self, seconds: float) -> None:
        """Wait, unless it is halted first."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._halting.wait(), seconds)
            self.has_interrupted = True


async def skipped_by_condition(step: Step, context: AttemptContext, scope: CancelScope) -> StepEnd | None:
    """The end of a step whose preconditions do not hold; None: it may run."""
    started_at = _now()
    for condition in step.preconditions:
        unmet = await context.why_unmet(condition, scope.add, step)
        if unmet is not None:
            detail = f"condition: {unmet}"
            return StepEnd(step.name, StepOutcome.SKIPPED, started_at, _now(), tries=0, detail=detail)
    return None


class StepRunner:
    """Runs one step once."""

    def __init__(self, step: Step, context: AttemptContext, scope: CancelScope) -> None:
        self._step = step
        self._context = context
        self._scope = scope
        self._log = context.log_of(step)
        self._tries = 0
        self._started_at = 0

    def note(self, text: str) -> None:
        """A line of ours in its log."""
        self._log.note(text)

    async def run(self) -> tuple[StepEnd, int]:
        """How the step ended, and the pid of its last process."""
        name, started_at = self._step.name, _now()
        self._started_at = started_at
        skipped = await skipped_by_condition(self._step, self._context, self._scope)
        if skipped is not None:
            return skipped, 0
        try:
            end = await self._repeat()
        finally:
            self._log.close()
        used = end.used
        outcome = StepOutcome.SUCCEEDED if end.is_good else StepOutcome.FAILED
        figures = (end.exit_code, self._tries, used.user_us, used.system_us, used.max_rss_bytes)
        detail = self._context.masker().text(end.detail)
        step_end = StepEnd(name, outcome, started_at, _now(), *figures, detail, has_log=self._log.has_file)
        return self._context.completed(step_end, self._step.item), end.pid

    async def _repeat(self) -> TryEnd:
        """Repeat the step as its `repeat` says; without one it runs once."""
        repeat, scope, times = self._step.repeat, self._scope, 0
        while True:
            end = await self._retry()
            times += 1
            if repeat is None or not end.is_good:
                return end
            if scope.halted is not None:
                scope.has_interrupted = True  # there may have been another round
                return end
            if repeat.until is not None and await self._is_met(repeat.until):
                return end
            if repeat.limit is not None and times >= repeat.limit:
                if repeat.until is None:
                    return end
                return end._replace(is_good=False, detail=f"its condition did not hold; repetitions: {times}")
            if end.pid:
                scope.recorder.exited(end.pid)
            await scope.sleep(repeat.interval_us / SECOND)
            if scope.halted is not None:
                return end._replace(is_good=False, detail=scope.halted_text())

    async def _is_met(self, condition: Condition) -> bool:
        return await self._context.why_unmet(condition, self._scope.add, self._step) is None

    async def _retry(self) -> TryEnd:
        """Try until it succeeds or no retry is left."""
        step, scope, number = self._step, self._scope, 0
        while True:
            if self._tries:
                self._log.note(f"try {self._tries + 1} of step {step.name!r}")
            self._tries += 1
            number += 1
            end = await self._try()
            scope.is_lost = end.is_lost
            if end.is_good or number > step.retry.max_retries:
                return end
            if scope.halted is not None:
                scope.has_interrupted = True  # there would have been another try
                return end
            if end.pid:
                scope.recorder.exited(end.pid)
            await scope.sleep(wait_us(step.retry, number, f"{self._context.run_id}/{step.name}") / SECOND)
            if scope.halted is not None:
                return end

    async def _try(self) -> TryEnd:
        step = self._step
        try:
            if step.output is not None and not is_variable(step.output):
                raise StepError(f"{step.output!r} is not a valid variable name. Use letters, digits and '_'.")
            if isinstance(step.kind, SubJob):
                return await self._run_job(step.kind)
            program = self._context.program_of(step)
            if isinstance(program, HttpRequest):
                return await self._call(program)
            return await self._spawn(program)
        except StepError as error:
            self._scope.mark_started()
            self._log.note(str(error))
            return TryEnd(False, str(error))

    # A process

    async def _spawn(self, program: Program) -> TryEnd:
        step, context, scope = self._step, self._context, self._scope
        confinement = context.confinement_of(step)
        # Room for the name, the '=' and the NUL that the kernel counts too.
        output_max = VALUE_MAX - len(step.output) - 2 if step.output is not None else None
        process = ProcessTry(
            scope.runtime,
            program,
            context.process_env_of(step, confinement),
            context.folder_of(step, confinement),
            context.marks,
            self._log.write,
            output_max,
            confinement,
            context.note_head_of(step, self._started_at, self._tries) if program.has_exit_note else NO_HEAD,
        )
        try:
            process.start()
        except NoCapacity as error:
            if not scope.has_started:
                raise
            return self._not_started(str(error), NOT_EXECUTABLE)
        except (FileNotFoundError, NotADirectoryError) as error:
            scope.mark_started()
            return self._not_started(_reason(error), NOT_FOUND)
        except (OSError, ValueError) as error:
            scope.mark_started()
            return self._not_started(_reason(error), NOT_EXECUTABLE)
        scope.recorder.spawned(process.pid, process.started_us)
        scope.mark_started()
        end = await self._wait(process, process.ended)
        capture = process.output()
        if capture is not None and isinstance(step.kind, Pipeline):
            return self._with_result(end, capture)
        if capture is None or not end.is_good:
            return end
        if capture.is_too_long:
            detail = (
                f"it printed {capture.length:,} bytes, and a variable holds {output_max:,}. "
                f"Write the output to a file and print the file's name."
            )
            return end._replace(is_good=False, detail=detail)
        value = capture.value()
        if b"\0" in value:
            return end._replace(is_good=False, detail="it printed a NUL byte, which no variable can hold")
        context.outputs.set(step, value.decode("utf-8", "surrogateescape").removesuffix("\n"))
        return end

    def _with_result(self, end: TryEnd, capture: Capture) -> TryEnd:
        """A pipeline's result is kept even if it failed, and has the reason."""
        try:
            result = parse_json(capture.value())
        except ValueError:
            return end  # it wrote none
        self._context.outputs.set(self._step, json.dumps(result))
        failure = result.get("failure") if isinstance(result, dict) else None
        return end._replace(detail=str(failure)) if failure and end.exit_code == 1 else end

    def _not_started(self, reason: str, code: int) -> TryEnd:
        self._log.note(reason)
        return TryEnd(False, reason, code)

    # An HTTP call

    async def _call(self, request: HttpRequest) -> TryEnd:
        step = self._step
        call = HttpTry(self._scope.runtime, request)
        self._scope.mark_started()

        async def ended() -> TryEnd:
            answer = await call.ended()
            if answer.body:
                self._log.write(answer.body)
                if answer.is_cut:
                    self._log.note("the rest of the response was left out")
            if step.output is not None and answer.is_good:
                if len(answer.body) > VALUE_MAX - len(step.output) - 2 or b"\0" in answer.body:
                    return TryEnd(False, "its response does not fit into a variable", answer.status)
                self._context.outputs.set(step, answer.body.decode("utf-8", "surrogateescape").removesuffix("\n"))
            if answer.is_good:
                return TryEnd(True, "", 0)
            self._log.note(answer.detail)
            return TryEnd(False, answer.detail, answer.status)

        return await self._wait(call, ended)

    # A run of another job

    async def _run_job(self, kind: SubJob) -> TryEnd:
        step, scope, number = self._step, self._scope, self._tries
        params = self._context.params_for(step, kind)
        pending = scope.recorder.request_sub_run(step.name, number, kind.job_id, params, waits=kind.waits)
        scope.mark_started()
        run_id = self._context.set_sub_run(step, kind.job_id, number)
        self._log.note(f"requested run {run_id}")

        async def ended() -> TryEnd:
            end = await pending
            if end.state is PLANNED:
                return TryEnd(True)
            text = f"run {run_id} ended as {end.state}{f': {end.detail}' if end.detail else ''}"
            self._log.note(text)
            if end.state is not SUCCEEDED:
                return TryEnd(False, text)
            if step.output is not None:
                value = json.dumps(dict(end.outputs))
                if len(value) > VALUE_MAX - len(step.output) - 2:
                    return TryEnd(False, "the outputs of that run do not fit into a variable")
                self._context.outputs.set(step, value)
            return TryEnd(True)

        return await self._wait(SubRunTry(pending, lambda: scope.recorder.cancel_sub_run(step.name, number)), ended)

    async def _wait(self, running: Cancellable, ended: Callable[[], Awaitable[TryEnd]]) -> TryEnd:
        """Wait for the end of a try, with the step's own timeout."""
        timeout_us, has_timed_out = self._step.timeout_us, False

        def expire() -> None:
            nonlocal has_timed_out
            has_timed_out = True
            running.cancel()

        timer = self._scope.runtime.loop.call_later(timeout_us / SECOND, expire) if timeout_us is not None else None
        self._scope.add(running)
        why_ended = ""
        try:
            end = await ended()
            why_ended = self._scope.why_ended(running)
        finally:
            self._scope.remove(running)
            if timer is not None:
                timer.cancel()
        if has_timed_out and timeout_us is not None:
            return end._replace(is_good=False, detail=f"it took longer than {format_duration(timeout_us)}")
        return end._replace(detail=why_ended) if why_ended and not end.is_good else end


class SubRunTry:
    """A wait for another run; cancelling the wait cancels that run."""

    def __init__(self, pending: asyncio.Future[SubRunEnd], cancel: Callable[[], None]) -> None:
        self._pending = pending
        self._cancel = cancel

    def cancel(self) -> bool:
        if self._pending.done():
            return False
        self._cancel()
        self._pending.set_result(SubRunEnd(CANCELLED, "it was stopped"))
        return True


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _now() -> int:
    return time.time_ns() // 1_000

"""Runs a step: its condition, its tries, its repetitions, and its outputs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from typing import Protocol

from evertick.executors.keeper.attempt_context import AttemptContext
from evertick.executors.keeper.attempt_state import StepEnd
from evertick.executors.keeper.environment import VALUE_MAX, is_variable
from evertick.executors.keeper.output import Capture, LogWriter
from evertick.executors.keeper.process import NOT_FOUND, NOT_USABLE, HttpTry, Living, ProcessTry, Tools, TryEnd
from evertick.executors.keeper.processes import NoRoom
from evertick.kinds import Program, Unready
from evertick.kinds.http import HttpRequest
from evertick.model.duration import format_duration
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, PLANNED, SUCCEEDED, RunState
from evertick.model.plain_json import parse_json
from evertick.model.subrun import SubRunEnd
from evertick.model.work import Pipeline, Step, SubJob
from evertick.planning.retry import wait_us
from evertick.planning.workflow import StepOutcome


class Observer(Protocol):
    def started(self) -> None: ...
    def spawned(self, pid: int, started_us: int) -> None: ...
    def exited(self, pid: int) -> None: ...
    def call(self, step: str, number: int, job_id: str, params: str, *, waits: bool) -> asyncio.Future[SubRunEnd]: ...
    def hang_up(self, step: str, number: int) -> None: ...


class CancelScope:
    """Whether an attempt goes on, and what has to end when it does not."""

    def __init__(self, tools: Tools, observer: Observer) -> None:
        self.tools = tools
        self.observer = observer
        self.halted: tuple[RunState, str] | None = None
        self.has_started = False
        self.has_cut_short = False
        """Whether halting it has ended something, or kept something from being done."""
        self.is_lost = False
        """Whether what the last try attended to elsewhere was taken away from it."""
        self._living: set[Living] = set()
        self._halting = asyncio.Event()

    def __call__(self, living: Living) -> None:
        """Attend to something that must end with the attempt."""
        self._living.add(living)
        if self.halted is not None:
            self.has_cut_short |= living.end()

    def leave(self, living: Living) -> None:
        self._living.discard(living)

    def mark_started(self) -> None:
        if not self.has_started:
            self.has_started = True
            self.observer.started()

    def halt(self, state: RunState, detail: str) -> None:
        """The first reason counts; whatever lives is ended in any case."""
        if self.halted is None:
            self.halted = state, detail
        self._halting.set()
        for living in tuple(self._living):
            self.has_cut_short |= living.end()

    def resume(self) -> None:
        """The steps are over: what comes behind them, the handlers, is not halted by what halted them."""
        self.halted = None
        self._halting.clear()

    async def pause(self, seconds: float) -> None:
        """Wait, unless it is halted first."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._halting.wait(), seconds)
            self.has_cut_short = True


async def run_step(step: Step, context: AttemptContext, scope: CancelScope) -> tuple[StepEnd, int]:
    """How the step ended, and the pid of its last process."""
    began = _now()
    for condition in step.preconditions:
        unmet = await context.why_unmet(condition, scope, step)
        if unmet is not None:
            return StepEnd(step.name, StepOutcome.SKIPPED, began, _now(), tries=0, detail=f"condition: {unmet}"), 0
    log = context.log_of(step)
    try:
        end, tries = await _until_it_is_enough(step, context, scope, log)
    finally:
        log.close()
    used = end.used
    outcome = StepOutcome.SUCCEEDED if end.is_good else StepOutcome.FAILED
    figures = (end.exit_code, tries, used.user_us, used.system_us, used.max_rss_bytes)
    ended = StepEnd(
        step.name, outcome, began, _now(), *figures, context.masker().text(end.detail), has_log=log.has_file
    )
    return context.completed(ended), end.pid


async def _until_it_is_enough(
    step: Step, context: AttemptContext, scope: CancelScope, log: LogWriter
) -> tuple[TryEnd, int]:
    """Repeat the step as it asks for; without a wish it is carried out once."""
    repeat, times, tries = step.repeat, 0, 0
    while True:
        end, taken = await _until_it_succeeds(step, context, scope, log, tries)
        times, tries = times + 1, taken
        if repeat is None or not end.is_good:
            return end, tries
        if scope.halted is not None:
            scope.has_cut_short = True  # there may have been another round
            return end, tries
        if repeat.until is not None and await context.why_unmet(repeat.until, scope, step) is None:
            return end, tries
        if repeat.limit is not None and times >= repeat.limit:
            if repeat.until is None:
                return end, tries
            return end._replace(is_good=False, detail=f"its condition did not hold after {times} times"), tries
        if end.pid:
            scope.observer.exited(end.pid)
        await scope.pause(repeat.interval_us / SECOND)
        if scope.halted is not None:
            return end._replace(is_good=False, detail="it was ended while it waited"), tries


async def _until_it_succeeds(
    step: Step, context: AttemptContext, scope: CancelScope, log: LogWriter, tries: int
) -> tuple[TryEnd, int]:
    for number in range(1, step.retry.max_retries + 2):
        if tries:
            log.note(f"try {tries + 1} of step {step.name!r}")
        tries += 1
        end = await _try(step, context, scope, log, tries)
        scope.is_lost = end.is_lost
        if end.is_good or number > step.retry.max_retries:
            return end, tries
        if scope.halted is not None:
            scope.has_cut_short = True  # there would have been another try
            return end, tries
        if end.pid:
            scope.observer.exited(end.pid)
        await scope.pause(wait_us(step.retry, number, f"{context.run_id}/{step.name}") / SECOND)
        if scope.halted is not None:
            return end, tries
    raise AssertionError("the last try is always answered")


async def _try(step: Step, context: AttemptContext, scope: CancelScope, log: LogWriter, number: int) -> TryEnd:
    try:
        if step.output is not None and not is_variable(step.output):
            raise Unready(f"{step.output!r} is not a name for a variable. Use letters, digits and '_'.")
        if isinstance(step.kind, SubJob):
            return await _sub_run(step, step.kind, context, scope, log, number)
        program = context.program_of(step)
        if isinstance(program, HttpRequest):
            return await _call(step, program, context, scope, log)
        return await _process(step, program, context, scope, log)
    except Unready as error:
        scope.mark_started()
        log.note(str(error))
        return TryEnd(False, str(error))


async def _process(step: Step, program: Program, context: AttemptContext, scope: CancelScope, log: LogWriter) -> TryEnd:
    # Room for the name, the '=' and the end that the kernel counts too.
    output_max = VALUE_MAX - len(step.output) - 2 if step.output is not None else None
    process = ProcessTry(
        scope.tools,
        program,
        context.env_of(step),
        context.folder_of(step),
        context.marks,
        log.write,
        output_max,
        context.confinement_of(step),
    )
    try:
        process.start()
    except NoRoom as error:
        if not scope.has_started:
            raise
        return _not_started(log, str(error), NOT_USABLE)
    except (FileNotFoundError, NotADirectoryError) as error:
        scope.mark_started()
        return _not_started(log, _reason(error), NOT_FOUND)
    except (OSError, ValueError) as error:
        scope.mark_started()
        return _not_started(log, _reason(error), NOT_USABLE)
    scope.observer.spawned(process.pid, process.started_us)
    scope.mark_started()
    end = await _attended(step, process, scope, process.ended)
    capture = process.output()
    if capture is not None and isinstance(step.kind, Pipeline):
        return _with_result(step, end, capture, context)
    if capture is None or not end.is_good:
        return end
    assert step.output is not None
    if capture.is_too_long:
        detail = (
            f"it printed {capture.length:,} bytes, and a variable holds {output_max:,}. "
            f"Write them to a file and hand its name on."
        )
        return end._replace(is_good=False, detail=detail)
    value = capture.value()
    if b"\0" in value:
        return end._replace(is_good=False, detail="it printed a NUL byte, which no variable can hold")
    context.hand_on(step, value.decode("utf-8", "surrogateescape").removesuffix("\n"))
    return end


def _with_result(step: Step, end: TryEnd, capture: Capture, context: AttemptContext) -> TryEnd:
    """What a pipeline says of its result is kept however it ended, and is the reason when it failed."""
    try:
        told = parse_json(capture.value())
    except ValueError:
        return end  # it did not get that far
    context.hand_on(step, json.dumps(told))
    failure = told.get("failure") if isinstance(told, dict) else None
    return end._replace(detail=str(failure)) if failure and end.exit_code == 1 else end


async def _call(
    step: Step, request: HttpRequest, context: AttemptContext, scope: CancelScope, log: LogWriter
) -> TryEnd:
    call = HttpTry(scope.tools, request)
    scope.mark_started()

    async def answered() -> TryEnd:
        answer = await call.ended()
        if answer.body:
            log.write(answer.body)
            if answer.is_cut:
                log.note("the rest of the answer was left out")
        if step.output is not None and answer.is_good:
            if len(answer.body) > VALUE_MAX - len(step.output) - 2 or b"\0" in answer.body:
                return TryEnd(False, "its answer does not fit into a variable", answer.status)
            context.hand_on(step, answer.body.decode("utf-8", "surrogateescape").removesuffix("\n"))
        if not answer.is_good:
            log.note(answer.detail)
        return TryEnd(answer.is_good, "" if answer.is_good else answer.detail, 0 if answer.is_good else answer.status)

    return await _attended(step, call, scope, answered)


class _SubTry:
    """Waiting for a run of another job; that is ended with the step."""

    def __init__(self, answer: asyncio.Future[SubRunEnd], hang_up: Callable[[], None]) -> None:
        self._answer = answer
        self._hang_up = hang_up

    def end(self) -> bool:
        if self._answer.done():
            return False
        self._hang_up()
        self._answer.set_result(SubRunEnd(CANCELLED, "it was ended"))
        return True


async def _sub_run(
    step: Step, kind: SubJob, context: AttemptContext, scope: CancelScope, log: LogWriter, number: int
) -> TryEnd:
    params = context.params_for(step, kind)
    answer = scope.observer.call(step.name, number, kind.job_id, params, waits=kind.waits)
    scope.mark_started()
    run_id = context.note_sub_run(step, kind, number)
    log.note(f"asked for the run {run_id}")

    async def answered() -> TryEnd:
        end = await answer
        if end.state is PLANNED:
            return TryEnd(True)
        log.note(f"{run_id} ended as {end.state}{f': {end.detail}' if end.detail else ''}")
        if end.state is not SUCCEEDED:
            return TryEnd(False, f"the run {run_id} ended as {end.state}{f': {end.detail}' if end.detail else ''}")
        if step.output is not None:
            value = json.dumps(dict(end.outputs))
            if len(value) > VALUE_MAX - len(step.output) - 2:
                return TryEnd(False, "what the steps of that run handed on does not fit into a variable")
            context.hand_on(step, value)
        return TryEnd(True)

    return await _attended(step, _SubTry(answer, lambda: scope.observer.hang_up(step.name, number)), scope, answered)


async def _attended(step: Step, living: Living, scope: CancelScope, ended: Callable[[], object]) -> TryEnd:
    """Wait for the end, with the step's own timeout."""
    has_timed_out = False

    def expire() -> None:
        nonlocal has_timed_out
        has_timed_out = True
        living.end()

    timer = scope.tools.loop.call_later(step.timeout_us / SECOND, expire) if step.timeout_us is not None else None
    scope(living)
    try:
        end: TryEnd = await ended()  # type: ignore[misc]
    finally:
        scope.leave(living)
        if timer is not None:
            timer.cancel()
    if has_timed_out and step.timeout_us is not None:
        return end._replace(is_good=False, detail=f"it took longer than {format_duration(step.timeout_us)}")
    return end


def _not_started(log: LogWriter, reason: str, code: int) -> TryEnd:
    log.note(reason)
    return TryEnd(False, reason, code)


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def _now() -> int:
    return time.time_ns() // 1_000

"""Runs an attempt: its conditions, its steps in order, its handlers, and its outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from evertick.executors.keeper.attempt_context import AttemptContext
from evertick.executors.keeper.attempt_state import Ending, Loss, StepEnd
from evertick.executors.keeper.process import Tools
from evertick.executors.keeper.processes import NoRoom
from evertick.executors.keeper.step_runner import CancelScope, run_step
from evertick.executors.protocol import LaunchMessage, decode_work
from evertick.kinds import Unready
from evertick.model.duration import format_duration
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SKIPPED, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.loss import LossReason
from evertick.model.subrun import SubRunEnd
from evertick.model.work import NO_HANDLERS, Step, SubJob, Work
from evertick.planning.workflow import StepOutcome, ready_steps, run_outcome, unreachable_steps


class Listener(Protocol):
    """Who wants to know what becomes of an attempt, while it does."""

    def started(self) -> None: ...
    def spawned(self, pid: int, started_us: int) -> None: ...
    def exited(self, pid: int) -> None: ...
    def step_began(self, name: str) -> None: ...
    def call(self, step: str, number: int, job_id: str, params: str, *, waits: bool) -> asyncio.Future[SubRunEnd]: ...
    def hang_up(self, step: str, number: int) -> None: ...
    def step_ended(self, step: StepEnd, pid: int, *, is_news: bool) -> None:
        """`is_news` unless the end of the whole attempt follows at once and says it too."""
        ...


class AttemptRunner:
    """One attempt. `run` carries it out, `stop` ends it; it may be stopped at any time."""

    def __init__(self, order: LaunchMessage, tools: Tools, listener: Listener) -> None:
        self._order = order
        self._listener = listener
        self._tools = tools
        self._scope = CancelScope(tools, listener)
        self._ends: dict[str, StepEnd] = {}
        self._outcomes: dict[str, StepOutcome] = {}
        self._tolerated: set[str] = set()
        self._is_single = False
        self.no_room = ""
        self._is_abandoned = False
        self._timer: asyncio.TimerHandle | None = None

    def stop(self, detail: str) -> None:
        self._scope.halt(CANCELLED, detail)

    def abandon(self, loss: Loss) -> None:
        """End it because it may be started elsewhere: nothing more of it is run, not even its handlers."""
        self._is_abandoned = True
        self._scope.halt(LOST, loss.detail)

    async def run(self) -> Ending | None:
        """How it ended; None when the machine had no room for it (`no_room` says why), and nothing was started."""
        masked: Callable[[str], str] = str
        try:
            work, secrets, digests = decode_work(self._order.work)
            self._is_single = _is_plain(work)
            context = AttemptContext(self._order, work, secrets, digests, self._tools)
            masked = context.masker().text
            if work.timeout_us is not None:
                text = f"it took longer than {format_duration(work.timeout_us)}"
                self._timer = self._tools.loop.call_later(work.timeout_us / SECOND, self._scope.halt, TIMED_OUT, text)
            ending = await self._carry_out(work, context)
        except Unready as error:
            ending = _ending(FAILED, masked(str(error)))
        except NoRoom as error:
            self.no_room = str(error)
            return None
        finally:
            self._stop_the_clock()
        # What a step attended to elsewhere was taken away; why a whole attempt is ended, the supervisor knows.
        cause = LossReason.EXECUTOR if ending.state == LOST else ending.cause
        # The run has ended when its handlers have.
        return ending._replace(detail=masked(ending.detail), at=time.time_ns() // 1_000, cause=cause)

    async def _carry_out(self, work: Work, context: AttemptContext) -> Ending:
        scope = self._scope
        for condition in work.preconditions:
            unmet = await context.why_unmet(condition, scope)
            if scope.halted is not None:
                return _ending(*scope.halted)
            if unmet is not None:
                return _ending(SKIPPED, f"condition: {unmet}")
        for hook in work.pre_run_hooks:
            refused = await context.why_refused(hook, scope)
            if scope.halted is not None:
                return _ending(*scope.halted)
            if refused is not None:
                return _ending(SKIPPED, f"preRunHook: {refused}")._replace(cause="preRunHook")
        if scope.halted is not None:
            return _ending(*scope.halted)
        if not work.steps:
            scope.mark_started()
            return await self._confirm(work, context, _ending(SUCCEEDED))
        if len(work.steps) == 1 and not context.resumed:
            await self._one(work.steps[0], context)
        else:
            await self._all(work, context)
        ending = await self._confirm(work, context, self._judge(work.steps))
        self._stop_the_clock()  # handlers have timeouts of their own
        await self._handle(work, context, ending)
        if len(work.steps) > 1:
            context.keep_outputs()
        return ending

    async def _confirm(self, work: Work, context: AttemptContext, ending: Ending) -> Ending:
        """A run whose steps succeeded is a success when those say so who are asked behind it."""
        for hook in work.post_run_hooks if ending.state == SUCCEEDED else ():
            refused = await context.why_refused(hook, self._scope, ending.state)
            if self._scope.halted is not None:
                return _ending(*self._scope.halted, ending.exit_code)
            if refused is not None:
                told = _ending(FAILED, f"postRunHook: {refused}", ending.exit_code)
                return told._replace(cause="postRunHook")
        return ending

    def _stop_the_clock(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _all(self, work: Work, context: AttemptContext) -> None:
        steps = {step.name: step for step in work.steps}
        depends = {step.name: step.depends for step in work.steps}
        for reused in context.resumed:
            self._outcomes[reused.name] = StepOutcome.SUCCEEDED
            self._listener.step_ended(reused, 0, is_news=True)
        running: dict[asyncio.Task[None], str] = {}
        while True:
            passing = self._passing(steps)
            if self._scope.halted is not None:
                blocked: Sequence[str] = [name for name in steps if name not in self._outcomes]
                blocked = [name for name in blocked if name not in running.values()]
            else:
                blocked = unreachable_steps(depends, passing, self._tolerated)
            for name in blocked:
                self._outcomes[name] = StepOutcome.SKIPPED
                self._listener.step_ended(_unreached(name, self._why_unreached(steps[name])), 0, is_news=True)
            if blocked and self._scope.halted is not None:
                self._scope.has_cut_short = True
            if self._scope.halted is None:
                active = tuple(running.values())
                for name in ready_steps(depends, self._passing(steps), active, self._tolerated, work.max_active_steps):
                    running[self._tools.loop.create_task(self._one(steps[name], context))] = name
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                del running[task]
            for task in done:
                error = task.exception()
                if error is not None:
                    self._scope.halt(FAILED, str(error))
                    await asyncio.gather(*running, return_exceptions=True)
                    raise error

    def _why_unreached(self, step: Step) -> str:
        if self._scope.halted is not None:
            return "the run was ended before it began"
        before = [name for name in step.depends if self._outcomes.get(name) is not StepOutcome.SUCCEEDED]
        return f"step {before[0]!r} did not succeed" if before else "a step before it did not succeed"

    def _passing(self, steps: dict[str, Step]) -> dict[str, StepOutcome]:
        """The outcomes as those behind see them: a skipped step may let them pass."""
        return {
            name: StepOutcome.SUCCEEDED
            if outcome is StepOutcome.SKIPPED and steps[name].continue_on.skipped
            else outcome
            for name, outcome in self._outcomes.items()
        }

    async def _one(self, step: Step, context: AttemptContext) -> None:
        if not self._is_single:
            self._listener.step_began(step.name)
        try:
            end, pid = await run_step(step, context, self._scope)
        except NoRoom as error:
            # Another step that is ready in the same moment may have found room.
            await asyncio.sleep(0)
            if not self._scope.has_started:
                raise
            end, pid = _no_room(step, error), 0
        outcome = StepOutcome(end.outcome)
        if outcome is StepOutcome.FAILED and self._scope.halted is None:
            rule = step.continue_on
            if rule.failure or (end.exit_code is not None and end.exit_code in rule.exit_codes):
                self._tolerated.add(step.name)
                if rule.marks_success:
                    outcome = StepOutcome.SUCCEEDED
                    end = end._replace(outcome=outcome)
        self._ends[step.name], self._outcomes[step.name] = end, outcome
        self._listener.step_ended(end, pid, is_news=not self._is_single)

    def _judge(self, steps: Sequence[Step]) -> Ending:
        ends = list(self._ends.values())
        # Told to stop just as the last step ended by itself: then nothing was stopped.
        is_too_late = len(self._outcomes) == len(steps) and not self._scope.has_cut_short
        if self._scope.halted is not None and not is_too_late:
            state, detail = self._scope.halted
            code = next((end.exit_code for end in ends if end.outcome == StepOutcome.FAILED), None)
            return _ending(state, detail, code)
        failed = [end for end in ends if end.outcome == StepOutcome.FAILED and end.name not in self._tolerated]
        # Steps that were skipped by their own condition, and those behind them, are no failure.
        judged = {
            name: StepOutcome.SUCCEEDED if outcome is StepOutcome.SKIPPED else outcome
            for name, outcome in self._outcomes.items()
        }
        outcome = run_outcome({step.name: step.depends for step in steps}, judged, self._tolerated)
        if outcome is StepOutcome.SUCCEEDED:
            return _ending(SUCCEEDED, "", ends[-1].exit_code if ends else None)
        first = failed[0]
        if len(steps) > 1:
            return _ending(FAILED, f"step {first.name!r}: {first.detail}", first.exit_code)
        # All that the run is was taken away: `onExecutorLost` decides, as where the cluster itself carries it out.
        return _ending(LOST if self._scope.is_lost else FAILED, first.detail, first.exit_code)

    async def _handle(self, work: Work, context: AttemptContext, ending: Ending) -> None:
        """Handlers see how it ended and cannot change it; each may be ended by stopping the run once more."""
        by_state = {
            SUCCEEDED: work.handlers.on_success,
            CANCELLED: work.handlers.on_cancel,
            FAILED: work.handlers.on_failure,
            TIMED_OUT: work.handlers.on_failure,
        }
        for handler in (by_state.get(RunState(ending.state)), work.handlers.on_exit):
            if handler is None or self._is_abandoned:
                continue
            self._scope.resume()
            context.outcome = ending.state
            try:
                end, pid = await run_step(handler, context, self._scope)
            except NoRoom as error:
                end, pid = _no_room(handler, error), 0
            self._listener.step_ended(end, pid, is_news=True)


def _is_plain(work: Work) -> bool:
    """Whether the end of the attempt says all that there is to say about its steps."""
    return len(work.steps) == 1 and work.handlers == NO_HANDLERS and not isinstance(work.steps[0].kind, SubJob)


def _ending(state: RunState, detail: str = "", exit_code: int | None = None) -> Ending:
    return Ending(str(state), time.time_ns() // 1_000, exit_code, detail)


def _unreached(name: str, why: str) -> StepEnd:
    now = time.time_ns() // 1_000
    return StepEnd(name, StepOutcome.SKIPPED, now, now, tries=0, detail=why)


def _no_room(step: Step, error: NoRoom) -> StepEnd:
    now = time.time_ns() // 1_000
    return StepEnd(step.name, StepOutcome.FAILED, now, now, detail=str(error))

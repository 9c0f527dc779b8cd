"""Runs an attempt: its preconditions and hooks, its steps in order, its handlers, and its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from evertick.errors import DefinitionError
from evertick.executors.keeper.attempt_context import AttemptContext
from evertick.executors.keeper.attempt_state import AttemptEnd, Loss, StepEnd
from evertick.executors.keeper.items_runner import ItemsRunner
from evertick.executors.keeper.process import Runtime
from evertick.executors.keeper.recorder import AttemptRecorder
from evertick.executors.keeper.sent_item import digest_of_work, sent_item_of, why_not_whole
from evertick.executors.keeper.spawn import NoCapacity
from evertick.executors.keeper.step_runner import CancelScope, StepRunner
from evertick.executors.protocol import LaunchMessage, decode_work
from evertick.kinds import StepError
from evertick.kinds.rendering import render_work
from evertick.model.duration import format_duration
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, LOST, SKIPPED, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.loss import LossReason
from evertick.model.template import OPEN
from evertick.model.work import NO_HANDLERS, Step, SubJob, Work
from evertick.planning.run_dates import dates_of
from evertick.planning.workflow import StepOutcome, ready_steps, run_outcome, unreachable_steps


class AttemptRunner:
    """One attempt. It may be cancelled at any time, before `run` too."""

    def __init__(self, launch: LaunchMessage, runtime: Runtime, recorder: AttemptRecorder) -> None:
        self._launch = launch
        self._recorder = recorder
        self._runtime = runtime
        self._scope = CancelScope(runtime, recorder)
        self._ends: dict[str, StepEnd] = {}
        self._outcomes: dict[str, StepOutcome] = {}
        self._tolerated: set[str] = set()
        self._has_one_step = False
        self.why_not_started = ""
        self._is_abandoned = False
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self, why: str | Loss) -> None:
        """At the request of a scheduler; with a `Loss`, because another node may start it: no handlers run then."""
        if isinstance(why, Loss):
            self._is_abandoned = self._scope.is_abandoned = True
            self._scope.halt(LOST, why.detail)
        else:
            self._scope.halt(CANCELLED, why)

    async def run(self) -> AttemptEnd | None:
        """How it ended; None when the machine had no capacity and nothing was started (see `why_not_started`)."""
        masked: Callable[[str], str] = str
        try:
            sent = sent_item_of(self._launch)
            if sent is not None and sent.work != digest_of_work(self._launch):
                return _end(SKIPPED, "the definition of its job has changed since its run began")
            launch = self._launch if sent is None else sent.launch_of(self._launch)
            written, secrets, digests = decode_work(launch.work)
            key = launch.key
            dates = dates_of(key.job_id, written.timetable, key.scheduled_for, launch.previous_success_at)
            # The digests are those of the definition: a step that has not changed can be reused on another day.
            work = render_work(written, dates.value_of) if OPEN in launch.work else written
            self._has_one_step = sent is None and _is_plain(work)
            context = AttemptContext(launch, work, secrets, digests, self._runtime, dates, written.params, sent)
            masked = context.masker().text
            if sent is not None:
                # Everything else of the job is its run's, which waits for this item.
                work = Work((context.sent_step(sent),))
            if work.timeout_us is not None:
                detail = f"it took longer than {format_duration(work.timeout_us)}"
                seconds = work.timeout_us / SECOND
                self._timer = self._runtime.loop.call_later(seconds, self._scope.halt, TIMED_OUT, detail)
            end = await self._run(work, context)
        except (StepError, DefinitionError) as error:  # a member may lack a zone, for example
            end = _end(FAILED, masked(str(error)))
        except NoCapacity as error:
            self.why_not_started = str(error)
            return None
        finally:
            self._stop_timer()
        # A step lost what it ran elsewhere; why a whole attempt is abandoned, the supervisor knows.
        cause = LossReason.EXECUTOR if end.state == LOST else end.cause
        # The run has ended when its handlers have.
        return end._replace(detail=masked(end.detail), at=time.time_ns() // 1_000, cause=cause)

    async def _run(self, work: Work, context: AttemptContext) -> AttemptEnd:
        scope = self._scope
        for condition in work.preconditions:
            unmet = await context.why_unmet(condition, scope.add)
            if scope.halted is not None:
                return _end(*scope.halted)
            if unmet is not None:
                return _end(SKIPPED, f"condition: {unmet}")
        for hook in work.pre_run_hooks:
            refused = await context.why_refused(hook, scope.add)
            if scope.halted is not None:
                return _end(*scope.halted)
            if refused is not None:
                return _end(SKIPPED, f"preRunHook: {refused}")._replace(cause="preRunHook")
        if scope.halted is not None:
            return _end(*scope.halted)
        if not work.steps:
            scope.mark_started()
            return await self._call_post_run_hooks(work, context, _end(SUCCEEDED))
        if work.steps[0].item is not None:
            await self._run_sent_item(work.steps[0], context)
            return self._result(work.steps)
        if len(work.steps) == 1 and not context.resumed:
            await self._run_step(work.steps[0], context)
        else:
            await self._run_steps(work, context)
        end = await self._call_post_run_hooks(work, context, self._result(work.steps))
        self._stop_timer()  # handlers have timeouts of their own
        await self._run_handlers(work, context, end)
        if len(work.steps) > 1 or work.steps[0].each is not None:
            context.save_outputs()
        return end

    async def _call_post_run_hooks(self, work: Work, context: AttemptContext, end: AttemptEnd) -> AttemptEnd:
        """A run whose steps succeeded succeeds only if every post-run hook agrees."""
        for hook in work.post_run_hooks if end.state == SUCCEEDED else ():
            refused = await context.why_refused(hook, self._scope.add, end.state)
            if self._scope.halted is not None:
                return _end(*self._scope.halted, end.exit_code)
            if refused is not None:
                return _end(FAILED, f"postRunHook: {refused}", end.exit_code)._replace(cause="postRunHook")
        return end

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _run_steps(self, work: Work, context: AttemptContext) -> None:
        steps = {step.name: step for step in work.steps}
        depends = {step.name: step.depends for step in work.steps}
        for reused in context.resumed:
            self._outcomes[reused.name] = StepOutcome.SUCCEEDED
            self._recorder.step_ended(reused, 0, is_reported=True)
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
                end = _step_end(name, StepOutcome.SKIPPED, self._why_skipped(steps[name]))._replace(tries=0)
                self._recorder.step_ended(end, 0, is_reported=True)
            if blocked and self._scope.halted is not None:
                self._scope.has_interrupted = True
            if self._scope.halted is None:
                active = tuple(running.values())
                for name in ready_steps(depends, self._passing(steps), active, self._tolerated, work.max_active_steps):
                    running[self._runtime.loop.create_task(self._run_step(steps[name], context))] = name
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

    def _why_skipped(self, step: Step) -> str:
        if self._scope.halted is not None:
            return "the run was stopped before it started"
        before = [name for name in step.depends if self._outcomes.get(name) is not StepOutcome.SUCCEEDED]
        return f"step {before[0]!r} did not succeed" if before else "a step before it did not succeed"

    def _passing(self, steps: dict[str, Step]) -> dict[str, StepOutcome]:
        """The outcomes as dependent steps see them: a skipped step may let them run."""
        return {
            name: StepOutcome.SUCCEEDED
            if outcome is StepOutcome.SKIPPED and steps[name].continue_on.skipped
            else outcome
            for name, outcome in self._outcomes.items()
        }

    async def _run_sent_item(self, step: Step, context: AttemptContext) -> None:
        """An item of a run on another member: its record goes there by way of the ledger."""
        assert step.item is not None
        self._recorder.step_started(step.name, step.item.step, context.shown(step.item))
        end, pid = await StepRunner(step, context, self._scope).run()
        problem = why_not_whole(step, end) if end.outcome == StepOutcome.SUCCEEDED else None
        if problem is not None:
            end = end._replace(outcome=StepOutcome.FAILED, detail=problem)
        self._ends[step.name], self._outcomes[step.name] = end, StepOutcome(end.outcome)
        self._recorder.step_ended(end, pid, is_reported=True)

    async def _run_step(self, step: Step, context: AttemptContext) -> None:
        if not self._has_one_step:
            self._recorder.step_started(step.name)
        try:
            runner = StepRunner if step.each is None else ItemsRunner
            end, pid = await runner(step, context, self._scope).run()
        except NoCapacity as error:
            # Another step that is ready at the same time may have started.
            await asyncio.sleep(0)
            if not self._scope.has_started:
                raise
            end, pid = _step_end(step.name, StepOutcome.FAILED, str(error)), 0
        outcome = StepOutcome(end.outcome)
        if outcome is StepOutcome.FAILED and self._scope.halted is None:
            rule = step.continue_on
            if rule.failure or (end.exit_code is not None and end.exit_code in rule.exit_codes):
                self._tolerated.add(step.name)
                if rule.marks_success:
                    outcome = StepOutcome.SUCCEEDED
                    end = end._replace(outcome=outcome)
        self._ends[step.name], self._outcomes[step.name] = end, outcome
        self._recorder.step_ended(end, pid, is_reported=not self._has_one_step)

    def _result(self, steps: Sequence[Step]) -> AttemptEnd:
        ends = list(self._ends.values())
        # If it was halted just as the last step ended by itself, nothing was stopped.
        is_too_late = len(self._outcomes) == len(steps) and not self._scope.has_interrupted
        if self._scope.halted is not None and not is_too_late:
            state, detail = self._scope.halted
            code = next((end.exit_code for end in ends if end.outcome == StepOutcome.FAILED), None)
            return _end(state, detail, code)
        failed = [end for end in ends if end.outcome == StepOutcome.FAILED and end.name not in self._tolerated]
        # Steps skipped by their own condition, and those that depend on them, are no failure.
        judged = {
            name: StepOutcome.SUCCEEDED if outcome is StepOutcome.SKIPPED else outcome
            for name, outcome in self._outcomes.items()
        }
        outcome = run_outcome({step.name: step.depends for step in steps}, judged, self._tolerated)
        if outcome is StepOutcome.SUCCEEDED:
            return _end(SUCCEEDED, "", ends[-1].exit_code if ends else None)
        first = failed[0]
        if len(steps) > 1:
            return _end(FAILED, f"step {first.name!r}: {first.detail}", first.exit_code)
        # The cluster took the only step's pod away: `onExecutorLost` decides, as on the Kubernetes executor.
        is_lost = self._scope.is_lost and steps[0].each is None
        return _end(LOST if is_lost else FAILED, first.detail, first.exit_code)

    async def _run_handlers(self, work: Work, context: AttemptContext, end: AttemptEnd) -> None:
        """Handlers see the result and cannot change it; stopping the run once more ends the one that runs."""
        by_state = {
            SUCCEEDED: work.handlers.on_success,
            CANCELLED: work.handlers.on_cancel,
            FAILED: work.handlers.on_failure,
            TIMED_OUT: work.handlers.on_failure,
        }
        for handler in (by_state.get(RunState(end.state)), work.handlers.on_exit):
            if handler is None or self._is_abandoned:
                continue
            self._scope.resume()
            context.outcome = end.state
            try:
                handler_end, pid = await StepRunner(handler, context, self._scope).run()
            except NoCapacity as error:
                handler_end, pid = _step_end(handler.name, StepOutcome.FAILED, str(error)), 0
            self._recorder.step_ended(handler_end, pid, is_reported=True)


def _is_plain(work: Work) -> bool:
    """Whether the end of the attempt reports everything about its steps."""
    if len(work.steps) != 1 or work.handlers != NO_HANDLERS:
        return False
    return work.steps[0].each is None and not isinstance(work.steps[0].kind, SubJob)


def _end(state: RunState, detail: str = "", exit_code: int | None = None) -> AttemptEnd:
    return AttemptEnd(str(state), time.time_ns() // 1_000, exit_code, detail)


def _step_end(name: str, outcome: StepOutcome, detail: str) -> StepEnd:
    now = time.time_ns() // 1_000
    return StepEnd(name, outcome, now, now, detail=detail)

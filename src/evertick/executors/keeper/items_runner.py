"""Runs a step with `each`: its items, at most `maxParallel` at once, and its result from theirs."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from evertick.executors.keeper.attempt_context import AttemptContext
from evertick.executors.keeper.attempt_state import StepEnd
from evertick.executors.keeper.sent_item import SENT_MAX, end_of
from evertick.executors.keeper.spawn import NoCapacity
from evertick.executors.keeper.step_runner import CancelScope, StepRunner, skipped_by_condition
from evertick.kinds import StepError
from evertick.model.lifecycle import CANCELLED, FAILED, SKIPPED
from evertick.model.subrun import SubRunEnd
from evertick.model.work import Step
from evertick.planning.workflow import StepOutcome

NO_ITEMS = "it had no items"
STOP_SECONDS = 10.0
"""How long after its grace the end of a stopped item may take to arrive; its member may be cut off."""
STOPPED = SubRunEnd(CANCELLED, "it was stopped")
ASKED_ONCE = 1
"""The try under which a run is requested for an item: that run has all the tries of the step."""


class ItemsRunner:
    """Each item is a step of its own: with its tries, its log, its state and its end in the journal."""

    def __init__(self, step: Step, context: AttemptContext, scope: CancelScope) -> None:
        self._step = step
        self._context = context
        self._scope = scope
        self._ends: dict[str, StepEnd] = {}
        self._has_failed = False
        self._has_failed_itself = False
        """Whether an item failed while the run continued."""

    async def run(self) -> tuple[StepEnd, int]:
        """How the step ended; it has no process of its own."""
        started_at = _now()
        skipped = await skipped_by_condition(self._step, self._context, self._scope)
        if skipped is not None:
            return skipped, 0
        try:
            items = self._context.items_of(self._step)
        except StepError as error:
            self._scope.mark_started()
            detail = self._context.masker().text(str(error))
            return self._completed(StepEnd(self._step.name, StepOutcome.FAILED, started_at, _now(), detail=detail)), 0
        if not items:
            self._scope.mark_started()
        await self._run_all(items)
        return self._result(items, started_at), 0

    async def _run_all(self, items: Sequence[Step]) -> None:
        assert self._step.each is not None
        each, scope = self._step.each, self._scope
        waiting = deque(item for item in items if not self._is_reused(item))
        running: set[asyncio.Task[None]] = set()
        while True:
            is_over = scope.halted is not None or (self._has_failed and not each.continues_on_failure)
            while waiting and not is_over and len(running) < each.max_parallel:
                running.add(scope.runtime.loop.create_task(self._run_item(waiting.popleft())))
            if not running:
                break
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is not None:
                    scope.halt(FAILED, str(error))
                    await asyncio.gather(*running, return_exceptions=True)
                    raise error
        if waiting and scope.halted is not None:
            scope.has_interrupted = True
        why = "the run was stopped before it started" if scope.halted is not None else "an item before it failed"
        for item in waiting:
            now = _now()
            self._end(item, StepEnd(item.name, StepOutcome.SKIPPED, now, now, tries=0, detail=why), 0)

    def _is_reused(self, item: Step) -> bool:
        end = self._context.reused_item(item)
        if end is None:
            return False
        self._scope.mark_started()
        self._record(end, 0)
        return True

    async def _run_item(self, item: Step) -> None:
        assert item.item is not None
        self._scope.recorder.step_started(item.name, item.item.step, self._context.shown(item.item))
        runner = StepRunner(item, self._context, self._scope)
        sent = self._context.sent_item(item)
        if sent is not None:
            params = sent.to_params()
            if len(params) > SENT_MAX:
                told = f"it needs {len(params):,} characters of its run, and {SENT_MAX:,} can be sent"
                runner.note(f"this item runs on the member of its run: {told}")
            elif await self._run_elsewhere(item, params):
                return
        try:
            end, pid = await runner.run()
        except NoCapacity as error:
            # Another item that starts at the same time may have started.
            await asyncio.sleep(0)
            if not self._scope.has_started:
                raise
            now = _now()
            self._end(item, StepEnd(item.name, StepOutcome.FAILED, now, now, detail=str(error)), 0)
        else:
            self._record(end, pid)

    async def _run_elsewhere(self, item: Step, params: str) -> bool:
        """Wait for its run, wherever on the fleet that is; False: it is to run here, and nothing of it has run."""
        scope, context, started_at = self._scope, self._context, _now()
        assert item.item is not None
        pending = scope.recorder.request_sub_run(item.name, ASKED_ONCE, context.job_id, params, waits=True)
        scope.mark_started()
        run_id = context.set_sub_run(item, context.job_id, ASKED_ONCE)
        waiting = SentItemTry(pending, lambda: scope.recorder.stop_item(item.name, ASKED_ONCE), scope)
        scope.add(waiting)
        why_ended = ""
        try:
            sub_run_end = await pending
            why_ended = scope.why_ended(waiting)
        finally:
            scope.remove(waiting)
        if sub_run_end.state is SKIPPED and scope.halted is not None:
            sub_run_end = STOPPED
        if sub_run_end.state is SKIPPED:
            context.forget_sub_run(item)
            # The request may be on its way once more: the run that it leads to must not go beside this one.
            scope.recorder.withdraw_sub_run(item.name, ASKED_ONCE, context.job_id)
            scope.recorder.step_started(item.name, item.item.step, context.shown(item.item))
            return False
        end, output = end_of(item, run_id, sub_run_end, started_at, _now())
        if why_ended and sub_run_end.state is CANCELLED:
            end = end._replace(detail=context.masker().text(why_ended))
        if item.output is not None and output is not None:
            context.outputs.set(item, output)
        self._end(item, end, 0)
        return True

    def _end(self, item: Step, end: StepEnd, pid: int) -> None:
        """An item that no step runner has completed."""
        self._record(self._context.completed(end, item.item), pid)

    def _record(self, end: StepEnd, pid: int) -> None:
        self._ends[end.name] = end
        if end.outcome == StepOutcome.FAILED:
            self._has_failed = True
            self._has_failed_itself |= self._scope.halted is None
        self._scope.recorder.step_ended(end, pid, is_reported=True)

    def _result(self, items: Sequence[Step], started_at: int) -> StepEnd:
        ends = [self._ends[item.name] for item in items]
        failed = [end for end in ends if end.outcome == StepOutcome.FAILED]
        codes = {end.exit_code for end in failed} or {0 if ends else None}
        end = StepEnd(
            self._step.name,
            StepOutcome.SUCCEEDED,
            started_at,
            _now(),
            # Only a code that all failed items have can say something of the step, as `continueOn.exitCodes` asks.
            exit_code=codes.pop() if len(codes) == 1 else None,
            user_us=sum(one.user_us for one in ends),
            system_us=sum(one.system_us for one in ends),
            max_rss_bytes=max((one.max_rss_bytes for one in ends), default=0),
            detail="" if items else NO_ITEMS,
        )
        too_long = self._context.outputs.collect(self._step, items)
        succeeded = sum(one.outcome == StepOutcome.SUCCEEDED for one in ends)
        if succeeded < len(ends):
            detail = _summary(ends, failed)
            if self._scope.halted is not None and not self._has_failed_itself:
                why_ended = self._context.masker().text(self._scope.halted_text())
                detail = f"{why_ended}; {succeeded} of {len(ends)} items succeeded"
            end = end._replace(outcome=StepOutcome.FAILED, detail=detail)
        elif too_long is not None:
            end = end._replace(outcome=StepOutcome.FAILED, detail=too_long)
        return self._completed(end)

    def _completed(self, end: StepEnd) -> StepEnd:
        return self._context.completed(end)


class SentItemTry:
    """A wait for an item elsewhere; cancelling it stops the item, and the wait goes on until that has ended.

    Otherwise the run would end while its items still run, and the next run of its job could start beside them.
    """

    def __init__(self, pending: asyncio.Future[SubRunEnd], stop: Callable[[], None], scope: CancelScope) -> None:
        self._pending = pending
        self._stop = stop
        self._scope = scope
        self._timer: asyncio.TimerHandle | None = None

    def cancel(self) -> bool:
        if self._pending.done():
            return False
        if self._timer is None:
            self._stop()
            runtime = self._scope.runtime
            self._timer = runtime.loop.call_later(runtime.grace_seconds + STOP_SECONDS, self._give_up)
            self._pending.add_done_callback(self._ended)
        if self._scope.is_abandoned:
            self._give_up()  # another node may start this run at any time
        return True

    def _ended(self, _end: asyncio.Future[SubRunEnd]) -> None:
        assert self._timer is not None
        self._timer.cancel()

    def _give_up(self) -> None:
        if not self._pending.done():
            self._pending.set_result(STOPPED)


def _summary(ends: Sequence[StepEnd], failed: Sequence[StepEnd]) -> str:
    """`2 of 60 items failed, 3 did not start; the first: convert[4]: exit code 1`."""
    skipped = sum(end.outcome == StepOutcome.SKIPPED for end in ends)
    counts = [f"{len(failed)} of {len(ends)} items failed"] if failed else []
    counts += [f"{skipped} {'did' if counts else f'of {len(ends)} items did'} not start"] if skipped else []
    first = f"; the first: {failed[0].name}: {failed[0].detail}" if failed else ""
    return f"{', '.join(counts)}{first}"


def _now() -> int:
    return time.time_ns() // 1_000

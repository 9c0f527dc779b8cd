"""Connects the loop to the world: calls `decide`, executes its effects, and waits for the next message."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from evertick.dispatch.clock import Clock
from evertick.dispatch.inbox import Inbox
from evertick.dispatch.lookup import look_up, open_runs, outcomes, recall, stops
from evertick.dispatch.writer import Ask, Writer
from evertick.executor import Executor
from evertick.loop.decide import decide
from evertick.loop.effects import (
    Audit,
    Commit,
    Effect,
    Launch,
    Log,
    LookUpOutcomes,
    LookUpPlacements,
    LookUpStops,
    LookUpSubRuns,
    Notify,
    ReadReports,
    Reconcile,
    Record,
    Release,
    ReportSubRunEnd,
    Resync,
    Stop,
)
from evertick.loop.messages import LaunchRefused, Message, ReportsRead, RunLost, Shutdown, TimePassed
from evertick.loop.state import State
from evertick.loop.statistics import Histogram
from evertick.model.instant import SECOND
from evertick.model.lifecycle import RETRYING
from evertick.model.report import AttemptQuestion
from evertick.model.routing import LOCAL
from evertick.routing.placement import executor_of
from evertick.store import Ledger

log = logging.getLogger("evertick")

ENDING_SECONDS = 20.0
"""How long a stop waits for runs that it has ended: they have their own grace before they are killed."""
LEDGER_SECONDS = 30.0
"""How long a stop waits, beyond its patience, for a ledger that does not answer.

What the ledger has not confirmed was not started, so the next start decides it again.
"""
SLEEP_MAX_SECONDS = 2.0
"""No single sleep is longer: a suspended machine must notice soon after it wakes, and requests are looked for."""


class Dispatcher:
    """Drives one loop. Everything here runs in one asyncio task; executors and the writer report from their threads."""

    def __init__(
        self,
        state: State,
        inbox: Inbox,
        writer: Writer,
        executors: Mapping[str, Executor],
        clock: Clock,
        *,
        resync: Callable[[], None],
        release: Callable[[Sequence[int]], None],
        read_reports: Callable[[Ledger, Sequence[int]], Sequence[Message]],
        turned: Callable[[int], None],
        observe: Callable[[Sequence[Message | Effect]], None] | None = None,
    ) -> None:
        """`turned` is called after each iteration, with the monotonic clock."""
        self._state = state
        self._inbox = inbox
        self._writer = writer
        self._executors = executors
        self._clock = clock
        self._resync = resync
        self._give_away = release
        self._read_reports = read_reports
        self._turned = turned
        self._observe = observe
        self._leave_at_us: int | None = None
        """When to stop waiting for active runs; the next scheduler finds them."""
        self._failure: Exception | None = None
        """Why this node must stop at once."""
        self._ends_runs = False
        """Whether runs that have not ended by then are stopped, and waited for a little longer."""
        self.turns = Histogram()
        """How long each iteration took, including its effects."""
        self.turned_at_us = clock.monotonic_us()
        """When the last one ended, by the monotonic clock: the watchdog detects a hanging loop by it."""
        self.turns_at_us = self.turned_at_us
        """When the next one is due, or 0 while one is in progress; any thread may read it."""

    async def run(self) -> None:
        """Run until `shut_down`, and until no run is active or its patience is over."""
        self._inbox.attach()
        for executor in self._executors.values():
            executor.open(self._inbox.report)
        while True:
            if self._failure is not None:
                raise self._failure
            if self._writer.failure is not None:
                raise RuntimeError("the ledger's writer has failed; stopping before anything is lost") from (
                    self._writer.failure
                )
            began_us = self._clock.monotonic_us()
            self.turns_at_us = 0
            # First: later messages are judged knowing whether the clock was set.
            messages = [TimePassed(self._clock.boottime_us()), *self._inbox.drain()]
            decision = decide(self._state, messages, self._clock.now())
            for effect in decision.effects:
                if type(effect) is Launch:  # nearly all of them, in a storm; each is late by those before it
                    self._launch(effect)
                else:
                    self._carry_out(effect)
            if self._observe is not None:
                self._notify_observers(messages, decision.effects)
            self.turned_at_us = self._clock.monotonic_us()
            self.turns.add(self.turned_at_us - began_us)
            self._turned(self.turned_at_us)
            if self._state.is_stopping and not self._waits_for_ledger() and not self._has_unfinished():
                return
            wait = (decision.wake_at - self._clock.now()) / SECOND
            self.turns_at_us = self._clock.monotonic_us() + int(wait * SECOND)
            await self._inbox.wait(min(wait, SLEEP_MAX_SECONDS))

    def shut_down(self, patience_seconds: float, *, ends_runs: bool = False) -> None:
        """Start nothing new, and stop when all runs have ended or patience is over; a second call may shorten it."""
        self._leave_at_us = self._clock.monotonic_us() + int(patience_seconds * SECOND)
        self._ends_runs = ends_runs
        self._inbox.report(Shutdown())

    def abort(self, failure: Exception) -> None:
        """Decide nothing more, not even for a normal stop; `run` raises this error. From any thread."""
        self._failure = failure
        self._inbox.wake()

    def _waits_for_ledger(self) -> bool:
        """Whether commits are unanswered that may still be answered before the stop gives up."""
        if not self._state.batches or self._leave_at_us is None:
            return bool(self._state.batches)
        return self._clock.monotonic_us() < self._leave_at_us + int(LEDGER_SECONDS * SECOND)

    def _has_unfinished(self) -> bool:
        """Whether something may still end, or be refused, that only this process can report."""
        if self._leave_at_us is None:
            return False
        if self._clock.monotonic_us() >= self._leave_at_us:
            if not self._ends_runs:
                return False
            # Patience is over: stop active runs, and wait for them to end, but not forever.
            self._leave_at_us = self._clock.monotonic_us() + int(ENDING_SECONDS * SECOND)
            self._ends_runs = False
            self._inbox.report(Shutdown(ends_runs=True))
        # What the ledger refuses, and the ends of runs whose jobs moved to other nodes, are forwarded to their owners.
        if self._state.records or self._state.orphans:
            return True
        # Between two attempts there is nothing to wait for: the next scheduler starts the next attempt.
        return any(
            run.state is not RETRYING
            for job in self._state.jobs.values()
            if job.lanes
            for lane in job.lanes.values()
            for run in lane.active.values()
        )

    def _notify_observers(self, messages: Sequence[Message], effects: Sequence[Effect]) -> None:
        """Notify the observer, once for each iteration; its errors do not stop scheduling."""
        assert self._observe is not None
        try:
            self._observe((*messages, *effects))
        except Exception:
            log.exception("observer.raised")

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Commit() | Record():
                self._writer.write(effect)
            case Log(event, fields, is_alarming):
                if is_alarming or log.isEnabledFor(logging.INFO):
                    words = " ".join(f"{name}={value}" for name, value in fields.items())
                    log.log(logging.WARNING if is_alarming else logging.INFO, "%s %s", event, words)
            case Stop(key, attempt, detail):
                for executor in self._executors.values():
                    executor.stop(key, attempt, detail)
            case Reconcile(runs):
                self._reconcile(runs)
            case LookUpSubRuns(keys):
                self._writer.write(Ask(lambda store: look_up(store, keys)))
            case ReportSubRunEnd():
                for executor in self._executors.values():
                    if (listener := executor.capabilities.sub_runs) is not None:
                        listener.sub_run_ended(*effect)
            case LookUpOutcomes():
                self._writer.write(Ask(lambda store: outcomes(store, effect)))
            case LookUpStops():
                self._writer.write(Ask(lambda store: stops(store, effect)))
            case Audit():
                self._writer.write(Ask(lambda store: open_runs(store, effect)))
            case ReadReports(number, buckets):
                self._writer.write(Ask(lambda store: [*self._read_reports(store, buckets), ReportsRead(number)]))
            case LookUpPlacements(job_id):
                self._writer.write(Ask(lambda store: [recall(store, job_id)]))
            case Notify():
                pass  # the announcer reports it
            case Release(buckets):
                # After everything that is being written: the next owner must read all of it.
                self._writer.write(Ask(lambda _: self._release(buckets)))
            case Resync():
                self._resync()

    def _release(self, buckets: Sequence[int]) -> Sequence[Message]:
        self._give_away(buckets)
        return ()

    def _launch(self, launch: Launch) -> None:
        name = executor_of(launch.executor) or LOCAL
        executor = self._executors.get(name)
        if executor is None:
            self._inbox.report(LaunchRefused(launch.key, launch.attempt, f"unknown executor {name!r}", launch.fence))
            return
        try:
            executor.launch(launch)
        except Exception as error:
            # An executor that raises has not accepted the attempt; the run waits and is offered again.
            log.exception("executor.raised executor=%s", name)
            reason = f"{type(error).__name__}: {error}"
            self._inbox.report(LaunchRefused(launch.key, launch.attempt, reason, launch.fence))

    def _reconcile(self, runs: Sequence[AttemptQuestion]) -> None:
        by_executor: defaultdict[str, list[AttemptQuestion]] = defaultdict(list)
        for asked in runs:
            by_executor[executor_of(asked.executor) or LOCAL].append(asked)
        for name, attempts in by_executor.items():
            executor = self._executors.get(name)
            if executor is None:
                for asked in attempts:
                    self._inbox.report(RunLost(asked.key, asked.attempt, f"its executor {name!r} no longer exists"))
            elif (placement := executor.capabilities.placement) is not None:
                placement.reconcile_placed(attempts)
            else:
                executor.reconcile([(asked.key, asked.attempt) for asked in attempts])

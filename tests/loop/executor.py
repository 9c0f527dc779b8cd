"""An executor that follows a script: the test sets beforehand how each attempt ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from evertick.loop.effects import Launch, Reconcile, Stop
from evertick.loop.messages import LaunchRefused, Message, RunFinished, RunHeartbeat, RunLost, RunStarted, RunUnknown
from evertick.model.instant import SECOND, Instant
from evertick.model.lifecycle import CANCELLED, SKIPPED, SUCCEEDED, RunState
from evertick.model.run import RunKey


class Clock(Protocol):
    now: Instant
    monotonic: int


@dataclass(slots=True)
class Act:
    """How one attempt goes."""

    lasts_us: int | None = SECOND
    """None: until it is stopped."""
    state: RunState = SUCCEEDED
    refused: bool = False
    broken: str = ""
    """The constraint because of which it is skipped before it starts."""
    stop_takes_us: int = 0
    lease_us: int | None = None
    beat_us: int | None = None


@dataclass(slots=True)
class Attempt:
    act: Act
    ended: RunFinished | None = None


class ScriptedExecutor:
    """It lives by the monotonic clock and outlives the scheduler, as real runs do."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.name = "local@node"
        self.acts: dict[str, list[Act]] = {}
        self.attempts: dict[tuple[RunKey, int], Attempt] = {}
        self.knows_nothing = False
        """Whether it lost its memory, so that it cannot say what became of an attempt."""
        self.remembers_after_us = 0
        """How long it takes to say what became of an attempt."""
        self._coming: list[tuple[int, int, Callable[[], Message | None]]] = []
        self._numbers = count()

    def launch(self, launch: Launch) -> Message:
        key, number = launch.key, launch.attempt
        known = self.attempts.get((key, number))
        if known is not None:  # it is offered again: nothing is started twice
            return known.ended or RunStarted(key, number, self.clock.now, self.name, known.act.lease_us)
        acts = self.acts.get(key.job_id, [Act()])
        act = acts.pop(0) if len(acts) > 1 else acts[0]
        if act.refused:
            return LaunchRefused(key, number, "full", launch.fence)
        self.attempts[key, number] = Attempt(act)
        if act.broken:
            end = RunFinished(key, number, self.clock.now, SKIPPED, None, "it said no", broken=act.broken)
            self.attempts[key, number].ended = end
            return end
        if act.lasts_us is not None:
            self._later(act.lasts_us, partial(self._end, key, number, act.state))
        if act.beat_us is not None:
            self._later(act.beat_us, partial(self._beat, key, number, act.beat_us))
        return RunStarted(key, number, self.clock.now, self.name, act.lease_us)

    def stop(self, stop: Stop) -> None:
        known = self.attempts.get((stop.key, stop.attempt))
        if known is not None and known.ended is None:
            self._later(known.act.stop_takes_us, partial(self._end, stop.key, stop.attempt, CANCELLED))

    def reconcile(self, asked: Reconcile) -> None:
        for key, number, *_ in asked.runs:
            self._later(self.remembers_after_us, partial(self._remember, key, number))

    def finish(self, job_id: str, state: RunState) -> Sequence[Message]:
        """Every running attempt of a job ends now."""
        reports = [self._end(*one, state) for one in list(self.attempts) if one[0].job_id == job_id]
        return [report for report in reports if report is not None]

    def forget_what_is_coming(self) -> None:
        """Nothing that was asked of it or begun will ever be heard of."""
        self._coming.clear()

    def next_at(self) -> int | None:
        """When it has something to say, by the monotonic clock."""
        return self._coming[0][0] if self._coming else None

    def reports(self) -> list[Message]:
        """Everything it has to say by now."""
        found: list[Message] = []
        while self._coming and self._coming[0][0] <= self.clock.monotonic:
            report = heappop(self._coming)[2]()
            if report is not None:
                found.append(report)
        return found

    def _later(self, after_us: int, say: Callable[[], Message | None]) -> None:
        heappush(self._coming, (self.clock.monotonic + after_us, next(self._numbers), say))

    def _beat(self, key: RunKey, number: int, beat_us: int) -> Message | None:
        if self.attempts[key, number].ended is not None:
            return None
        self._later(beat_us, partial(self._beat, key, number, beat_us))
        return RunHeartbeat(key, number)

    def _end(self, key: RunKey, number: int, state: RunState) -> Message | None:
        attempt = self.attempts[key, number]
        if attempt.ended is not None:
            return None
        exit_code = 0 if state is SUCCEEDED else 1
        attempt.ended = RunFinished(key, number, self.clock.now, state, exit_code)
        return attempt.ended

    def _remember(self, key: RunKey, number: int) -> Message:
        if self.knows_nothing:
            return RunLost(key, number, "the executor has no memory of it")
        known = self.attempts.get((key, number))
        if known is None:
            return RunUnknown(key, number)
        return known.ended or RunStarted(key, number, self.clock.now, self.name, known.act.lease_us)

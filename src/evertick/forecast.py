"""What would the coming days look like? The production loop runs through simulated time, with measured durations.

No process is started and nothing is written: the ledger is in memory, and a run ends after the duration that is drawn
for it. Jobs run on this machine, whatever their executor: overlap, queues, windows and chains decide, not places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count

from evertick.dispatch.lookup import look_up, open_runs, outcomes, read_gained, recall, stops
from evertick.dispatch.writer import answered, commit_around
from evertick.loop.decide import decide
from evertick.loop.effects import (
    Audit,
    Commit,
    Effect,
    Launch,
    LookUpOutcomes,
    LookUpPlacements,
    LookUpStops,
    LookUpSubRuns,
    ReadReports,
    Record,
    Stop,
)
from evertick.loop.messages import (
    ChangesRecorded,
    DefinitionsResynced,
    Message,
    ReportsRead,
    RunFinished,
    RunStarted,
    TimePassed,
)
from evertick.loop.state import State
from evertick.model.instant import DAY, HOUR, MINUTE, Instant
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS
from evertick.model.lifecycle import CANCELLED, SUCCEEDED, RunState
from evertick.model.routing import Routing
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.requests import message_of
from evertick.settings.parts import LoopSettings
from evertick.store import RunFilter, every_line
from evertick.stores.memory import MemoryStore

NODE = "simulation"
FOREVER_US = 100_000 * DAY
PAGE = 10_000

Draw = Callable[[str, int], int]
"""How long the n-th run of a job takes, in microseconds."""


def simulate(
    jobs: Mapping[str, Job],
    draw: Draw,
    queues: Mapping[str, int],
    since: Instant,
    until: Instant,
    report: Callable[[Instant], object],
) -> list[LedgerRow]:
    """What the ledger would hold for the period after `since` up to `until`, oldest first.

    `report` is called with the simulated time, once per simulated hour.
    """
    week = _Simulation(jobs, draw, queues, since)
    at = since
    while at < until:
        at = min(at + HOUR, until)
        week.run_until(at)
        report(at)
    return list(week.rows(since))


class _Simulation:
    """One node that owns all jobs, and answers whatever its loop asks for at once."""

    def __init__(self, jobs: Mapping[str, Job], draw: Draw, queues: Mapping[str, int], now: Instant) -> None:
        self._store = MemoryStore()
        self._draw = draw
        self._now = now
        self._started_at = now
        self._wake_at = now
        self._launched: dict[str, int] = {}
        self._running: set[tuple[RunKey, int]] = set()
        self._ends: list[tuple[Instant, int, RunKey, int, RunState]] = []
        self._numbers = count()
        # Each minute instead of each second: a quiet week is simulated in seconds, and what is due still fires on time.
        settings = LoopSettings(
            preread_us=MINUTE, interval_us=MINUTE, keep_us=MINUTE, flush_us=HOUR, queues=tuple(queues.items())
        )
        self._state = State(settings, NODE, NODE, now)
        self._inbox: list[Message] = [
            DefinitionsResynced([_placed_here(job) for job in jobs.values()], True),
            self._own_everything(),
        ]

    def run_until(self, end: Instant) -> None:
        self._settle()
        self._skip_lull()
        while (following := self._next_at()) <= end:
            self._now = max(following, self._now)
            self._settle()
            self._skip_lull()
        self._now = end

    def _skip_lull(self) -> None:
        """Leave out the iterations that would only find that nothing is due: most minutes of a week are such.

        The next iteration is one that would have come, at the earliest the one that enters an occurrence or passes a
        deadline, and finds the plan as far as the one before it would have left it.
        """
        state, interval_us = self._state, self._state.settings.interval_us
        if self._ends or self._running or self._inbox or state.ring.next_at() is not None:
            return
        waiting = (state.batches, state.records, state.to_plan, state.retiring, state.sub_runs, state.orphans)
        if any((*waiting, state.unplaced, state.unwritten_ends, state.handled)):
            return
        if self._wake_at != state.next_plan_at:
            return
        due_at = state.index.next_at()
        ends = [] if due_at is None else [due_at - state.settings.preread_us + interval_us - 1]
        ends += [at for at in (state.stops.next_at(), state.deadlines.next_at()) if at is not None]
        ends += [at for at, _ in state.blackout_bounds[:1]]
        skipped = (min(ends, default=self._now + DAY) - self._wake_at) // interval_us
        if skipped > 0:
            self._wake_at = state.next_plan_at = self._wake_at + skipped * interval_us
            state.index.advance(self._wake_at)

    def rows(self, since: Instant) -> Iterator[LedgerRow]:
        """Every entry, oldest first."""
        return every_line(self._store, RunFilter(since=since, oldest_first=True), PAGE)

    def _own_everything(self) -> Message:
        names = [f"bucket:{bucket}" for bucket in range(BUCKETS)]
        leases = self._store.lease(names, NODE, FOREVER_US, self._now)
        return read_gained(self._store, {int(lease.name.partition(":")[2]): lease.epoch for lease in leases})

    def _next_at(self) -> Instant:
        return min(self._wake_at, self._ends[0][0]) if self._ends else self._wake_at

    def _settle(self) -> None:
        """Iterate until there is nothing more to do at this instant."""
        self._collect_ends()
        while self._inbox or self._wake_at <= self._now:
            messages, self._inbox = [TimePassed(self._now - self._started_at), *self._inbox], []
            effects, self._wake_at = decide(self._state, messages, self._now)
            for effect in effects:
                self._inbox += self._carry_out(effect)
            self._collect_ends()

    def _collect_ends(self) -> None:
        while self._ends and self._ends[0][0] <= self._now:
            at, _, key, attempt, state = heappop(self._ends)
            if (key, attempt) in self._running:
                self._running.remove((key, attempt))
                self._inbox.append(RunFinished(key, attempt, at, state, 0 if state is SUCCEEDED else None))

    def _carry_out(self, effect: Effect) -> Sequence[Message]:
        match effect:
            case Commit(number, batch):
                told = answered(number, commit_around(self._store, effect))
                return [told, *self._requests()] if batch.requests else [told]
            case Record(number, changes):
                return [ChangesRecorded([number], self._store.record(changes))]
            case Launch():
                return [self._launch(effect)]
            case Stop(key, attempt):
                self._end(self._now, key, attempt, CANCELLED)
            case LookUpSubRuns(keys):
                return look_up(self._store, keys)
            case LookUpOutcomes():
                return outcomes(self._store, effect)
            case LookUpStops():
                return stops(self._store, effect)
            case Audit():
                return open_runs(self._store, effect)
            case ReadReports(number):
                return [ReportsRead(number)]
            case LookUpPlacements(job_id):
                return [recall(self._store, job_id)]
        return ()

    def _requests(self) -> Iterator[Message]:
        """What the loop has asked of itself through the ledger: the jobs that run after others."""
        return map(message_of, self._store.claim(None, PAGE))

    def _launch(self, launch: Launch) -> Message:
        key = launch.key
        number = self._launched[key.job_id] = self._launched.get(key.job_id, -1) + 1
        self._running.add((key, launch.attempt))
        self._end(self._now + self._draw(key.job_id, number), key, launch.attempt, SUCCEEDED)
        return RunStarted(key, launch.attempt, self._now, NODE)

    def _end(self, at: Instant, key: RunKey, attempt: int, state: RunState) -> None:
        heappush(self._ends, (at, next(self._numbers), key, attempt, state))


def _placed_here(job: Job) -> Job:
    return replace(job, routing=Routing(), notify=())

"""The scheduler without threads: `decide`, a real store, an executor with a memory, and a clock that the test sets.

How far time has come is kept in a file, so that whoever goes on after a crash goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from evertick.dispatch.writer import answered, commit_around
from evertick.errors import Fenced
from evertick.loop.decide import decide
from evertick.loop.effects import Commit, Effect, Launch, Reconcile, Record, Stop
from evertick.loop.messages import (
    BatchFenced,
    BucketsGained,
    ChangesRecorded,
    DefinitionsResynced,
    Message,
    NodesSeen,
    TimePassed,
)
from evertick.loop.state import State
from evertick.model.instant import DAY, Instant
from evertick.model.ledger import BUCKETS
from evertick.model.schedule import specs_from_text
from evertick.operations.requests import message_of
from evertick.operations.submission import submit
from evertick.planning.schedules import compile_all, occurrences
from evertick.store import RunFilter, Store
from tests.crash.scenario import EVENTS, LIVES, SETTINGS, Life, act, jobs_at, requests_at
from tests.disk_executor import DiskExecutor

NODE = "node"
FOR_EVER_US = 36_500 * DAY
NAMES = [f"bucket:{bucket}" for bucket in range(BUCKETS)]


class Clock:
    """Shows what it was set to, and remembers it across crashes."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.instant: Instant = int(os.pread(self._fd, 32, 0) or b"0")

    def set(self, instant: Instant) -> None:
        self.instant = instant
        os.pwrite(self._fd, str(instant).encode(), 0)

    def now(self) -> Instant:
        return self.instant

    def monotonic_us(self) -> int:
        return self.instant

    def boottime_us(self) -> int:
        return self.instant


class Driver:
    def __init__(self, store: Store, folder: Path, incarnation: str) -> None:
        self.store = store
        self.clock = Clock(folder / "now")
        self.decisions: list[Effect] = []
        self._attempts = folder / "attempts"
        self._incarnation = incarnation
        self._inbox: list[Message] = []
        self._wake_at: Instant = 0

    def run(self) -> None:
        """From where time stands to the end of the scenario."""
        for number, life in enumerate(LIVES):
            if self.clock.instant < life.end:
                self._live(life, f"{self._incarnation}-{number}")
                self.clock.set(life.end)

    def _live(self, life: Life, incarnation: str) -> None:
        now = max(self.clock.instant, life.start)
        self.clock.set(now)
        self._state = State(SETTINGS, NODE, incarnation, now)
        self._executor = DiskExecutor(self._attempts, act=act, runs_survive=True, clock=self.clock)
        self._inbox = [DefinitionsResynced(jobs_at(now)), NodesSeen(frozenset({NODE})), self._own_everything()]
        self._executor.open(self._inbox.append)
        events = [at for at in EVENTS if now <= at < life.end]
        self._claim()
        while self.clock.instant < life.end:
            if events and events[0] == self.clock.instant:
                self._happen(events.pop(0))
            self._settle()
            coming = [self._wake_at, self._executor.next_at() or life.end, *events[:1], life.end]
            self.clock.set(min(coming))
        self._executor.close()

    def _own_everything(self) -> BucketsGained:
        now = self.clock.now()
        self.store.lease(NAMES, NODE, 0, now)
        leases = self.store.lease(NAMES, NODE, FOR_EVER_US, now)
        epochs = {int(lease.name.removeprefix("bucket:")): lease.epoch for lease in leases}
        snapshot = self.store.load()
        # In which order jobs are read is the store's affair; the order of decisions follows it.
        return BucketsGained(epochs, replace(snapshot, jobs=sorted(snapshot.jobs)))

    def _happen(self, now: Instant) -> None:
        """People and files speak; saying it again after a crash changes nothing."""
        self._inbox.append(DefinitionsResynced(jobs_at(now)))
        for request in requests_at(now):
            submit(self.store, request)
        self._claim()

    def _claim(self) -> None:
        self._inbox += map(message_of, self.store.claim(None, 100))

    def _settle(self) -> None:
        """Take turns until there is nothing more to do at this instant."""
        self._executor.advance()
        while True:
            messages = [*self._inbox, TimePassed(self.clock.boottime_us())]
            self._inbox.clear()
            decision = decide(self._state, messages, self.clock.now())
            self._wake_at = decision.wake_at
            for effect in decision.effects:
                self.decisions.append(effect)
                self._carry_out(effect)
            if not self._inbox and self._wake_at > self.clock.now():
                return

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Commit(number):
                try:
                    self._inbox.append(answered(number, commit_around(self.store, effect)))
                except Fenced as fenced:
                    self._inbox.append(BatchFenced(number, fenced.buckets))
            case Record(number, changes):
                self._inbox.append(ChangesRecorded([number], self.store.record(changes)))
            case Launch():
                self._executor.launch(effect)
            case Stop(key, attempt, detail):
                self._executor.stop(key, attempt, detail)
            case Reconcile(runs):
                self._executor.reconcile([(asked.key, asked.attempt) for asked in runs])


def history(store: Store) -> list[list[str]]:
    """What became of each occurrence up to the end; those of a gap one by one, however the gap was cut."""
    end = LIVES[-1].end
    schedules = {line.job_id: compile_all(specs_from_text(line.specs)) for line in store.schedules()}
    found = []
    for row in store.query(RunFilter(oldest_first=True), limit=100_000).rows:
        first, last = row.key.scheduled_for, row.through
        instants = [first] if last is None else occurrences(schedules[row.key.job_id], first - 1, last)
        found += [
            [row.key._replace(scheduled_for=at).run_id, str(row.state), str(row.trigger), str(row.reason or "")]
            for at in instants
            if at <= end
        ]
    return sorted(found)


class Mortal:
    """A store whose process dies at its k-th call: before the call, or when it has taken effect."""

    def __init__(self, store: Store, dies_at: int, *, is_after: bool, die: Callable[[], None]) -> None:
        self._store = store
        self._dies_at = dies_at
        self._is_after = is_after
        self._die = die
        self.calls: list[str] = []

    def __getattr__(self, verb: str) -> Any:
        call = getattr(self._store, verb)

        def counted(*args: object, **known: object) -> object:
            self.calls.append(verb)
            is_last = len(self.calls) == self._dies_at
            if is_last and not self._is_after:
                self._die()
            answer = call(*args, **known)
            if is_last:
                self._die()
            return answer

        return counted

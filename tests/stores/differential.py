"""Does a store answer every call as the one in memory does? The same random calls go to both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeVar

from evertick.errors import Fenced, GapRefused
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import (
    ACTIVE,
    LAUNCHING,
    PLANNED,
    RETRYING,
    RUNNING,
    SKIPPED,
    TERMINAL,
    WAITING,
    RunState,
    SkipReason,
    Trigger,
)
from evertick.model.run import Change, Entry, RunKey
from evertick.store import Batch, JobRecord, RunFilter, ScheduleLine, Store
from evertick.stores.memory import MemoryStore
from tests.stores.builders import DAY, EVERYTHING, HOUR, MINUTE, NINE, SECOND, asked, gap, lease_of, planned

JOBS = ["a", "B", "ç", "report", "it's", "日"]
NODES = ["node-1", "node-2"]
GRID = [NINE + n * MINUTE for n in range(80)]
REQUESTS = [f"r{n}" for n in range(25)]
BUCKETS = sorted({bucket_of(job) for job in JOBS})

Value = TypeVar("Value")


def compare(store: Store, reopen: Callable[[], Store], seed: int, steps: int) -> None:
    """Make the same calls on both; every answer must be the same, and all that can be read at the end."""
    twin, caller = MemoryStore(), Caller(seed)
    for step in range(steps):
        name, arguments = caller.next_call()
        told = f"seed {seed}, step {step}: {name}{arguments}"
        expected, answer = outcome(twin, name, arguments), outcome(store, name, arguments)
        assert answer == expected, told
        caller.learn(name, expected)
        if step % 50 == 49:
            store = reopen()
            assert state_of(store, caller.bounds) == state_of(twin, caller.bounds), told
    assert state_of(store, caller.bounds) == state_of(twin, caller.bounds)
    # A sequence that enters nothing, ends nothing or refuses nothing would compare nothing.
    assert len(twin.query(EVERYTHING, limit=1_000).rows) > 20
    assert caller.fenced > 0
    assert caller.refused > 0


def outcome(store: Store, name: str, arguments: tuple) -> object:
    try:
        answer = getattr(store, name)(*arguments)
    except Fenced as fenced:
        return ("fenced", set(fenced.buckets))
    except GapRefused as refused:
        return ("gap refused", set(refused.keys))
    match name:
        case "commit":
            return answer.refused
        case "lease":  # a store may use its own clock
            return sorted((lease.name, lease.holder, lease.epoch) for lease in answer)
        case "query":
            return list(answer.rows), answer.after
        case "claim":
            return list(answer)
        case "requests":
            return sorted(answer)
    return answer


def state_of(store: Store, bounds: dict[str, int]) -> dict[str, object]:
    snapshot = store.load()
    return {
        "rows": list(store.query(EVERYTHING, limit=10_000).rows),
        "jobs": sorted(snapshot.jobs),
        "open": list(snapshot.open_runs),
        "floors": dict(snapshot.floors),
        "schedules": sorted(clipped(store.schedules(), bounds)),
        "requests": sorted(store.requests(REQUESTS)),
        "claimed": list(store.claim(BUCKETS[:2], 5)),
        "outcomes": list(store.outcomes([NINE, NINE + HOUR, NINE + DAY])),
        "wrong counts": list(store.wrong_counts()),
        "counters": {name: n for name, n in store.counters().items() if n and name != "ended.skipped"},
    }


def clipped(lines: Sequence[ScheduleLine], bounds: dict[str, int]) -> Iterator[ScheduleLine]:
    """Lines as they matter after the bound of the last compaction: when exactly they move up is the store's affair."""
    for job in JOBS:
        own = sorted(line for line in lines if line.job_id == job)
        bound = bounds.get(job, 0)
        passed = [line for line in own if line.since <= bound]
        yield from [line._replace(since=bound) for line in passed[-1:]]
        yield from own[len(passed) :]


class Caller:
    """Thinks of calls that a careless cluster could make."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = NINE
        self.keys: list[RunKey] = [RunKey("a", GRID[0]), RunKey("a", GRID[1], "r1")]
        self.epochs: dict[str, int] = {}
        self.bounds: dict[str, int] = {}
        self.fenced = self.refused = 0

    def next_call(self) -> tuple[str, tuple]:
        self.now += self.random.randrange(1, 3 * SECOND)
        verbs = {"commit": 8, "record": 8, "lease": 3, "query": 4, "claim": 1, "requests": 1, "compact": 1}
        (name,) = self.random.choices(list(verbs), list(verbs.values()))
        return name, getattr(self, name)()

    def learn(self, name: str, answer: object) -> None:
        match name, answer:
            case "lease", list():
                self.epochs = {lease: epoch for lease, _, epoch in answer}
            case _, ("fenced", _):
                self.fenced += 1
            case "commit" | "record", frozenset():
                self.refused += len(answer)

    def some(self, pool: list, most: int) -> list:
        return self.random.sample(pool, self.random.randrange(min(most, len(pool)) + 1))

    def maybe(self, value: Value, chance: float = 0.5) -> Value | None:
        return value if self.random.random() < chance else None

    def commit(self) -> tuple[Batch]:
        entries = [entry for job in self.some(JOBS, 2) for entry in self.entries(job)]
        fresh = [entry.key for entry in entries]
        batch = Batch(
            by=self.random.choice(NODES),
            entries=entries,
            jobs=[self.job(job) for job in self.some(JOBS, 2)],
            rewinds={job: self.random.choice(GRID) for job in self.some(JOBS, 1)},
            withdrawn=self.some(self.keys, 2),
            changes=[change for key in self.some([*self.keys, *fresh], 2) for change in self.life(key)],
            schedules=[
                ScheduleLine(job, self.random.choice(self.ahead(job)), f"[{self.random.randrange(99)}]")
                for job in self.some(JOBS, 1)
            ],
            floors={bucket: self.random.choice(GRID) for bucket in self.some(BUCKETS, 2)},
            epochs=self.claimed_epochs(),
            requests=[asked(name, self.random.choice(JOBS), self.now) for name in self.some(REQUESTS, 1)],
            answers={name: f'"{self.random.randrange(99)}"' for name in self.some(REQUESTS, 1)},
        )
        self.keys += [key for key in fresh if key not in self.keys]
        return (batch,)

    def ahead(self, job: str) -> list[int]:
        """Where a schedule may begin: not before what was compacted."""
        return [at for at in GRID if at > self.bounds.get(job, 0)]

    def entries(self, job: str) -> Iterator[Entry]:
        """A few lines of one job that do not overlap among themselves."""
        at = self.random.randrange(len(GRID))
        while at < len(GRID) - 6 and self.random.random() < 0.7:
            match self.random.randrange(5):
                case 0:
                    length = self.random.randrange(2, 6)
                    yield gap(GRID[at], GRID[at + length - 1], length, job, detail="gap")
                    at += length
                case 1:
                    origin = self.random.choice(REQUESTS)
                    yield planned(RunKey(job, GRID[at], origin), trigger=Trigger.API, params="{}")
                case 2:
                    reason = self.random.choice(list(SkipReason))
                    yield planned(RunKey(job, GRID[at]), SKIPPED, reason=reason)
                case _:
                    state = self.random.choice([PLANNED, PLANNED, WAITING, LAUNCHING])
                    yield planned(RunKey(job, GRID[at]), state, self.random.choice(list(Trigger)))
            at += self.random.randrange(1, 4)

    def job(self, job: str) -> JobRecord:
        return JobRecord(
            job,
            self.random.choice(GRID),
            held=self.random.random() < 0.3,
            fingerprint=self.random.choice(["", "f1"]),
            paused_at=self.maybe(self.now),
            pause_note=self.random.choice(["", "why 🦄"]),
            retired_at=self.maybe(self.now, 0.2),
            last_success_at=self.maybe(self.now),
            error=self.random.choice(["", "it's bad"]),
        )

    def claimed_epochs(self) -> dict[int, int]:
        """Mostly what is leased, sometimes what is not, never what was given up: that is nobody's to claim."""
        held = [bucket for bucket in BUCKETS if lease_of(bucket) in self.epochs]
        wrong = self.random.random() < 0.1
        return {bucket: self.epochs[lease_of(bucket)] - wrong for bucket in self.some(held, 2)}

    def record(self) -> tuple[list[Change]]:
        changes = [change for key in self.some(self.keys, 6) for change in self.life(key)]
        if changes and self.random.random() < 0.2:
            changes += self.life(RunKey("nobody", self.random.choice(GRID)))
        return (changes,)

    def life(self, key: RunKey) -> list[Change]:
        """Some states that a run may pass through, in order, as one writer would tell them."""
        fence = self.random.randrange(4)
        passed: list[RunState] = self.some(sorted(ACTIVE, key=[LAUNCHING, RUNNING, RETRYING].index), 2)
        ended = [self.random.choice(sorted(TERMINAL))] if self.random.random() < 0.3 else []
        return [
            Change(
                key,
                state,
                self.now,
                fence,
                attempt=self.maybe(self.random.randrange(3)),
                reason=self.random.choice(list(SkipReason)) if state is SKIPPED else None,
                trigger=self.maybe(Trigger.CATCHUP, 0.1),
                executor=self.maybe("local"),
                started_at=self.maybe(self.now),
                finished_at=self.maybe(self.now + 1),
                retry_at=self.maybe(self.now + 2, 0.2),
                exit_code=self.maybe(self.random.randrange(-9, 3)),
                detail=self.maybe(self.random.choice(["", "said 'no'"])),
                steps=self.maybe(self.random.choice(["", '[{"name":"größe","state":"failed"}]'])),
            )
            for state in [*passed, *ended]
        ]

    def lease(self) -> tuple[list[str], str, int, int]:
        names = [lease_of(bucket) for bucket in self.some(BUCKETS, 4)]
        ttl_us = self.random.choice([DAY, DAY, 0])
        return names, self.random.choice(NODES), ttl_us, self.now

    def query(self) -> tuple[RunFilter, RunKey | None, int]:
        where = RunFilter(
            job_ids=self.some(JOBS, 3),
            states=self.some(list(RunState), 3),
            triggers=self.some(list(Trigger), 2) if self.random.random() < 0.3 else (),
            reasons=self.some(list(SkipReason), 3) if self.random.random() < 0.2 else (),
            since=self.maybe(self.random.choice(GRID)),
            until=self.maybe(self.random.choice(GRID)),
            occurrences_only=self.random.random() < 0.2,
            oldest_first=self.random.random() < 0.5,
        )
        return where, self.maybe(self.random.choice(self.keys)), self.random.randrange(1, 9)

    def claim(self) -> tuple[list[int] | None, int]:
        return self.maybe(self.some(BUCKETS, 4)), self.random.randrange(1, 6)

    def requests(self) -> tuple[list[str]]:
        return (self.some(REQUESTS, 5),)

    def compact(self) -> tuple[dict[str, int], int | None, int]:
        before = {job: self.random.choice(GRID[:30]) for job in self.some(JOBS, 2)}
        default = self.maybe(self.random.choice(GRID[:20]))
        for job in JOBS:
            self.bounds[job] = max(self.bounds.get(job, 0), before.get(job, default) or 0)
        return before, default, self.random.randrange(1, 10)

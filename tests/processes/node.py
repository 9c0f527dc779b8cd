"""One scheduler in a process of its own: `python -m tests.processes.node '{"url": ..., ...}'`.

It says on standard output what it does, one line each, so that a test can wait for it:

    launched s-001          an attempt is about to start
    before commit           the store is about to be called; `after commit` when it has answered
    log buckets.lost ...    what the scheduler itself found worth a warning
    owns s-001 s-002 ...    these are its jobs now
    settled                 nothing that has come due is open; `busy` when something is
    refused <why>           another instance has the ledger
    asleep                  it sleeps until SIGCONT
    ended                   it has shut down in order

SIGTERM shuts it down in order. SIGUSR2 puts it to sleep between two turns of its loop, until SIGCONT.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evertick.errors import SchedulerLockError
from evertick.executor import Attempt
from evertick.location import Location
from evertick.model.instant import HOUR, SECOND, Instant
from evertick.model.job import Job
from evertick.model.lifecycle import FAILED, SUCCEEDED, RunState
from evertick.model.policy import Missed, OnExecutorLost, Overlap, OverlapKind, Policy, Retry
from evertick.model.run import Change, RunKey
from evertick.model.schedule import AtSpec, EverySpec
from evertick.node import Definitions
from evertick.node import Node as Scheduler
from evertick.settings import Settings
from evertick.settings.parts import LoopSettings
from evertick.store import Batch, Committed, Lease, Store
from evertick.stores import open_store
from evertick.wiring import Executors
from tests.disk_executor import Act, DiskExecutor

Tell = Callable[[str], None]
QUARTER_US = SECOND // 4
REFUSED = 3
WRITING = threading.Lock()


@dataclass(frozen=True)
class Config:
    url: str
    attempts: str
    """The executor's file."""
    node: str = "node"
    seconds: int = 0
    """Jobs that are due every second."""
    quarters: int = 0
    """Jobs that are due every quarter of a second."""
    at_once: int = 0
    """Jobs that are due once, all at `due_at`."""
    due_at: Instant = 0
    lease_us: int = LoopSettings().lease_us
    takes_us: int = 0
    retry_seconds: int | None = None
    """Every run fails, and is tried again after this."""
    at_most_once: bool = False
    is_leaderless: bool = False
    """Every node owns everything, and nobody's epoch is checked."""
    tells_calls: bool = False
    look_seconds: float = 0.05
    """How often it says how it stands."""
    tells_launches: bool = True
    queue_limit: int | None = None
    """All jobs are in one queue, of which so many runs may be active."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))


def jobs_of(config: Config) -> list[Job]:
    """The load: a third of the jobs each skips, queues and replaces, with and without catch-up."""
    periods = [("s", SECOND)] * config.seconds + [("q", QUARTER_US)] * config.quarters
    lost = OnExecutorLost.FAIL if config.at_most_once else OnExecutorLost.RETRY
    retry = Retry() if config.retry_seconds is None else Retry(1, config.retry_seconds * SECOND)
    once = Policy(grace_us=HOUR)  # a busy machine may see them only when they are due
    at_once = [
        Job(f"o-{number:06}", schedules=(AtSpec(config.due_at),), policy=once) for number in range(config.at_once)
    ]
    return at_once + [
        Job(
            f"{kind}-{number:03}",
            schedules=(EverySpec(period),),
            policy=replace(POLICIES[number % 3], on_executor_lost=lost, retry=retry),
            queue=None if config.queue_limit is None else "database",
        )
        for number, (kind, period) in enumerate(periods)
    ]


POLICIES = (
    Policy(),
    Policy(missed=Missed.ALL, catchup_window_us=HOUR, overlap=Overlap(OverlapKind.WAIT)),
    Policy(missed=Missed.LATEST, overlap=Overlap(OverlapKind.PARALLEL, 4)),
)


class TellingExecutor(DiskExecutor):
    """Says of each launch that it is about to happen."""

    def __init__(self, path: Path, tell: Tell, takes_us: int, ends: RunState) -> None:
        super().__init__(path, act=lambda key, _attempt: Act(_takes(key, takes_us), ends))
        self._tell_of = tell

    def launch(self, attempt: Attempt) -> None:
        self._tell_of(f"launched {attempt.key.job_id}")
        super().launch(attempt)


def _takes(key: RunKey, takes_us: int) -> int:
    """Every other run of those that are due every second takes time; none of the others does, so that all drain."""
    return takes_us if key.job_id.startswith("s") and key.scheduled_for // SECOND % 2 else 0


class TellingStore:
    """A store that says when it is called, and when it has answered."""

    def __init__(self, store: Store, tell: Tell) -> None:
        self._store = store
        self._tell = tell
        self.capabilities = store.capabilities

    def __getattr__(self, verb: str) -> Callable[..., object]:
        call = getattr(self._store, verb)

        def told(*args: object, **known: object) -> object:
            self._tell(f"before {verb}")
            answer = call(*args, **known)
            self._tell(f"after {verb}")
            return answer

        return told


class LeaderlessStore:
    """A store that leases everything to everybody, and checks nobody's epoch: only the unique key is left.

    Without a lease nobody knows how long to wait for one that sleeps inside a transaction: none may.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def commit(self, batch: Batch) -> Committed:
        with WRITING:
            return self._store.commit(replace(batch, epochs={}))

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        with WRITING:
            return self._store.record(changes)

    def lease(self, names: Collection[str], holder: str, ttl_us: int, now: Instant) -> Sequence[Lease]:
        return [Lease(name, holder, 1, now + ttl_us) for name in sorted(names)] if ttl_us else []

    def __getattr__(self, verb: str) -> Callable[..., object]:
        return getattr(self._store, verb)


class TellingHandler(logging.Handler):
    def __init__(self, tell: Tell) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(f"log {record.getMessage()}")


def teller(fd: int) -> Tell:
    """Lines on a pipe; each is one write, so that those of several threads do not mix."""

    def tell(line: str) -> None:
        os.write(fd, f"{' '.join(line.split())}\n".encode())

    return tell


def run(config: Config, tell: Tell) -> int:
    """Be a scheduler until SIGTERM."""
    logging.getLogger("evertick").handlers = [TellingHandler(tell)]
    try:
        asyncio.run(_serve(config, tell))
    except SchedulerLockError as error:
        tell(f"refused {error}")
        return REFUSED
    tell("ended")
    return 0


async def _serve(config: Config, tell: Tell) -> None:
    ends = SUCCEEDED if config.retry_seconds is None else FAILED
    said = tell if config.tells_launches else _nothing
    executor = TellingExecutor(Path(config.attempts), said, config.takes_us, ends)
    jobs = jobs_of(config)

    def opener(url: str) -> Store:
        # The wrappers pass every other verb on.
        store: Any = open_store(url)
        if config.is_leaderless:
            store = LeaderlessStore(store)
        if config.tells_calls:
            store = TellingStore(store, tell)
        opened: Store = store
        return opened

    queues = () if config.queue_limit is None else (("database", config.queue_limit),)
    service = Scheduler(
        Location(config.url),
        Definitions(lambda: jobs),
        Executors({"local": executor}),
        name=config.node,
        settings=Settings(queues=queues, loop=LoopSettings(lease_us=config.lease_us)),
        opener=opener,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, service.shut_down)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, _sleep, service, tell)
    onlooker = asyncio.create_task(_look_on(service, tell, config.look_seconds))
    await service.run()
    onlooker.cancel()


def _sleep(service: Scheduler, tell: Tell) -> None:
    tell(" ".join(["owns", *sorted(service.state.jobs)]))
    tell("asleep")
    with WRITING:
        os.kill(os.getpid(), signal.SIGSTOP)


def _nothing(line: str) -> None:
    """For a load at which saying everything would be a good part of it."""


async def _look_on(service: Scheduler, tell: Tell, look_seconds: float) -> None:
    owned: set[str] = set()
    while True:
        await asyncio.sleep(look_seconds)
        state, now = service.state, time.time_ns() // 1_000
        if state.jobs.keys() != owned:
            owned = set(state.jobs)
            tell(" ".join(["owns", *sorted(owned)]))
        runs = [run for job in state.jobs.values() for run in job.open_runs()]
        # Without jobs it only has not begun; while the ledger is behind, more may be open than it knows.
        is_settled = state.jobs and not state.to_plan and all(run.key.scheduled_for > now for run in runs)
        tell("settled" if is_settled else "busy")


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1)
    sys.exit(run(Config(**json.loads(sys.argv[1])), teller(1)))

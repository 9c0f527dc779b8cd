"""The loop receives changes of the clock before any other message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from evertick.dispatch import dispatcher as dispatcher_module
from evertick.dispatch.clock import SystemClock
from evertick.dispatch.dispatcher import Dispatcher
from evertick.dispatch.inbox import Inbox
from evertick.dispatch.writer import Writer
from evertick.errors import StoreUnavailable
from evertick.executor import Attempt, Capabilities
from evertick.loop.effects import Effect
from evertick.loop.messages import (
    BucketsGained,
    BucketsLost,
    DefinitionsResynced,
    Message,
    RunFinished,
    RunHeartbeat,
    RunStarted,
    Shutdown,
    TimePassed,
)
from evertick.loop.state import State
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.ledger import Batch, Committed, RequestKind, bucket_lease, bucket_of
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.member import Member
from evertick.model.report import Report
from evertick.model.run import Change, RunKey
from evertick.model.schedule import EverySpec
from evertick.settings.parts import LoopSettings
from evertick.stores.memory import MemoryStore


class Launched:
    """An executor that takes attempts and reports what a test says."""

    name = "local"

    def __init__(self) -> None:
        self.launched = asyncio.Event()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def open(self, report: Callable[[Report], None]) -> None:
        self.report = report

    def launch(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.report(RunStarted(attempt.key, attempt.attempt, attempt.key.scheduled_for))
        self.launched.set()

    def finish(self) -> None:
        self.report(RunFinished(self.attempt.key, self.attempt.attempt, self.attempt.key.scheduled_for, SUCCEEDED))

    def stop(self, key: RunKey, attempt: int, detail: str) -> None: ...
    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None: ...
    def members(self) -> Sequence[Member]:
        return ()

    def close(self) -> None: ...


class Refusing(MemoryStore):
    """Its owner is another node by now: it takes no word about how runs ended."""

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        ended = frozenset(change.key for change in changes if change.state is SUCCEEDED)
        super().record([change for change in changes if change.key not in ended])
        return ended


def make_dispatcher(state: State, inbox: Inbox, writer: Writer, executor: Launched, clock: SystemClock) -> Dispatcher:
    return Dispatcher(
        state,
        inbox,
        writer,
        {"local": executor},
        clock,
        resync=lambda: None,
        release=lambda _: None,
        read_reports=lambda _store, _buckets: (),
        turned=lambda _: None,
    )


def leaving(store: MemoryStore, *, is_given_up: bool) -> list[str]:
    """A node launches a run and is stopped; the run ends meanwhile. The requests that it leaves in the ledger."""

    async def live() -> None:
        clock, inbox, executor = SystemClock(), Inbox(), Launched()
        writer = Writer(store, inbox.report)
        state = State(LoopSettings(), "node", "start", clock.now())
        dispatcher = make_dispatcher(state, inbox, writer, executor, clock)
        leases = store.lease([bucket_lease(bucket_of("a"))], "node", MINUTE, clock.now())
        epochs = {bucket_of("a"): leases[0].epoch}
        inbox.report(DefinitionsResynced([Job("a", schedules=(EverySpec(SECOND),))]))
        inbox.report(BucketsGained(epochs, store.load()))
        writer.start()
        running = asyncio.create_task(dispatcher.run())
        async with asyncio.timeout(60):
            await executor.launched.wait()
            dispatcher.shut_down(30)
            if is_given_up:
                inbox.report(BucketsLost(epochs))
                while state.epochs or not state.orphans:
                    await asyncio.sleep(0.01)
            executor.finish()
            await running
        assert await asyncio.to_thread(writer.stop, 30)

    asyncio.run(live())
    return [request.kind for request in store.claim(None, 10)]


def test_a_node_that_leaves_waits_for_its_runs_of_jobs_that_went_to_others_and_forwards_their_end():
    assert leaving(MemoryStore(), is_given_up=True) == [RequestKind.REPORT]


def test_a_node_that_leaves_forwards_an_end_that_the_ledger_refused_from_it():
    assert leaving(Refusing(), is_given_up=False) == [RequestKind.REPORT]


class Away(MemoryStore):
    """A database that answers nothing any more once the first run is launched."""

    is_away = False

    def commit(self, batch: Batch) -> Committed:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        return super().commit(batch)


def test_a_stop_ends_although_the_ledger_never_answers(monkeypatch):
    monkeypatch.setattr(dispatcher_module, "LEDGER_SECONDS", 0.2)
    store = Away()

    async def live() -> None:
        clock, inbox, executor = SystemClock(), Inbox(), Launched()
        writer = Writer(store, inbox.report)
        state = State(LoopSettings(), "node", "start", clock.now())
        dispatcher = make_dispatcher(state, inbox, writer, executor, clock)
        leases = store.lease([bucket_lease(bucket_of("a"))], "node", MINUTE, clock.now())
        inbox.report(DefinitionsResynced([Job("a", schedules=(EverySpec(SECOND),))]))
        inbox.report(BucketsGained({bucket_of("a"): leases[0].epoch}, store.load()))
        writer.start()
        running = asyncio.create_task(dispatcher.run())
        async with asyncio.timeout(60):
            await executor.launched.wait()
            store.is_away = True
            while not state.batches:
                await asyncio.sleep(0.01)
            dispatcher.shut_down(0)
            await running
        assert state.batches
        assert not await asyncio.to_thread(writer.stop, 0)

    asyncio.run(live())


class Slept(SystemClock):
    """Of a machine that was suspended for an hour since it was started."""

    def monotonic_us(self) -> int:
        return 1_000 * HOUR

    def boottime_us(self) -> int:
        return 1_001 * HOUR


def test_a_jump_of_the_clock_is_delivered_before_later_messages():
    """A sign of life is counted from the clock as it is now; moved with a jump after that, its run would be lost.

    The clock that nobody sets counts suspend: a lease is over also where the wall clock was set back meanwhile.
    """
    clock, inbox = Slept(), Inbox()
    seen: list[Message | Effect] = []
    dispatcher = Dispatcher(
        State(LoopSettings(), "node", "start", clock.now()),
        inbox,
        Writer(MemoryStore(), inbox.report),
        {},
        clock,
        resync=lambda: None,
        release=lambda _: None,
        read_reports=lambda _store, _buckets: (),
        turned=lambda _: None,
        observe=seen.extend,
    )
    inbox.report(RunHeartbeat(RunKey("a", 0), 1))
    inbox.report(Shutdown())
    asyncio.run(dispatcher.run())
    assert seen[:3] == [TimePassed(1_001 * HOUR), RunHeartbeat(RunKey("a", 0), 1), Shutdown()]

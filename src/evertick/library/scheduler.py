"""A scheduler inside a Python program: the same engine and the same ledger as `evertick serve`."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from evertick.errors import Conflict
from evertick.executors.child import CHILD
from evertick.library.decorator import JobRegistry
from evertick.library.events import Callback, EventStream, Listeners, events_of, status_event
from evertick.library.ledger import Ledger, waits
from evertick.library.node import Node
from evertick.library.place import Place, find_place, open_store
from evertick.library.results import Backfill, Explanation, Proof, Run, Schedule, Upcoming
from evertick.loop.effects import Effect
from evertick.loop.messages import Message
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.settings import Settings
from evertick.store import Store

log = logging.getLogger("evertick.library")

STOP_SECONDS = 30.0
ANSWER_SECONDS = 15.0

T = TypeVar("T")

# What belongs to the process that this one was forked from: not to be closed here, nor collected.
_LEFT_TO_PARENT: list[object] = []


class Scheduler:
    """Schedules the functions that are decorated with `job`, and the job files of a folder where there is one.

    Nothing is opened and no thread is started before `start`, so that a module may define one and a server fork
    after that. The ledger is `store`, else what the settings name (EVERTICK_STORE), else SQLite in `directory`; without
    any of them it is in memory, and ends with the process.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        store: str | None = None,
        settings: Settings | None = None,
        node: str | None = None,
        standby: bool = False,
        max_running: int = 100,
    ) -> None:
        """`standby`: where another process has the ledger, wait in its shadow instead of raising."""
        self._settings = settings or Settings.load(directory)
        self._place: Place = find_place(directory, store or self._settings.store or None)
        self._name, self._standby, self._max_running = node or self._settings.node or None, standby, max_running
        self._registry = JobRegistry(self._settings, self._defined)
        self._listeners = Listeners(self._home)
        self._node: Node | None = None
        self._ledger: tuple[int, Ledger] | None = None
        self._memory: Store | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: _OwnLoop | None = None
        self.job = self._registry.decorator

    # --- life

    @property
    def is_running(self) -> bool:
        """Whether this process schedules: not while it stands by, and not in a process that was forked from it."""
        node = self._living()
        return node is not None and node.status == "running"

    @property
    def status(self) -> str:
        """`stopped`, `starting`, `standby`, `running` or `stopping`."""
        node = self._living()
        return "stopped" if node is None else node.status

    async def start(self) -> None:
        """Begin; `SchedulerLockError` when another process has the ledger, unless this one may stand by.

        Coroutines run on the event loop that this is awaited on; the scheduling itself has a thread of its own.
        """
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._start)

    async def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Start nothing more, and give what runs so many seconds; what has not ended then is tried again later.

        Harmless when it is not started; it closes what questions have opened.
        """
        await asyncio.to_thread(self._stop, timeout)

    async def __aenter__(self) -> Scheduler:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def start_in_background(self) -> None:
        """Begin, in threads of its own; for programs without an event loop."""
        self._loop = None
        self._start()

    def stop_in_background(self, timeout: float = STOP_SECONDS) -> None:
        """`stop`, for programs without an event loop."""
        self._stop(timeout)

    def __enter__(self) -> Scheduler:
        self.start_in_background()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop(STOP_SECONDS)

    def run_forever(self, stop_timeout: float = STOP_SECONDS) -> None:
        """Schedule until SIGINT or SIGTERM, or until it fails; for a program that does nothing else."""
        told = threading.Event()
        signals = (signal.SIGINT, signal.SIGTERM)
        is_main = threading.current_thread() is threading.main_thread()
        before = {one: signal.signal(one, lambda *_: told.set()) for one in signals} if is_main else {}
        try:
            self.start_in_background()
            node = self._node
            assert node is not None
            while not told.wait(0.2) and node.is_alive:
                pass
            for one, handler in before.items():
                signal.signal(one, handler)  # a second signal leaves at once
            self._stop(stop_timeout)
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _start(self) -> None:
        if os.environ.get(CHILD):
            raise Conflict(
                "this process was started to run one function. Next: put what starts the scheduler "
                "behind: if __name__ == '__main__'"
            )
        if self._living() is not None:
            raise Conflict("the scheduler is started already. Next: await stop() first.")
        if self._place.is_memory:
            log.warning(
                "The ledger is in memory: it ends with this process, what is missed while it is down is never made "
                "up for, and of several processes, such as the workers of a web server, each runs every job. "
                "Next: Scheduler(store='sqlite:///evertick.db'), or postgresql://... for several processes."
            )
        self._tell_status("starting")
        try:
            node = self._node = Node(
                self._place,
                self._registry.jobs,
                self._registry.find,
                self._home,
                settings=self._settings,
                opener=self._open_store,
                observe=self._observe,
                on_status=self._tell_status,
                name=self._name,
                is_standby_welcome=self._standby,
                running_max=self._max_running,
            )
            node.start()
        except BaseException:
            self._node = None
            self._tell_status("stopped")
            raise

    def _stop(self, timeout: float) -> None:
        node = self._living()
        if node is not None:
            self._tell_status("stopping")
        try:
            if node is not None:
                node.stop(timeout)
        finally:
            self._node = None
            # Opened by a question, which needs no start.
            ledger, self._ledger = self._ledger, None
            if ledger is not None and ledger[0] == os.getpid():
                ledger[1].close()
            self._listeners.end()
            own, self._own_loop = self._own_loop, None
            if own is not None:
                own.close()

    def _living(self) -> Node | None:
        """The node of this process; what a fork has copied is somebody else's."""
        node = self._node
        if node is not None and node.pid != os.getpid():
            _LEFT_TO_PARENT.extend((node, self._ledger, self._own_loop, self._listeners))
            self._node, self._ledger, self._own_loop, self._loop = None, None, None, None
            self._listeners = Listeners(self._home)
            return None
        return node

    # --- jobs

    async def list_schedules(self) -> list[Schedule]:
        """Every job, and how it stands."""
        return await asyncio.to_thread(self._asked().list_schedules)

    async def get_schedule(self, job: str) -> Schedule | None:
        """How a job stands; None when there is none of that id."""
        return await asyncio.to_thread(self._asked().get_schedule, job)

    async def trigger_now(
        self,
        job: str,
        params: Mapping[str, Any] | None = None,
        *,
        wait: bool = True,
        timeout: float | None = None,
        trigger: str = "manual",
    ) -> Run:
        """Run a job now, and answer how it ended; with `wait=False` as soon as it is asked for.

        The run meets the job's overlap rule like any other: it may wait, or be skipped. `TimeoutError` when it has not
        ended in time; it goes on then.
        """
        ledger = self._asked()
        if wait:
            await self._require_somebody(ledger)
        run_id = await asyncio.to_thread(ledger.trigger, job, params or {}, trigger)
        if not wait:
            return _asked_run(run_id, job, trigger)
        return await _until(lambda: ledger.ended_run(run_id), timeout, f"the run {run_id}")

    async def pause(self, job: str, note: str = "") -> None:
        """Plan nothing more for a job until it is resumed; what runs goes on."""
        await self._request(lambda ledger: ledger.pause(job, note))

    async def resume(self, job: str, catchup: str | None = None) -> None:
        """Plan again; `catchup` is `all`, `latest`, `first` or `none` in place of the job's own policy."""
        await self._request(lambda ledger: ledger.resume(job, catchup))

    async def cancel(self, job_or_run: str, timeout: float | None = ANSWER_SECONDS) -> list[str]:
        """End the open runs of a job, or one run by its id; answers which. Returns when they have ended."""
        answer = await self._request(lambda ledger: ledger.cancel(job_or_run), timeout)
        runs = list(answer.get("runs", ()))
        ledger = self._asked()
        for run in runs:  # the answer may be in the ledger a moment before the end is
            await _until(lambda run=run: ledger.ended_run(run), timeout, f"the run {run}")  # type: ignore[misc]
        return runs

    async def backfill(
        self,
        job: str,
        start: datetime,
        end: datetime,
        *,
        only_missing: bool = True,
        overlap: str = "wait",
        rate: float = 0.0,
        preview: bool = False,
        wait: bool = False,
        timeout: float | None = None,
    ) -> Backfill:
        """Run the occurrences from `start` up to and without `end`: those without a good run, or all of them.

        `rate` is the least number of seconds between two starts.
        """
        ledger = self._asked()
        asked = await asyncio.to_thread(
            lambda: ledger.backfill(
                job, start, end, only_missing=only_missing, overlap=overlap, rate=rate, preview=preview
            )
        )
        if not wait or asked.request is None:
            return asked
        runs = await _until(lambda: ledger.ended_backfill(asked), timeout, f"the backfill {asked.request}")
        return replace(asked, runs=runs)

    # --- questions

    async def get_upcoming(
        self, limit: int = 10, *, job: str | None = None, until: datetime | None = None
    ) -> list[Upcoming]:
        """What is due next, of all jobs or of one."""
        return await asyncio.to_thread(self._asked().upcoming, job, limit, until)

    async def get_history(
        self,
        job: str | None = None,
        limit: int = 50,
        *,
        states: Sequence[str] = (),
        triggers: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Run]:
        """Lines of the ledger, newest first: runs, and skips with their reasons."""
        ledger = self._asked()
        return await asyncio.to_thread(
            lambda: ledger.history(job, limit, states=states, triggers=triggers, since=since, until=until)
        )

    async def get_run(self, run: str) -> Run:
        """One run by its id."""
        return await asyncio.to_thread(self._asked().run, run)

    async def why(self, job_or_run: str, at: datetime | str | None = None) -> Explanation:
        """What became of the occurrence of that time, and why; without a time, of the newest."""
        return await asyncio.to_thread(self._asked().why, job_or_run, at)

    async def verify(self) -> Proof:
        """Prove from the ledger that no occurrence was lost and none decided twice."""
        return await asyncio.to_thread(self._asked().verify)

    # --- events

    def on(self, name: str, callback: Callback | None = None) -> Callable[..., Any]:
        """Call a function, or await one, for every event of that name; `*` is all of them.

        Answers how to end that; without a callback it is a decorator.
        """
        if callback is not None:
            return self._listeners.add(name, callback)

        def decorate(function: Callback) -> Callback:
            self._listeners.add(name, function)
            return function

        return decorate

    def events(self, *names: str) -> EventStream:
        """Events as they come, from now on until the scheduler stops: `async for event in scheduler.events(): ...`."""
        return self._listeners.stream(names)

    # --- inside

    def _defined(self, job: Job) -> None:
        node = self._living()
        if node is not None:
            node.tell([job])

    def _asked(self) -> Ledger:
        node = self._living()
        if self._ledger is not None and self._ledger[0] == os.getpid():
            return self._ledger[1]
        jobs = self._registry.jobs if node is None else node.jobs
        by = f"python@{socket.gethostname()}"
        ledger = Ledger(
            self._open_store(self._place.store_url),
            jobs,
            by=by,
            is_anyone_running=self._place.is_anyone_running,
            poke=self._poke,
        )
        self._ledger = (os.getpid(), ledger)
        return ledger

    def _poke(self) -> None:
        node = self._living()
        if node is not None:
            node.claim_now()

    def _open_store(self, url: str) -> Store:
        """One for all who ask where it is in memory, else one for each."""
        if not self._place.is_memory:
            return open_store(url)
        if self._memory is None:
            self._memory = open_store(url)
        return self._memory

    async def _request(self, ask: Callable[[Ledger], str], timeout: float | None = ANSWER_SECONDS) -> dict[str, Any]:
        ledger = self._asked()
        await self._require_somebody(ledger)
        request = await asyncio.to_thread(ask, ledger)
        return await _until(lambda: ledger.answer(request), timeout, f"the request {request}")

    async def _require_somebody(self, ledger: Ledger) -> None:
        if self._living() is None and not await asyncio.to_thread(lambda: ledger.is_anyone_running):
            raise Conflict("no scheduler works on this ledger, and an answer would never come. Next: await start()")

    def _observe(self, seen: Message | Effect) -> None:
        for event in events_of(seen, _now()):
            self._listeners.tell(event)

    def _tell_status(self, status: str) -> None:
        self._listeners.tell(status_event(status, _now()))

    def _home(self) -> asyncio.AbstractEventLoop | None:
        """The loop for coroutines: the one that `start` was awaited on, else one in a thread of its own."""
        if self._loop is not None:
            return self._loop
        if self._own_loop is None:
            self._own_loop = _OwnLoop()
        return self._own_loop.loop


class _OwnLoop:
    """An event loop in a thread, for the coroutines of a program that has none."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="evertick-functions", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(STOP_SECONDS)


async def _until(look: Callable[[], T | None], timeout: float | None, what: str) -> T:
    for pause in waits(timeout, what):
        found = await asyncio.to_thread(look)
        if found is not None:
            return found
        await asyncio.sleep(pause)
    raise AssertionError("it waits until it raises")


def _asked_run(run_id: str, job: str, trigger: str) -> Run:
    at = run_id.partition("@")[2].partition("~")[0]
    return Run(run_id, job, datetime.fromisoformat(at), "planned", trigger)


def _now() -> Instant:
    return time.time_ns() // 1_000

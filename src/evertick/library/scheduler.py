"""A scheduler inside a Python program: the same engine and the same ledger as `evertick serve`."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, TypeVar, overload

from evertick.errors import Conflict, NotFound
from evertick.executors.child import CHILD
from evertick.library.async_operations import AsyncOperations, param_texts
from evertick.library.decorator import JobDecorator
from evertick.library.events import Callback, CommitNews, EventStream, Listeners, event_of, status_event
from evertick.library.location import is_anyone_running
from evertick.library.registry import ForkLock, JobLedger, JobRegistry
from evertick.location import locate
from evertick.model.instant import Instant, to_datetime
from evertick.model.job import Job
from evertick.model.lifecycle import Trigger
from evertick.settings import Settings
from evertick.store import Store
from evertick.stores import open_store

if TYPE_CHECKING:
    # What is needed from the start on comes with the start: a module that defines jobs is imported by many.
    from evertick.dispatch.facts import Fact
    from evertick.library.ledger import Ledger
    from evertick.library.node import NodeThread

log = logging.getLogger("evertick.library")

T = TypeVar("T")

MAX_RUNNING: Final = 100
STOP_SECONDS = 30.0
LOOK_SECONDS = 1.0
"""Between two checks whether the scheduler lives; a signal is noticed at once."""

# What belongs to the process that this one was forked from: not to be closed here, nor collected.
_LEFT_TO_PARENT: list[object] = []


class Scheduler(JobDecorator, AsyncOperations):
    """Schedules the functions that are decorated with `job`, and the job files in `directory`.

    It opens no file and starts no thread before `start`, so a module can define it before a server forks. The ledger is
    `store`, else the setting `store` (EVERTICK_STORE), else SQLite in `directory`; without any of them it is in memory
    and is lost when the process ends.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        store: str | None = None,
        settings: Settings | None = None,
        node: str | None = None,
        standby: bool = False,
        max_running: int = MAX_RUNNING,
    ) -> None:
        """`standby`: if another process holds the ledger, wait until it stops instead of raising."""
        self._settings = settings or Settings.load(directory)
        folder = None if directory is None else Path(directory)
        self._location = locate(self._settings, folder, store=store)
        self._name, self._standby, self._max_running = node or self._settings.node or None, standby, max_running
        self._registry = JobRegistry(self._settings, self._defined)
        self._listeners = Listeners(self._home)
        self._news = CommitNews()
        self._changing = ForkLock()
        self._node: NodeThread | None = None
        self._ledger: tuple[int, Ledger] | None = None
        self._shared: tuple[int, Store] | None = None
        """The ledger of a process that alone can read it, and the process."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._own_loop: LoopThread | None = None
        self._job_changes = -1

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,
        *,
        store: str | None = None,
        settings: Settings | None = None,
        node: str | None = None,
        standby: bool = False,
        max_running: int = MAX_RUNNING,
    ) -> Scheduler:
        """A scheduler for the job files of a folder; the options are those of `Scheduler`.

        It reads the files at once: a folder that does not exist is `NotFound`, and the first invalid file is a
        `DefinitionError`. `Scheduler(folder)` logs invalid files when it starts, and runs the others.
        """
        from evertick.definitions.source import load_folder

        scheduler = cls(folder, store=store, settings=settings, node=node, standby=standby, max_running=max_running)
        errors = load_folder(folder, scheduler._settings).all_errors()
        if errors:
            raise errors[0]
        return scheduler

    # --- life

    @property
    def is_running(self) -> bool:
        """Whether this process schedules; false while it stands by, and in a forked child."""
        node = self._living()
        return node is not None and node.status == "running"

    @property
    def status(self) -> str:
        """`stopped`, `starting`, `standby`, `running` or `stopping`."""
        node = self._living()
        return "stopped" if node is None else node.status

    async def start(self) -> None:
        """Start scheduling; raises `SchedulerLockError` if another process holds the ledger, unless `standby` is set.

        Coroutines run on the current event loop; the scheduler itself runs in its own thread.
        """
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._start)

    async def stop(self, timeout: float = STOP_SECONDS) -> None:
        """Start no new runs and wait up to `timeout` seconds for active ones; the next start retries the others.

        Does nothing if the scheduler is not started, except to close its connections.
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
        """`start`, for programs without an event loop: the scheduler and coroutines run in their own threads."""
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
        """Run the scheduler until SIGINT, SIGTERM or a failure; for a program that does nothing else."""
        # Not an Event: a handler must not wait for a lock that its own thread holds.
        woken, waker = socket.socketpair()
        waker.setblocking(False)
        signals = (signal.SIGINT, signal.SIGTERM)
        is_main = threading.current_thread() is threading.main_thread()
        before = {one: signal.signal(one, lambda *_: waker.send(b"s")) for one in signals} if is_main else {}
        try:
            self.start_in_background()
            node = self._node
            assert node is not None
            looking = select.poll()
            looking.register(woken, select.POLLIN)
            while node.is_alive and not looking.poll(LOOK_SECONDS * 1_000):
                pass
            for one, handler in before.items():
                signal.signal(one, handler)  # a second signal leaves at once
            self._stop(stop_timeout)
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            woken.close()
            waker.close()

    def _start(self) -> None:
        with self._changing():
            self._start_alone()

    def _start_alone(self) -> None:
        if os.environ.get(CHILD):
            raise Conflict(
                "this process was started to run one function. Next: guard the code that starts the "
                "scheduler with: if __name__ == '__main__'"
            )
        if self._living() is not None:
            raise Conflict("the scheduler is already started. Next: await stop() first.")
        if self._location.is_memory:
            log.warning(
                "The ledger is in memory and is lost when this process ends: occurrences missed while it is down never "
                "run, and several processes, such as the workers of a web server, each run every job. "
                "Next: Scheduler(store='sqlite:///evertick.db'), or postgresql://... for several processes."
            )
        from evertick.library.node import NodeThread

        self._publish_status("starting")
        try:
            node = self._node = NodeThread(
                self._location,
                self._registry.jobs,
                self._registry.find,
                self._home,
                settings=self._settings,
                opener=self._open_store,
                on_fact=self._receive,
                on_status=self._publish_status,
                refresh_jobs=self._refresh_jobs,
                name=self._name,
                is_standby_welcome=self._standby,
                running_max=self._max_running,
            )
            node.start()
        except BaseException:
            self._node = None
            self._publish_status("stopped")
            raise

    def _stop(self, timeout: float) -> None:
        with self._changing():
            self._stop_alone(timeout)

    def _stop_alone(self, timeout: float) -> None:
        node = self._living()
        if node is not None:
            self._publish_status("stopping")
        try:
            if node is not None:
                node.stop(timeout)
        finally:
            self._node = None
            # Opened by a question, which needs no start.
            ledger, self._ledger = self._ledger, None
            if ledger is not None and ledger[0] == os.getpid():
                ledger[1].close()
            if not self._location.is_memory:
                self._shared = None
            self._job_changes = -1
            self._listeners.end()
            own, self._own_loop = self._own_loop, None
            if own is not None:
                own.close()

    @property
    def _is_started(self) -> bool:
        return self._living() is not None

    def _living(self) -> NodeThread | None:
        """The node of this process; one that a fork has copied belongs to the parent."""
        node = self._node
        if node is not None and node.pid != os.getpid():
            _LEFT_TO_PARENT.extend((node, self._ledger, self._own_loop, self._listeners, self._shared))
            self._node, self._ledger, self._own_loop, self._loop = None, None, None, None
            self._listeners = Listeners(self._home)
            self._news = CommitNews()
            return None
        return node

    # Jobs

    @property
    def jobs(self) -> Mapping[str, Job]:
        """The definitions by id: those of this program and of its folder; once it is started, also those it added."""
        node = self._living()
        if node is not None:
            return node.jobs()
        folder = self._location.folder
        if folder is None or not folder.is_dir():
            return self._registry.jobs()
        from evertick.definitions.source import load_folder

        return {**load_folder(folder, self._settings).jobs, **self._registry.jobs()}

    def run_now(self, job: str, params: Mapping[str, object] | None = None) -> str:
        """Request a run of a job and return its id at once; the request is in the ledger, and survives a restart.

        To wait for its end: `trigger_now`.
        """
        given = param_texts(params)
        if self._registry.is_removed(job) and job not in self.jobs:
            raise NotFound(f"the job '{job}' was removed. Next: scheduler.jobs lists all jobs.")
        ledger = self._open_ledger()
        request, _ = ledger.submit(
            lambda operations, own: operations.trigger(job, given, Trigger.MANUAL, request_id=own)
        )
        return ledger.run_id_of(job, request)

    def next_run_time(self, job: str) -> datetime | None:
        """When the schedule of a job is due next, in the zone of the job; None if never. A pause does not change it.

        With jitter the run starts later: `get_upcoming` has `starts_at`.
        """
        from zoneinfo import ZoneInfo

        from evertick.planning.schedules import compile_all, next_of

        known = self.jobs
        if job not in known:
            raise NotFound(f"unknown job '{job}'. Next: scheduler.jobs lists all jobs.")
        at = next_of(compile_all(known[job].schedules), _now())
        return None if at is None else to_datetime(at).astimezone(ZoneInfo(known[job].timezone))

    def wait(self, call: Coroutine[object, None, T]) -> T:
        """Run a coroutine of this scheduler to its end from synchronous code: `scheduler.wait(scheduler.pause("x"))`.

        In a coroutine, await it instead.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(call)
        call.close()
        raise Conflict("wait() would block the running event loop. Next: await the call.")

    # Events

    @overload
    def on(self, name: str, callback: Callback) -> Callable[[], None]: ...
    @overload
    def on(self, name: str) -> Callable[[Callback], Callback]: ...
    def on(self, name: str, callback: Callback | None = None) -> Callable[[], None] | Callable[[Callback], Callback]:
        """Call or await `callback` for every event with this name; `*` means all events.

        Returns a function that removes the callback; without a callback, it is a decorator.
        """
        if callback is not None:
            return self._listeners.add(name, callback)

        def decorate(function: Callback) -> Callback:
            self._listeners.add(name, function)
            return function

        return decorate

    def events(self, *names: str) -> EventStream:
        """New events until the scheduler stops: `async for event in scheduler.events(): ...`."""
        return self._listeners.stream(names)

    # --- inside

    def _defined(self, jobs: Sequence[Job], removed: Sequence[str]) -> None:
        node = self._living()
        if node is not None:
            node.report_jobs(jobs, removed)

    @property
    def _keeps_jobs(self) -> bool:
        return not self._location.is_memory

    def _job_ledger(self, job: str | None = None) -> JobLedger | None:
        if not self._keeps_jobs:
            return None
        if self._is_started:
            return self._open_ledger()
        if job is None or self._registry.is_only_here(job):
            return None  # before the start nothing is opened, unless the ledger has the job
        ledger = self._open_ledger()
        self._registry.refresh(ledger)
        return ledger

    def _refresh_jobs(self) -> None:
        """Read the jobs that the ledger keeps, if they have changed; by any process."""
        if not self._keeps_jobs:
            return
        ledger = self._open_ledger()
        changes = ledger.job_changes()
        if changes != self._job_changes or self._registry.has_unsaved:
            self._registry.refresh(ledger)
            self._job_changes = changes

    def _open_ledger(self) -> Ledger:
        self._living()
        if self._ledger is not None and self._ledger[0] == os.getpid():
            return self._ledger[1]
        from evertick.library.ledger import Ledger

        def jobs() -> Mapping[str, Job]:
            node = self._living()
            return self._registry.jobs() if node is None else node.jobs()

        by = f"python@{socket.gethostname()}"
        ledger = Ledger(
            self._open_store(self._location.store_url),
            jobs,
            by=by,
            is_anyone_running=partial(is_anyone_running, self._location),
            poke=self._poke,
            settings=self._settings,
        )
        self._ledger = (os.getpid(), ledger)
        return ledger

    def _poke(self) -> None:
        node = self._living()
        if node is not None:
            node.claim_now()

    def _open_store(self, url: str) -> Store:
        """One for all who ask where no other process can read it, else one for each."""
        if not self._location.is_in_process:
            return open_store(url)
        if self._shared is None or not (self._location.is_memory or self._shared[0] == os.getpid()):
            self._shared = (os.getpid(), open_store(url))
        return self._shared[1]

    def _receive(self, fact: Fact | int, at: Instant) -> None:
        self._news.publish(fact)
        event = event_of(fact, at)
        if event is not None:
            self._listeners.publish(event)

    def _publish_status(self, status: str) -> None:
        self._listeners.publish(status_event(status, _now()))

    def _home(self) -> asyncio.AbstractEventLoop | None:
        """The loop for coroutines: the one that `start` was awaited on, else one in a thread of its own."""
        if self._loop is not None:
            return self._loop
        if self._own_loop is None:
            self._own_loop = LoopThread()
        return self._own_loop.loop


def _now() -> Instant:
    return time.time_ns() // 1_000


END_SECONDS = 30.0


class LoopThread:
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
        self._thread.join(END_SECONDS)

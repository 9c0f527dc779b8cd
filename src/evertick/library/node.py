"""The scheduling part of a program: a service in a thread of its own, so that nothing the program does delays it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from evertick.definitions.watch import FolderChanged, FolderWatch
from evertick.dispatch.facts import Answered, Fact
from evertick.dispatch.feed import Feed
from evertick.errors import DefinitionError, SchedulerLockError, StoreError
from evertick.executor import Attempt, Capabilities, Executor, Member
from evertick.executors.attempt_journal import NO_JOURNAL, FileAttemptJournal
from evertick.executors.function import Function
from evertick.executors.function_run import FunctionLogs
from evertick.executors.inprocess import InProcessExecutor
from evertick.executors.paths import state_folder
from evertick.library.location import InstanceSlot
from evertick.location import Location
from evertick.loop.effects import Effect
from evertick.loop.messages import DefinitionsChanged, Message
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.report import Report
from evertick.model.routing import LOCAL
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd
from evertick.node import Definitions, Node
from evertick.service import build_node
from evertick.settings import Settings
from evertick.store import Store
from evertick.wiring import Executors, executors_of

log = logging.getLogger("evertick.library")

STORED_SECONDS = 2.0
"""How often a node checks whether another process has added or changed jobs."""
STANDBY_SECONDS = 1.0
"""How often a standby checks whether the owner is gone."""
ABANDON_SECONDS = 6.0
"""What runs is given so long to end when patience is over; a process is ended by force before that."""
HURRY_SECONDS = 1.0


class NodeThread:
    """Started once and stopped once. `on_status` receives `standby`, `running` and `stopped`, in its thread."""

    def __init__(
        self,
        location: Location,
        jobs: Callable[[], Mapping[str, Job]],
        find: Callable[[str], Function | None],
        home: Callable[[], asyncio.AbstractEventLoop | None],
        *,
        settings: Settings,
        opener: Callable[[str], Store],
        on_fact: Callable[[Fact | int, Instant], None],
        on_status: Callable[[str], None],
        refresh_jobs: Callable[[], None],
        name: str | None = None,
        is_standby_welcome: bool = False,
        running_max: int = 100,
    ) -> None:
        self.pid = os.getpid()
        self._location, self._code_jobs, self._settings = location, jobs, settings
        self._opener, self._on_fact, self._on_status = opener, on_fact, on_status
        self._refresh_jobs = refresh_jobs
        self._is_standby_welcome = is_standby_welcome
        self._slot = InstanceSlot.take(location, name)
        self._find = find
        self._home, self._running_max = home, running_max
        self._functions: InProcessExecutor | None = None
        self._watch = FolderWatch(location.folder, settings, on_notice=_warn) if location.folder is not None else None
        self._node: Node | None = None
        self._stopping = threading.Event()
        self._decided = threading.Event()
        """Whether it runs, stands by, or has failed is known."""
        self._thread = threading.Thread(target=self._run, name="evertick", daemon=True)
        self.status = "starting"
        self.failure: BaseException | None = None

    @property
    def node(self) -> str:
        return self._slot.node

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    # Life

    def start(self) -> None:
        """Returns when it runs or stands by; what prevents that is raised."""
        if self._watch is not None:
            self._watch.load()
            for error in self._watch.snapshot().all_errors():
                log.warning("definition.refused %s", error)
        self._thread.start()
        self._decided.wait()
        if self.failure is not None:
            self._thread.join()
            raise self.failure

    def stop(self, timeout: float) -> None:
        """Start nothing more and wait for what runs; what has not ended by then is ended, to be tried again later."""
        self._stopping.set()
        node, functions = self._node, self._functions
        if node is not None:
            node.shut_down(timeout + ABANDON_SECONDS + HURRY_SECONDS)
        self._thread.join(timeout)
        if self._thread.is_alive() and node is not None and functions is not None:
            if not functions.abandon(ABANDON_SECONDS):
                log.warning("functions.left_behind: threads cannot be ended; they continue until they return")
            node.shut_down(HURRY_SECONDS)
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def wait(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    def claim_now(self) -> None:
        if self._node is not None and self.status == "running":
            self._node.claim_now()

    def jobs(self) -> Mapping[str, Job]:
        """Those of the folder and those of code."""
        folder = self._watch.snapshot().jobs if self._watch is not None else {}
        return {**folder, **self._code_jobs()}

    def report_jobs(self, jobs: Sequence[Job], removed: Sequence[str] = ()) -> None:
        """The code has more jobs, or other ones."""
        if self._node is not None:
            self._node.inbox.report(DefinitionsChanged(tuple(jobs), tuple(removed), self._are_whole()))

    def _are_whole(self) -> bool:
        return self._watch is None or self._watch.snapshot().is_whole

    # In its thread

    def _run(self) -> None:
        watching: threading.Thread | None = None
        refreshing = threading.Thread(target=self._keep_refreshing, name="evertick-jobs", daemon=True)
        try:
            refreshing.start()
            if self._watch is not None:
                watching = threading.Thread(
                    target=self._watch.run, args=(self._changed,), name="evertick-watch", daemon=True
                )
                watching.start()
            while not self._stopping.is_set() and not self._serve():
                self._set("standby")
                self._stopping.wait(STANDBY_SECONDS)
        except BaseException as error:
            self.failure = error
            if self._decided.is_set():
                log.exception("scheduler.failed")
        finally:
            self._stopping.set()
            if self._watch is not None and watching is not None:
                self._watch.stop()
                watching.join()
            refreshing.join()
            self._slot.leave()
            self._set("stopped")

    def _keep_refreshing(self) -> None:
        """Learn of jobs that other processes store; in a process that alone has its ledger there are none."""
        while not self._location.is_in_process and not self._stopping.wait(STORED_SECONDS):
            if self.status != "running":
                continue
            try:
                self._refresh_jobs()
            except StoreError as error:  # the writer reports a ledger that is away
                log.debug("jobs.unread reason=%s", error)
            except Exception:
                log.exception("jobs.unread")

    def _serve(self) -> bool:
        """Schedule until `stop` is called; False when another process has the ledger, and this one may wait for it."""
        folder = self._slot.folder
        if folder is not None:
            state_folder(folder)
        journal = NO_JOURNAL if folder is None else FileAttemptJournal(folder / "functions.jsonl")
        self._functions = InProcessExecutor(
            self._find, self._home, running_max=self._running_max, journal=journal, logs=FunctionLogs(folder)
        )
        location = replace(self._location, state_folder=folder)
        found = executors_of(self._settings, location)
        # For the dispatcher one executor; a function is never launched by the other one.
        local = CompositeExecutor(
            self._functions, found.by_name.get(LOCAL), lambda job_id: self._find(job_id) is not None
        )
        node = self._node = build_node(
            self._settings,
            location,
            Definitions(self._first_jobs(), self._are_whole),
            executors=Executors({**found.by_name, LOCAL: local}, found.leased),
            name=self._slot.node,
            observe=self._see,
            opener=self._opener,
        )
        self._listen(node.observers.feed)
        node.observers.listen(self._hand_on_answers)
        if self._stopping.is_set():
            return True
        try:
            asyncio.run(_run_until_told(node, self._stopping))
        except SchedulerLockError:
            if self.status == "running" or not self._is_standby_welcome:
                raise
            self._node = None
            return False
        return True

    def _first_jobs(self) -> Callable[[], tuple[Job, ...]]:
        """Reads the stored jobs with the first question, which comes when this process has the lock.

        Not before it: a child of the process that has it must not use SQLite, of which a fork may have copied a mutex
        that a thread held.
        """
        is_read = False

        def jobs() -> tuple[Job, ...]:
            nonlocal is_read
            if not is_read:
                self._refresh_jobs()
                self._refuse_twins()
                is_read = True
            return tuple(self.jobs().values())

        return jobs

    def _see(self, _seen: Message | Effect) -> None:
        if self.status != "running":
            self._set("running")

    def _listen(self, feed: Feed) -> None:
        """Hand on what the ledger has, in the thread that publishes it: those who listen have queues of their own."""

        def hand_on() -> None:
            while events := cursor.take():
                for event in events:
                    self._on_fact(event.fact, event.at)

        cursor = feed.open_cursor(hand_on, 0)
        cursor.take()  # from now on it is woken

    def _hand_on_answers(self, facts: Sequence[Fact]) -> None:
        """Answers are not in the feed: they concern only the call that asked."""
        if isinstance(facts[0], Answered):
            self._on_fact(facts[0], time.time_ns() // 1_000)

    def _set(self, status: str) -> None:
        if status != self.status:
            self.status = status
            self._on_status(status)
        self._decided.set()

    # The folder

    def _changed(self, change: FolderChanged) -> None:
        code = self._code_jobs()
        twins = [job.id for job in change.jobs if job.id in code]
        for job_id in twins:
            log.warning("definition.refused %s", twin_error(change.folder.jobs[job_id], code[job_id]))
        for error in change.errors:
            log.warning("definition.refused %s", error)
        jobs = tuple(job for job in change.jobs if job.id not in code)
        self.report_jobs(jobs, [job_id for job_id in change.removed if job_id not in code])

    def _refuse_twins(self) -> None:
        if self._watch is None:
            return
        code, folder = self._code_jobs(), self._watch.snapshot().jobs
        for job_id in code:
            if job_id in folder:
                raise twin_error(folder[job_id], code[job_id])


def _warn(text: str) -> None:
    log.warning("watch.degraded %s", text)


def twin_error(file_job: Job, code_job: Job) -> DefinitionError:
    return DefinitionError(
        f"the job id '{code_job.id}' is defined in {code_job.file} and in {file_job.file}.",
        hint="Give one of them another name.",
        field="name",
    )


async def _run_until_told(node: Node, stopping: threading.Event) -> None:
    running = asyncio.create_task(node.run())
    await asyncio.sleep(0)
    if stopping.is_set():
        node.shut_down(0)  # it was called before the node ran
    await running


class CompositeExecutor:
    """To the dispatcher it is one executor; a job of code never reaches the other one."""

    name = "local"

    def __init__(self, functions: Executor, commands: Executor | None, is_function: Callable[[str], bool]) -> None:
        self._functions, self._commands, self._is_function = functions, commands, is_function

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(sub_runs=self, lanes=self)

    def open(self, report: Callable[[Report], None]) -> None:
        for executor in self._both():
            executor.open(report)

    def launch(self, attempt: Attempt) -> None:
        self._of(attempt.key).launch(attempt)

    def stop(self, key: RunKey, attempt: int, detail: str) -> None:
        self._of(key).stop(key, attempt, detail)

    def reconcile(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for executor in self._both():
            mine = [(key, attempt) for key, attempt in runs if self._of(key) is executor]
            if mine:
                executor.reconcile(mine)

    def sub_run_ended(self, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        listener = self._of(key).capabilities.sub_runs
        if listener is not None:
            listener.sub_run_ended(key, attempt, step, number, end)

    def members(self) -> Sequence[Member]:
        return [member for executor in self._both() for member in executor.members()]

    def lanes(self) -> Mapping[str, Mapping[str, int]]:
        lanes = None if self._commands is None else self._commands.capabilities.lanes
        return {} if lanes is None else lanes.lanes()

    def close(self) -> None:
        for executor in self._both():
            executor.close()

    def _both(self) -> tuple[Executor, ...]:
        return (self._functions,) if self._commands is None else (self._functions, self._commands)

    def _of(self, key: RunKey) -> Executor:
        return self._functions if self._commands is None or self._is_function(key.job_id) else self._commands

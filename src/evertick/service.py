"""A scheduler put together: settings in, a running node out. The only place that picks stores and executors."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from evertick.definitions.cache import FILE_NAME as DEFINITION_CACHE
from evertick.definitions.watch import FolderChanged, FolderWatch
from evertick.dispatch.child_service import ChildService, module_command
from evertick.dispatch.clock import Clock, SystemClock
from evertick.dispatch.control import SOCKET as CONTROL_SOCKET
from evertick.dispatch.control import Control
from evertick.dispatch.dispatcher import Dispatcher
from evertick.dispatch.feed import SIZE as FEED_SIZE
from evertick.dispatch.folder_owner import folder_identity, own_folder
from evertick.dispatch.inbox import Inbox
from evertick.dispatch.integrity import IntegrityCheck
from evertick.dispatch.leadership import LEASE_US, Leadership
from evertick.dispatch.log_copier import LogCopier
from evertick.dispatch.log_retention import LogRetention
from evertick.dispatch.lookup import read_gained
from evertick.dispatch.maintenance import BACKUPS_US, RETENTION_US, Maintenance, find_next_runs
from evertick.dispatch.notify.config import NO_NOTIFICATIONS, NotifyConfig, telling_of
from evertick.dispatch.observers import Observers
from evertick.dispatch.request_listener import RequestListener
from evertick.dispatch.runs_lease import LEASE_US as RUNS_LEASE_US
from evertick.dispatch.runs_lease import RETURN_US, RunsLease
from evertick.dispatch.systemd import ServiceManager
from evertick.dispatch.writer import Ask, Writer
from evertick.errors import SchedulerLockError, SettingsError
from evertick.executor import Executor, LeasedExecutor
from evertick.executors.keeper.procfs import boottime_us
from evertick.executors.log_store import LogStore, LogUploads
from evertick.executors.logs import Logs
from evertick.executors.paths import state_folder
from evertick.loop.effects import Effect
from evertick.loop.messages import DefinitionsChanged, DefinitionsResynced, Message, NodesSeen
from evertick.loop.settings import LoopSettings
from evertick.loop.state import State
from evertick.model.bucket import BUCKETS
from evertick.model.duration import format_duration
from evertick.model.instant import DAY, MILLISECOND, SECOND, Instant
from evertick.model.job import Job
from evertick.model.ledger import NODE_PREFIX, bucket_lease
from evertick.model.run import RunKey
from evertick.operations.submission import forwarded_reports, messages_of
from evertick.settings import Settings
from evertick.settings.parts import STATE_FOLDER
from evertick.settings.state_pointer import FleetPlace, note_place
from evertick.store import Ledger, NextRunFiles, Store
from evertick.stores import lock_path, open_store
from evertick.stores.lock import HEARTBEAT_US, FolderLock
from evertick.wiring import executors_of, loop_settings

__all__ = ["ChildService", "FolderService", "Service", "module_command"]

log = logging.getLogger("evertick")

PATIENCE_SECONDS = 30.0
CLAIM_MAX = 200
CLAIM_SECONDS = 1.0
MAINTENANCE_SECONDS = 600.0
SHOW_SECONDS = 5.0
"""How often the files for people learn when pipelines are due next."""
ERRORS_TOLD = 20
"""Of one look at the folder: a bad checkout may be wrong in thousands of files."""
SOON_US = 20 * MILLISECOND
"""Whoever begins something so shortly before the loop's next turn is still at it when jobs are due."""
FOR_EVER_US = 36_500 * DAY


class Attachment(Protocol):
    """Something that lives beside the loop as long as it turns. Neither verb raises for what the world does."""

    def start(self) -> object: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """What outlives this process on its machine."""

    folder: Path
    """Where what is known of it lies; nothing is known of what ran with another folder."""
    executors: Sequence[LeasedExecutor]
    lease_us: int = RUNS_LEASE_US
    return_us: int = RETURN_US


class Service:
    """One node: it owns all jobs of a store of its own, or its share of a store it has in common with others."""

    def __init__(
        self,
        store_url: str,
        definitions: Callable[[], Sequence[Job]],
        executors: Mapping[str, Executor],
        *,
        node: str,
        are_whole: Callable[[], bool] = lambda: True,
        settings: LoopSettings | None = None,
        clock: Clock | None = None,
        lease_us: int = LEASE_US,
        retention_us: int | None = RETENTION_US,
        backups_us: int = BACKUPS_US,
        observe: Callable[[Message | Effect], None] | None = None,
        telling: NotifyConfig = NO_NOTIFICATIONS,
        opener: Callable[[str], Store] = open_store,
        feed_size: int = FEED_SIZE,
        kept_runs: KeptRuns | None = None,
    ) -> None:
        self._store_url = store_url
        self._kept_runs = kept_runs
        self._opener = opener
        self._definitions, self._are_whole = definitions, are_whole
        self._clock = clock or SystemClock()
        self._lease_us = lease_us
        self._retention_us, self._backups_us = retention_us, backups_us
        self.node = node
        self.incarnation = secrets.token_hex(4)
        self.state = State(settings or LoopSettings(), node, self.incarnation, self._clock.now())
        self.inbox = Inbox()
        self._executors = executors
        self._observe = observe
        self.observers = Observers(self.state, self.inbox, self._clock, executors, telling, feed_size)
        self.attachments: list[Attachment] = []
        """Started when the ledger is open and the loop is about to turn, and stopped in the opposite order."""
        self._lock: FolderLock | None = None
        self._stores: list[Store] = []
        self._leadership: Leadership | None = None
        self._is_claiming = False
        self.dispatcher: Dispatcher | None = None
        self._writer: Writer | None = None

    async def run(self, stop_timeout: float = 30.0) -> None:
        """Schedule until `shut_down`; whatever was decided is in the ledger before this returns."""
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise
        assert self.dispatcher is not None
        assert self._writer is not None
        self.observers.start(self.dispatcher, self._writer)
        capabilities = self.store.capabilities
        if capabilities.announcements is not None:
            self.attachments.insert(0, RequestListener(capabilities.announcements, self.claim_now))
        if capabilities.integrity_checks is not None:
            integrity = IntegrityCheck(capabilities.integrity_checks, self._clock, self.observers.tell_of_damage)
            self.observers.status.extra["integrity"] = integrity.status
            self.attachments.insert(0, integrity)
        tasks = (self._claim, self._keep_lock, self._maintain, self._show_next)
        helpers = [asyncio.create_task(task()) for task in tasks]
        try:
            for attachment in self.attachments:
                attachment.start()
            await self.dispatcher.run()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await asyncio.to_thread(self._close, stop_timeout)

    def shut_down(self, patience_seconds: float = PATIENCE_SECONDS, *, ends_runs: bool = False) -> None:
        """Start nothing more; runs that have not ended by then go on and are found by the next one, or are ended."""
        if self.dispatcher is not None:
            self.dispatcher.shut_down(patience_seconds, ends_runs=ends_runs)

    def seconds_since_turn(self) -> float:
        """Since the loop last ended an iteration; from any thread."""
        if self.dispatcher is None:
            return 0.0
        return (self._clock.monotonic_us() - self.dispatcher.turned_at_us) / SECOND

    def is_firing(self) -> bool:
        """Whether the loop is at work, waits for the ledger to start something, or is about to; from any thread."""
        if self.dispatcher is None:
            return False
        return bool(self.state.batches) or self.dispatcher.turns_at_us < self._clock.monotonic_us() + SOON_US

    def _open(self) -> None:
        path = lock_path(self._store_url)
        if path is not None:
            self._lock = FolderLock(path).acquire(self._clock.now())
        store = self._open_store()
        is_shared = self._lock is None and not self._store_url.startswith("memory:")
        runs = self._hold_runs() if is_shared else None
        self._writer = Writer(store, self.inbox.report, self._confirm if runs is not None else None)
        self.dispatcher = Dispatcher(
            self.state,
            self.inbox,
            self._writer,
            self._executors,
            self._clock,
            resync=self.resync,
            release=self._released,
            read_reports=forwarded_reports,
            observe=self._look_on,
        )
        self.resync()
        if is_shared:
            holder = f"{self.node}/{self.incarnation}"
            self._leadership = Leadership(
                self._open_store(), holder, self._clock, self.inbox.report, self._lease_us, self.dispatcher.abort, runs
            )
            self._leadership.start()
        else:
            self.inbox.report(NodesSeen(frozenset({self.node})))
            self.inbox.report(self._own_everything(store))
        self._writer.start()

    def _hold_runs(self) -> RunsLease | None:
        """On a ledger that others share: what runs here lives by a lease, so that they know when it is over."""
        kept = self._kept_runs
        if kept is None:
            return None
        identity = folder_identity(kept.folder, self._clock.now())
        self.state.holds_runs, self.state.remembers_since = True, identity.made_at
        for executor in kept.executors:
            executor.live_by_lease()
        return RunsLease(self.node, identity.name, kept.executors, boottime_us, kept.lease_us, kept.return_us)

    def _confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        assert self._kept_runs is not None
        for executor in self._kept_runs.executors:
            executor.confirm(runs)

    @property
    def store(self) -> Store:
        """The ledger that the loop writes to, once it is open; for a ledger that only one process can open."""
        return self._stores[0]

    def _open_store(self) -> Store:
        store = self._opener(self._store_url)
        self._stores.append(store)
        return store

    def _look_on(self, seen: Message | Effect) -> None:
        self.observers(seen)
        if self._observe is not None:
            self._observe(seen)

    def resync(self) -> None:
        """Tell the loop all the definitions there are."""
        self.inbox.report(DefinitionsResynced(self._definitions(), self._are_whole()))

    def _released(self, buckets: Sequence[int]) -> None:
        if self._leadership is not None:
            self._leadership.released(buckets)

    def _own_everything(self, store: Ledger) -> Message:
        """The lock says that nobody else is here: take all buckets, under new epochs, without end."""
        names = [NODE_PREFIX + self.node, *map(bucket_lease, range(BUCKETS))]
        now = self._clock.now()
        # Whoever is named in them is not here: the lock says so. They may have been another name's.
        for holder in {lease.holder for lease in store.lease((), self.node, 0, now)} | {self.node}:
            store.lease(names, holder, 0, now)
        leases = store.lease(names, self.node, FOR_EVER_US, now)
        bucket_of_lease = {bucket_lease(bucket): bucket for bucket in range(BUCKETS)}
        epochs = {bucket_of_lease[lease.name]: lease.epoch for lease in leases if lease.name in bucket_of_lease}
        return read_gained(store, epochs)

    async def _claim(self) -> None:
        """Bring durable requests to the loop."""
        assert self._writer is not None
        while True:
            await asyncio.sleep(CLAIM_SECONDS)
            self.claim_now()

    def claim_now(self) -> None:
        """Look for requests without waiting for the next time; from any thread."""
        if self.state.epochs and not self._is_claiming and self._writer is not None:
            self._is_claiming = True
            self._writer.write(Ask(self._claimed))

    def _claimed(self, store: Ledger) -> Sequence[Message]:
        self._is_claiming = False  # before it is read: whoever asks meanwhile is not in it
        owned = tuple(self.state.epochs)
        return messages_of(store, store.claim(owned if len(owned) < BUCKETS else None, CLAIM_MAX))

    async def _maintain(self) -> None:
        assert self._writer is not None
        backups = self.store.capabilities.backups
        maintenance = Maintenance(self._clock, self._retention_us, self._backups_us, self._histories, backups)
        while True:
            self._writer.write(Ask(maintenance))
            await asyncio.sleep(CLAIM_SECONDS if maintenance.has_more else MAINTENANCE_SECONDS)

    def _histories(self) -> dict[str, int]:
        kept = ((job.id, job.history_retention_us) for job in self._definitions())
        return {job_id: kept_us for job_id, kept_us in kept if kept_us is not None}

    async def _show_next(self) -> None:
        """For a store with files beside its pipelines, which say when those are due next."""
        assert self._writer is not None
        files = self.store.capabilities.next_run_files
        while files is not None:
            due = find_next_runs(self.state, self._clock.now())
            self._writer.write(Ask(partial(self._write_next_runs, files, due)))
            await asyncio.sleep(SHOW_SECONDS)

    def _write_next_runs(self, files: NextRunFiles, due: Mapping[str, Instant], _ledger: Ledger) -> Sequence[Message]:
        """In the writer's thread, like everything that writes to the store."""
        files.show_next_runs(self._clock.now(), due)
        return ()

    async def _keep_lock(self) -> None:
        while self._lock is not None:
            await asyncio.sleep(HEARTBEAT_US / SECOND)
            try:
                await asyncio.to_thread(self._lock.heartbeat, self._clock.now())
            except SchedulerLockError as error:
                log.error("lock.%s reason=%s", "unwritten" if self._lock.is_held else "lost", error)
                if not self._lock.is_held:
                    assert self.dispatcher is not None
                    self.dispatcher.abort(error)  # another process schedules these jobs by now
                    return

    def _close(self, timeout: float) -> None:
        assert self._writer is not None
        try:
            if not self._writer.stop(timeout):
                log.warning("service.stopped_with_unwritten_changes")
            if self._leadership is not None:
                self._leadership.halt()  # while executors can still be told how long they are to go on
            for executor in self._executors.values():
                executor.close()
            if self._leadership is not None:
                self._leadership.release()
        finally:
            # What the ledger took last is told too, though the loop no longer asks.
            for message in self.inbox.drain():
                self.observers(message)
            for attachment in reversed(self.attachments):
                attachment.stop()
            # Only now: an attachment may have used the ledger.
            self._let_go()
            self.observers.stop()

    def _let_go(self) -> None:
        """Also of what a start that failed half-way had taken: the process may live on, and would seem to own it."""
        for store in self._stores:
            store.close()
        if self._lock is not None:
            self._lock.release()


def kept_runs(settings: Settings, folder: Path, executors: Mapping[str, Executor]) -> KeptRuns:
    """What goes on here without the scheduler, and for how long it is left alone."""
    if settings.local.lease_us < 2 * settings.loop.lease_us:
        raise SettingsError(
            f"'local.lease' is {format_duration(settings.local.lease_us)}; it must be at least twice 'loop.lease' "
            f"({format_duration(settings.loop.lease_us)}), or runs would end before a node is known to be gone."
        )
    leased = [executor for executor in executors.values() if isinstance(executor, LeasedExecutor)]
    return KeptRuns(folder, leased, settings.local.lease_us, settings.stop.return_us)


class FolderService:
    """A node for a folder of job files, with runs on this machine: what `evertick serve` is."""

    def __init__(
        self,
        folder: Path,
        settings: Settings | None = None,
        *,
        observe: Callable[[Message | Effect], None] | None = None,
    ) -> None:
        self.folder = folder
        self.settings = settings = settings or Settings.load(folder)
        self.state_folder = settings.state_folder(folder)
        self.store_url = settings.store or f"sqlite:///{(self.state_folder / 'ledger.db').absolute()}"
        self.watch = FolderWatch(
            folder,
            settings,
            on_notice=lambda text: log.warning("watch.degraded %s", text),
            cache=self.state_folder / DEFINITION_CACHE,
            keeps_cache=True,
        )
        executors = executors_of(settings, self.state_folder, lock_path(self.store_url))
        self.service = Service(
            self.store_url,
            lambda: tuple(self.watch.snapshot().jobs.values()),
            executors,
            node=settings.node or socket.gethostname(),
            are_whole=lambda: self.watch.snapshot().is_whole,
            settings=loop_settings(settings),
            lease_us=settings.loop.lease_us,
            retention_us=settings.retention.history_us,
            backups_us=settings.retention.backups_us,
            observe=observe,
            telling=telling_of(settings, os.environ),
            feed_size=settings.limits.feed,
            kept_runs=kept_runs(settings, self.state_folder, executors),
        )
        observers = self.service.observers
        self.control = Control(
            self.state_folder / CONTROL_SOCKET,
            observers.status,
            observers.feed,
            settings.limits.clients,
            self.service.claim_now,
        )
        observers.status.extra["control"] = lambda: self.control.counts
        observers.status.extra["folder_watch"] = lambda: self.watch.state._asdict()
        log_retention = LogRetention(
            Logs(self.state_folder).prune_logs,
            lambda: self.watch.snapshot().jobs.values(),
            SystemClock(),
            settings.retention.logs_us,
        )
        if settings.logs.store:
            copier = LogCopier(LogUploads(self.state_folder, LogStore(settings.logs.store).check()))
            self.service.observers.listen(copier)
            self.service.attachments.append(copier)
        self.manager = ServiceManager(self.service.seconds_since_turn)
        self.service.attachments += [self.control, log_retention, self.manager]

    async def run(self) -> None:
        with own_folder(state_folder(self.state_folder)):
            own = self.folder / STATE_FOLDER
            if not note_place(
                self.folder, self.state_folder, self.settings.store or "", own, fleet=self._fleet_place()
            ):
                log.warning("state.unannounced folder=%s state=%s", self.folder, self.state_folder)
            await self._run()

    def _fleet_place(self) -> FleetPlace | None:
        part = self.settings.fleet
        files = (
            "" if path is None else str(Path(path).absolute()) for path in (part.tls_ca, part.tls_cert, part.tls_key)
        )
        return FleetPlace(part.url, *files) if part.url else None

    async def _run(self) -> None:
        self.watch.load()
        _calm_the_collector()
        watching = threading.Thread(target=self.watch.run, args=(self._changed,), name="evertick-watch", daemon=True)
        watching.start()
        try:
            await self.service.run()
        finally:
            self.watch.stop()
            watching.join()

    def accompany(self, child: ChildService) -> None:
        """Let a process live beside the scheduler, from when it is up until it has stopped."""
        self.service.observers.status.extra[child.name] = lambda: child.state
        self.attach(child)

    def attach(self, attachment: Attachment) -> None:
        # Before the manager, who is told last that everything is there.
        self.service.attachments.insert(-1, attachment)

    def shut_down(self, patience_seconds: float = PATIENCE_SECONDS, *, ends_runs: bool = False) -> None:
        self.manager.leaving()
        self.service.shut_down(patience_seconds, ends_runs=ends_runs)

    def _changed(self, change: FolderChanged) -> None:
        for error in change.errors[:ERRORS_TOLD]:
            log.warning("definition.refused %s", error)
        if len(change.errors) > ERRORS_TOLD:
            log.warning("definition.refused and %d more", len(change.errors) - ERRORS_TOLD)
        self.service.inbox.report(DefinitionsChanged(change.jobs, change.removed, change.folder.is_whole))


def _calm_the_collector() -> None:
    """Definitions and code stay: looking through them again and again would cost a third of a storm's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)

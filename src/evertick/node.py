"""One running node: it opens the ledger, owns its jobs or a share of them, and runs the loop until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from evertick.dispatch.clock import Clock, SystemClock
from evertick.dispatch.dispatcher import Dispatcher
from evertick.dispatch.folder_owner import folder_identity
from evertick.dispatch.inbox import Inbox
from evertick.dispatch.integrity import IntegrityCheck
from evertick.dispatch.leadership import Leadership
from evertick.dispatch.lookup import BlackoutReader, read_gained
from evertick.dispatch.maintenance import Maintenance, find_next_runs
from evertick.dispatch.notify.config import notify_config
from evertick.dispatch.observers import Observers
from evertick.dispatch.requests import RequestListener, RequestPoller
from evertick.dispatch.runs_lease import RunsLease
from evertick.dispatch.writer import Ask, Writer
from evertick.errors import SchedulerLockError, SettingsError
from evertick.executors.keeper.procfs import boottime_us
from evertick.location import Location
from evertick.loop.effects import Effect
from evertick.loop.messages import DefinitionsResynced, Message, NodesSeen
from evertick.loop.state import State
from evertick.model.duration import format_duration
from evertick.model.instant import DAY, MILLISECOND, SECOND, Instant
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS, NODE_PREFIX, bucket_lease
from evertick.model.run import RunKey
from evertick.operations.requests import forwarded_reports, messages_of
from evertick.settings import Settings
from evertick.store import Ledger, NextRunFiles, Store
from evertick.stores import open_store
from evertick.stores.lock import HEARTBEAT_US, FolderLock
from evertick.wiring import Executors

log = logging.getLogger("evertick")

PATIENCE_SECONDS = 30.0
MAINTENANCE_SECONDS = 600.0
MORE_MAINTENANCE_SECONDS = 1.0
SHOW_SECONDS = 5.0
"""How often the files for people learn when pipelines are due next."""
SOON_US = 20 * MILLISECOND
"""What begins so shortly before the loop's next turn is still running when jobs are due."""
FOR_EVER_US = 36_500 * DAY


class Attachment(Protocol):
    """Something that lives beside the loop as long as it turns. Neither verb raises for what the world does."""

    def start(self) -> object: ...
    def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Definitions:
    """Where a node reads its jobs, whenever it has to know all of them; called from any thread."""

    jobs: Callable[[], Sequence[Job]]
    are_whole: Callable[[], bool] = lambda: True
    """Whether each source of jobs could be read: what is missing from one that could not is not deleted."""


class Node:
    """It owns all jobs of a ledger of its own, or its share of the jobs of a ledger that other nodes use too."""

    def __init__(
        self,
        location: Location,
        definitions: Definitions,
        executors: Executors,
        *,
        name: str,
        settings: Settings | None = None,
        clock: Clock | None = None,
        observe: Callable[[Message | Effect], None] | None = None,
        opener: Callable[[str], Store] = open_store,
    ) -> None:
        self._settings = settings = settings or Settings()
        self.location = location
        self.name = name
        self._opener = opener
        self._definitions = definitions
        self._clock = clock or SystemClock()
        self._executors, self._leased = executors.by_name, executors.leased
        if self._leased:
            _require_longer_lease(settings)
        self._observe = observe
        self.incarnation = secrets.token_hex(4)
        self.state = State(replace(settings.loop, queues=settings.queues), name, self.incarnation, self._clock.now())
        self.inbox = Inbox()
        self.observers = Observers(
            self.state,
            self.inbox,
            self._clock,
            self._executors,
            notify_config(settings, os.environ),
            settings.limits.feed,
        )
        self.attachments: list[Attachment] = []
        """Started when the ledger is open and the loop is about to turn, and stopped in the opposite order."""
        self._lock: FolderLock | None = None
        self._stores: list[Store] = []
        self._leadership: Leadership | None = None
        self._requests: RequestPoller | None = None
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
        assert self._requests is not None
        self.observers.start(self.dispatcher, self._writer)
        capabilities = self.store.capabilities
        if capabilities.announcements is not None:
            self.attachments.insert(0, RequestListener(capabilities.announcements, self.claim_now))
        if capabilities.integrity_checks is not None:
            integrity = IntegrityCheck(capabilities.integrity_checks, self._clock, self.observers.report_damage)
            self.observers.status.extra["integrity"] = integrity.status
            self.attachments.insert(0, integrity)
        tasks = (self._keep_lock, self._maintain, self._show_next)
        helpers = [asyncio.create_task(task()) for task in tasks]
        for helper in helpers:
            helper.add_done_callback(self._helper_ended)
        try:
            for attachment in self.attachments:
                attachment.start()
            await self.dispatcher.run()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await asyncio.to_thread(self._close, stop_timeout)

    def _helper_ended(self, helper: asyncio.Task[None]) -> None:
        """Stop when one of them has failed: without it, requests would wait forever, or the lock seem abandoned."""
        error = None if helper.cancelled() else helper.exception()
        if isinstance(error, Exception):
            assert self.dispatcher is not None
            self.dispatcher.abort(error)

    def shut_down(self, patience_seconds: float = PATIENCE_SECONDS, *, ends_runs: bool = False) -> None:
        """Start nothing more; runs that have not ended by then continue for the next process, or are stopped."""
        if self.dispatcher is not None:
            self.dispatcher.shut_down(patience_seconds, ends_runs=ends_runs)

    def seconds_since_turn(self) -> float:
        """Since the loop last ended an iteration; from any thread."""
        if self.dispatcher is None:
            return 0.0
        return (self._clock.monotonic_us() - self.dispatcher.turned_at_us) / SECOND

    def is_firing(self) -> bool:
        """Whether the loop is working, waits for the ledger to start something, or is about to; from any thread."""
        if self.dispatcher is None:
            return False
        return bool(self.state.batches) or self.dispatcher.turns_at_us < self._clock.monotonic_us() + SOON_US

    def _open(self) -> None:
        path = self.location.lock_path
        if path is not None:
            self._lock = FolderLock(path).acquire(self._clock.now())
        store = self._open_store()
        is_shared = self.location.is_shared
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
            turned=self._turned,
            observe=self._look_on,
        )
        blackouts = BlackoutReader()
        self._requests = RequestPoller(
            self._writer.write,
            lambda: tuple(self.state.epochs),
            lambda ledger, found: (*blackouts.read(ledger), *messages_of(ledger, found)),
            store.capabilities.change_stamps,
        )
        for message in blackouts.read(store):  # before anything is planned
            self.inbox.report(message)
        self.resync()
        if is_shared:
            self._leadership = Leadership(
                self._open_store(),
                f"{self.name}/{self.incarnation}",
                self._clock,
                self.inbox.report,
                self._settings.loop.lease_us,
                self.dispatcher.abort,
                runs,
            )
            self._leadership.start()
        else:
            self.inbox.report(NodesSeen(frozenset({self.name})))
            self.inbox.report(self._own_everything(store))
        self._writer.start()

    def _hold_runs(self) -> RunsLease | None:
        """On a ledger that others share: what runs here lives by a lease, so that they know when it is over."""
        folder = self.location.state_folder
        if folder is None or not self._leased:
            return None
        identity = folder_identity(folder, self._clock.now())
        self.state.holds_runs, self.state.remembers_since = True, identity.made_at
        for executor in self._leased:
            executor.live_by_lease()
        lease_us, return_us = self._settings.local.lease_us, self._settings.stop.return_us
        return RunsLease(self.name, identity.name, self._leased, boottime_us, lease_us, return_us)

    def _confirm(self, runs: Sequence[tuple[RunKey, int]]) -> None:
        for executor in self._leased:
            executor.confirm(runs)

    @property
    def store(self) -> Store:
        """The ledger that the loop writes to, once it is open; for a ledger that only one process can open."""
        return self._stores[0]

    def _open_store(self) -> Store:
        store = self._opener(self.location.store_url)
        self._stores.append(store)
        return store

    def _look_on(self, seen: Sequence[Message | Effect]) -> None:
        self.observers(seen)
        if self._observe is None:
            return
        for one in seen:
            try:
                self._observe(one)
            except Exception:
                log.exception("observer.raised")

    def resync(self) -> None:
        """Tell the loop all the definitions there are."""
        self.inbox.report(DefinitionsResynced(self._definitions.jobs(), self._definitions.are_whole()))

    def _released(self, buckets: Sequence[int]) -> None:
        if self._leadership is not None:
            self._leadership.released(buckets)

    def _own_everything(self, store: Ledger) -> Message:
        """The lock excludes other nodes: take all buckets, under new epochs, without end."""
        names = [NODE_PREFIX + self.name, *map(bucket_lease, range(BUCKETS))]
        now = self._clock.now()
        # The holders of these leases are gone: this node has the lock. They may have had other names.
        for holder in {lease.holder for lease in store.lease((), self.name, 0, now)} | {self.name}:
            store.lease(names, holder, 0, now)
        leases = store.lease(names, self.name, FOR_EVER_US, now)
        bucket_of_lease = {bucket_lease(bucket): bucket for bucket in range(BUCKETS)}
        epochs = {bucket_of_lease[lease.name]: lease.epoch for lease in leases if lease.name in bucket_of_lease}
        return read_gained(store, epochs)

    def claim_now(self) -> None:
        """Look for requests without waiting for the next poll; from any thread."""
        if self._requests is not None:
            self._requests.poll()

    def _turned(self, at_us: int) -> None:
        assert self._requests is not None
        self._requests.turned(at_us)

    async def _maintain(self) -> None:
        assert self._writer is not None
        backups = self.store.capabilities.backups
        maintenance = Maintenance(self._clock, self._settings.retention, self._histories, backups)
        while True:
            self._writer.write(Ask(maintenance))
            await asyncio.sleep(MORE_MAINTENANCE_SECONDS if maintenance.has_more else MAINTENANCE_SECONDS)

    def _histories(self) -> dict[str, int]:
        kept = ((job.id, job.history_retention_us) for job in self._definitions.jobs())
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
                self._leadership.halt()  # while executors can still receive how long to continue
            for executor in self._executors.values():
                executor.close()
            if self._leadership is not None:
                self._leadership.release()
        finally:
            # Publish what the ledger took last too, although the loop no longer reads the inbox.
            self.observers(self.inbox.drain())
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


def _require_longer_lease(settings: Settings) -> None:
    if settings.local.lease_us < 2 * settings.loop.lease_us:
        raise SettingsError(
            f"'local.lease' is {format_duration(settings.local.lease_us)}; it must be at least twice 'loop.lease' "
            f"({format_duration(settings.loop.lease_us)}), or runs would end before a node is known to be gone."
        )

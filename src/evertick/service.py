"""Puts nodes together: the only place that picks their stores, executors and attachments."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from evertick.definitions.cache import FILE_NAME as DEFINITION_CACHE
from evertick.definitions.watch import FolderChanged, FolderWatch
from evertick.dispatch.child_service import ChildService, module_command
from evertick.dispatch.clock import SystemClock
from evertick.dispatch.control import Control
from evertick.dispatch.control_client import SOCKET
from evertick.dispatch.folder_owner import own_folder
from evertick.dispatch.log_copier import LogCopier
from evertick.dispatch.log_retention import LogRetention
from evertick.dispatch.systemd import ServiceManager
from evertick.executors.log_store import LogStore, LogUploads
from evertick.executors.logs import Logs
from evertick.executors.paths import state_folder
from evertick.location import Location, locate
from evertick.long_lived import collect_young, tune_collector
from evertick.loop.effects import Effect
from evertick.loop.messages import DefinitionsChanged, Message
from evertick.model.job import Job
from evertick.node import PATIENCE_SECONDS, Attachment, Definitions, Node
from evertick.settings import Settings
from evertick.settings.blackouts import unknown_names
from evertick.settings.parts import STATE_FOLDER
from evertick.settings.state_pointer import FleetPlace, note_place
from evertick.store import Store
from evertick.stores import open_store
from evertick.wiring import Executors, executors_of

__all__ = ["ChildService", "FolderService", "build_node", "module_command"]

COLLECT_SECONDS = 60.0

log = logging.getLogger("evertick")

ERRORS_MAX = 20
"""Logged of one change of the folder: a bad checkout may be wrong in thousands of files."""


def build_node(
    settings: Settings,
    location: Location,
    definitions: Definitions,
    *,
    executors: Executors | None = None,
    name: str = "",
    observe: Callable[[Message | Effect], None] | None = None,
    opener: Callable[[str], Store] = open_store,
) -> Node:
    """A node that is ready to run, for `serve`, for programs and for a single run.

    `executors` is given where they are others than those of the settings. With a state folder the node has a control
    socket, and looks after the logs in it.
    """
    if executors is None:
        executors = executors_of(settings, location)
    name = name or settings.node or socket.gethostname()
    node = Node(location, definitions, executors, name=name, settings=settings, observe=observe, opener=opener)
    folder = location.state_folder
    if folder is None:
        return node
    observers = node.observers
    if settings.logs.store:
        copier = LogCopier(LogUploads(folder, LogStore(settings.logs.store).check()))
        observers.listen(copier)
        node.attachments.append(copier)
    control = Control(folder / SOCKET, observers.status, observers.feed, settings.limits.clients, node.claim_now)
    observers.status.extra["control"] = lambda: control.counts
    retention = LogRetention(Logs(folder).prune_logs, definitions.jobs, SystemClock(), settings.retention.logs_us)
    node.attachments += [control, retention]
    return node


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
        self.location = locate(settings, folder)
        self.watch = FolderWatch(
            folder,
            settings,
            on_notice=lambda text: log.warning("watch.degraded %s", text),
            cache=self.state_folder / DEFINITION_CACHE,
            keeps_cache=True,
        )
        definitions = Definitions(
            lambda: tuple(self.watch.snapshot().jobs.values()), lambda: self.watch.snapshot().is_whole
        )
        self.node = build_node(settings, self.location, definitions, observe=observe)
        self.node.observers.status.extra["folder_watch"] = lambda: self.watch.state._asdict()
        self.manager = ServiceManager(self.node.seconds_since_turn)
        self.node.attachments.append(self.manager)

    @property
    def state_folder(self) -> Path:
        assert self.location.state_folder is not None, "a folder has a state folder"
        return self.location.state_folder

    @property
    def store_url(self) -> str:
        return self.location.store_url

    async def run(self) -> None:
        with own_folder(state_folder(self.state_folder)):
            own, store = self.folder / STATE_FOLDER, self.settings.store or ""
            if not note_place(self.folder, self.state_folder, store, own, fleet=self._fleet_place()):
                log.warning("state.unannounced folder=%s state=%s", self.folder, self.state_folder)
            await self._run()

    def _fleet_place(self) -> FleetPlace | None:
        part = self.settings.fleet
        files = (
            "" if path is None else str(Path(path).absolute()) for path in (part.tls_ca, part.tls_cert, part.tls_key)
        )
        return FleetPlace(part.url, *files) if part.url else None

    async def _run(self) -> None:
        self._warn_of_blackouts(self.watch.load().jobs)
        tune_collector()
        watching = threading.Thread(target=self.watch.run, args=(self._changed,), name="evertick-watch", daemon=True)
        watching.start()
        collecting = asyncio.create_task(_collect_each_minute())
        try:
            await self.node.run()
        finally:
            collecting.cancel()
            self.watch.stop()
            watching.join()

    def _warn_of_blackouts(self, jobs: Mapping[str, Job]) -> None:
        """A misspelled name would let jobs run in their maintenance."""
        settings, tags = self.settings, {job_id: job.tags for job_id, job in jobs.items()}
        for text in unknown_names(settings.blackouts, settings.timezone, tags, datetime.now(UTC)):
            log.warning("blackout.unknown %s", text)

    def add_child(self, child: ChildService) -> None:
        """Let a process live beside the scheduler, from when it is up until it has stopped."""
        self.node.observers.status.extra[child.name] = lambda: child.state
        self.attach(child)

    def attach(self, attachment: Attachment) -> None:
        # Before the service manager, which is notified last that everything has started.
        self.node.attachments.insert(-1, attachment)

    def shut_down(self, patience_seconds: float = PATIENCE_SECONDS, *, ends_runs: bool = False) -> None:
        self.manager.leaving()
        self.node.shut_down(patience_seconds, ends_runs=ends_runs)

    def _changed(self, change: FolderChanged) -> None:
        for error in change.errors[:ERRORS_MAX]:
            log.warning("definition.refused %s", error)
        if len(change.errors) > ERRORS_MAX:
            log.warning("definition.refused and %d more", len(change.errors) - ERRORS_MAX)
        self.node.inbox.report(DefinitionsChanged(change.jobs, change.removed, change.folder.is_whole))


async def _collect_each_minute() -> None:
    """In quiet times the collector would begin by itself after hours, and memory would grow until then."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        collect_young()

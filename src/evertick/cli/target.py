"""What a command works on: a folder of job files and its ledger, or a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from evertick.cli import times
from evertick.cli.output import counted, note

if TYPE_CHECKING:
    from evertick.client import Client
    from evertick.definitions.source import Folder
    from evertick.executors.logs import Logs
    from evertick.model.job import Job
    from evertick.model.plain_json import Json
    from evertick.operations.context import Live
    from evertick.operations.local import LocalOperations
    from evertick.operations.protocol import Operations
    from evertick.operations.run_logs import RunLogs
    from evertick.settings import Settings
    from evertick.store import Store

VIEW_KEPT_US = 2_000_000
"""How long a command uses what it has read about all jobs: the pages of a list are one view."""
UNREADABLE_NEXT = "run the command as that user or as root, or use --server with a token"


class FolderServer(NamedTuple):
    """The server that a folder's scheduler runs on this machine."""

    url: str
    token: str


@dataclass(frozen=True, slots=True)
class Target:
    folder: Path | None = None
    """Of job files; None where only a ledger or a server was named."""
    url: str | None = None
    """Of the ledger; None where there is none yet."""
    state: Path | None = None
    """The scheduler's state folder: logs, the socket, tokens."""
    server: str | None = None
    """The URL of a server to use instead of a ledger."""
    token_file: Path | None = None
    is_ledger_named: bool = False
    """Whether the user named the ledger: then the folder's server, which may have another, is not used."""
    unreadable: str = ""
    """Why this user cannot read the scheduler's state folder; empty if they can."""
    is_store_hidden: bool = False
    """Whether the ledger's URL holds a password, so that the scheduler has not recorded it."""
    keeps_cache: bool = True
    """Whether reading the job files may write what was parsed; not for a command that promises to change nothing."""
    _definitions: list[Folder] = field(default_factory=list, repr=False, compare=False)
    """The job files, once a command has read them."""

    @contextmanager
    def operations(
        self, *, may_be_new: bool = False, at: int | None = None, reads_ahead: bool = False
    ) -> Iterator[Operations]:
        """The operations on this target.

        `may_be_new`: the ledger need not exist yet; `at`: instead of now; `reads_ahead`: all pages of a list are read.
        """
        if self.server is not None:
            from evertick.client import Client

            with Client(self.server, token_file=self.token_file, reads_ahead=reads_ahead) as client:
                yield client
            return
        self._require_readable()
        # The scheduler's own server answers faster than this process can open the ledger, and has the live state.
        folder_client = self._folder_client(reads_ahead=reads_ahead) if at is None else None
        if folder_client is not None:
            with folder_client:
                yield folder_client
            return
        with self._local_operations(may_be_new=may_be_new, at=at) as operations:
            yield operations

    def _folder_client(self, *, reads_ahead: bool) -> Client | None:
        """A client of the folder's own server; None if none answers, and the ledger is read instead."""
        server = None if self.state is None or self.is_ledger_named else find_folder_server(self.state)
        if server is None:
            return None
        from evertick.client import Client
        from evertick.errors import EvertickError

        try:
            client = Client(server.url, server.token, reads_ahead=reads_ahead)
        except EvertickError:
            return None  # it listens on an address that a token must not reach unencrypted
        try:
            client.ping()
        except EvertickError:
            client.close()
            return None
        return client

    @contextmanager
    def _local_operations(self, *, may_be_new: bool, at: int | None) -> Iterator[LocalOperations]:
        from evertick.cli.requests import whoami
        from evertick.operations.local import LocalOperations

        settings = self.settings()
        with self.open_if_there() if may_be_new else self.open() as found, _or_nothing(found) as store:
            yield LocalOperations(
                store,
                self.definitions,
                now=times.now if at is None else lambda: at,
                logs=self._logs(store, settings),
                live=None if found is None else self._scheduler(),
                by=whoami(),
                is_scheduler_running=lambda: found is not None and self.is_anyone_running(store),
                keep_us=VIEW_KEPT_US,
                timezone=settings.timezone,
                declared_blackouts=(settings.origins.get("blackouts", "the settings"), settings.blackouts),
            )

    def _scheduler(self) -> Live | None:
        """The control socket of the folder's scheduler, unless the user named another ledger."""
        from evertick.operations.context import scheduler_at

        return None if self.state is None or self.is_ledger_named else scheduler_at(self.state)

    def settings(self) -> Settings:
        """The folder's settings, with the fleet that its scheduler was started with."""
        from dataclasses import replace

        from evertick.settings import Settings
        from evertick.settings.state_pointer import read_place

        found = Settings.load(self.folder)
        noted = read_place(self.state) if self.state is not None and not found.fleet.url else None
        if noted is None or noted.fleet is None:
            return found
        url, *files = noted.fleet
        ca, cert, key = (Path(file) if file else None for file in files)
        return replace(found, fleet=replace(found.fleet, url=url, tls_ca=ca, tls_cert=cert, tls_key=key))

    def scheduler_status(self) -> Mapping[str, Json] | None:
        """The status of the running scheduler; None if none answers."""
        scheduler = self._scheduler()
        return None if scheduler is None else scheduler.status()

    def definitions(self) -> Folder:
        """The current job files; those with an error are reported and left out."""
        if not self._definitions:
            self._definitions.append(self._load_definitions())
        return self._definitions[0]

    def _load_definitions(self) -> Folder:
        from evertick.definitions.cache import FILE_NAME as DEFINITION_CACHE
        from evertick.definitions.source import Folder, load_folder
        from evertick.settings import Settings

        if self.folder is None:
            return Folder()
        cache = self.state / DEFINITION_CACHE if self.state is not None else None
        keeps_cache = self.keeps_cache and cache is not None and self._may_keep_cache(cache)
        found = load_folder(self.folder, Settings.load(self.folder), cache=cache, keeps_cache=keeps_cache)
        if found.errors:
            wrong = f"{len(found.errors):,} of {counted(len(found.files), 'job file')}"
            note(f"Ignored {wrong} because of errors. Next: evertick validate {self.folder}")
        return found

    def _may_keep_cache(self, cache: Path) -> bool:
        """Whether this user owns the state folder and no scheduler runs, which may be another version."""
        try:
            return cache.parent.stat().st_uid == os.geteuid() and self.is_busy() is False
        except OSError:
            return False

    def jobs(self) -> Mapping[str, Job]:
        return self.definitions().jobs

    def job(self, job_id: str) -> Job:
        """The definition of a job."""
        from evertick.operations.submission import no_such_job

        self.require_folder()
        jobs = self.jobs()
        if job_id not in jobs:
            raise no_such_job(job_id, jobs)
        return jobs[job_id]

    def require_folder(self) -> None:
        """Raise unless the job files are known, here or to a server."""
        from evertick.errors import NotFound

        if self.folder is None and self.server is None:
            raise NotFound("this command needs the job files. Name their folder with --folder.")

    @contextmanager
    def open(self) -> Iterator[Store]:
        """The ledger, which must exist: a command that reads does not create one."""
        from evertick.errors import StoreUnavailable
        from evertick.stores import open_reader

        self._require_readable()
        url = self.require_url()
        file = self.ledger_file()
        if file is not None and not file.exists():
            raise StoreUnavailable(f"the ledger '{file}' does not exist. Check --store, or name the --folder.")
        store = open_reader(url)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def open_if_there(self) -> Iterator[Store | None]:
        """The ledger, or None if the folder has none yet."""
        self._require_readable()
        if self.is_store_hidden and self.url is None:
            self.require_url()
        file = self.ledger_file()
        if self.url is None or (file is not None and not file.exists() and self.folder is not None):
            yield None
            return
        with self.open() as store:
            yield store

    def require_state(self) -> Path:
        """The state folder of the scheduler; raises if this user cannot read it."""
        self._require_readable()
        assert self.state is not None, "a target with a folder has a state folder"
        return self.state

    def _require_readable(self) -> None:
        from evertick.errors import StoreUnavailable

        if self.unreadable and not self.is_ledger_named:
            raise StoreUnavailable(f"{self.unreadable}. Next: {UNREADABLE_NEXT}.")

    def require_url(self) -> str:
        from evertick.errors import StoreUnavailable

        if self.url is None and self.is_store_hidden:
            raise StoreUnavailable(
                f"the scheduler of '{self.folder}' is not running, and its ledger's URL is not recorded because it "
                "holds a password. Set EVERTICK_STORE to the URL, or start the scheduler."
            )
        if self.url is None:
            where = "The current folder" if self.folder in (None, Path()) else f"The folder '{self.folder}'"
            raise StoreUnavailable(
                f"{where} has no ledger. Name the folder that 'evertick serve' runs on with --folder, "
                "or a ledger with --store."
            )
        return self.url

    def is_anyone_running(self, store: Store) -> bool:
        """Whether a scheduler is running on the ledger."""
        from evertick.operations.submission import live_nodes

        is_held = self.is_busy()
        return bool(live_nodes(store, times.now())) if is_held is None else is_held

    def is_busy(self) -> bool | None:
        """Whether a scheduler holds the ledger's lock file; None for a ledger without one."""
        from evertick.location import lock_path
        from evertick.stores.lock import FolderLock

        lock = lock_path(self.url or "")
        if lock is None:
            return None
        # The leases of a single-instance ledger never expire; the lock file shows whether its scheduler is alive.
        return FolderLock(lock).is_held_by_anyone(times.now())

    def _logs(self, store: Store, settings: Settings) -> RunLogs | Logs | None:
        """The logs of runs: on this machine, in the log store, on other nodes and on fleet members."""
        here = self.logs_if_there()
        is_shared = self.url is not None and self.ledger_file() is None
        if not (is_shared or settings.logs.store or settings.fleet.url):
            return here
        import socket

        from evertick.executors.log_store import LogStore
        from evertick.operations.node_logs import NodeLogs
        from evertick.operations.run_logs import RunLogs

        copies = LogStore(settings.logs.store) if settings.logs.store else None
        members = None
        if settings.fleet.url:
            from evertick.wiring import member_logs

            members = member_logs(settings)
        node = "" if self.folder is None else settings.node or socket.gethostname()
        return RunLogs(here, node, NodeLogs(store, times.now) if is_shared else None, copies, members)

    def logs_if_there(self) -> Logs | None:
        from evertick.executors.logs import Logs as LocalLogs

        file = self.ledger_file()
        state = self.state or (file.parent if file is not None else None)
        return LocalLogs(state) if state is not None and (state / "logs").is_dir() else None

    def ledger_file(self) -> Path | None:
        """The file or folder of the ledger; None for a database server."""
        from evertick.location import ledger_path

        return ledger_path(self.url) if self.url else None


def find_folder_server(state_folder: Path) -> FolderServer | None:
    """The server that the scheduler of a state folder has announced, if its process lives and is this user's."""
    import json

    try:
        announced = json.loads((state_folder / "server.json").read_bytes())
        token = (state_folder / "token").read_text(encoding="ascii").strip()
        os.kill(int(announced["pid"]), 0)
        return FolderServer(str(announced["url"]), token)
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _or_nothing(store: Store | None) -> Iterator[Store]:
    """The ledger, or an empty one in memory if there is none yet."""
    if store is not None:
        yield store
        return
    from evertick.stores import open_store

    empty = open_store("memory:")
    try:
        yield empty
    finally:
        empty.close()

"""Which ledger and which folder of jobs a command is about."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from evertick.cli.output import note
from evertick.cli.times import now

if TYPE_CHECKING:
    from evertick.model.job import Job
    from evertick.operations import Store

STATE_FOLDER = ".evertick"
LEDGER = "ledger.db"

Command = TypeVar("Command", bound=Callable[..., Any])


class Logs(Protocol):
    """What the steps of runs have printed."""

    def read_log(self, key: Any, attempt: int, step: str, offset: int = 0) -> Any: ...
    def list_logs(self, key: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Place:
    folder: Path | None
    """Of job files; None where only a ledger was named."""
    url: str | None
    """Of the ledger; None where there is none yet."""

    def jobs(self) -> Mapping[str, Job]:
        """The jobs of the folder, as their files say now; files with an error are told and left out."""
        if self.folder is None:
            return {}
        from evertick.definitions.source import load_folder
        from evertick.settings import Settings

        found = load_folder(self.folder, Settings.load(self.folder))
        if found.errors:
            note(f"{len(found.errors)} of {len(found.files)} files left out. Next: evertick validate {self.folder}")
        return found.jobs

    def job(self, job_id: str) -> Job:
        """A job whose definition is needed."""
        from evertick.errors import NotFound
        from evertick.operations import no_such_job

        if self.folder is None:
            raise NotFound("the folder of job files is not known. Next: name it with --folder.")
        jobs = self.jobs()
        if job_id not in jobs:
            raise no_such_job(job_id, jobs)
        return jobs[job_id]

    @contextmanager
    def open(self) -> Iterator[Store]:
        """The ledger; it must be there, because to look at one is not to make one."""
        from evertick.errors import StoreUnavailable
        from evertick.service import open_store  # type: ignore[attr-defined]

        if self.url is None:
            where = "here" if self.folder in (None, Path()) else f"in '{self.folder}'"
            raise StoreUnavailable(
                f"there is no ledger {where}. Next: name one with --store or EVERTICK_STORE, "
                "or the folder that 'evertick serve' runs on with --folder."
            )
        file = self._ledger_file()
        if file is not None and not file.exists():
            raise StoreUnavailable(f"there is no ledger at '{file}'. Write the URL that the scheduler was given.")
        store = open_store(self.url)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def open_if_there(self) -> Iterator[Store | None]:
        """The ledger, or None where there is none yet."""
        file = self._ledger_file()
        if self.url is None or (file is not None and not file.exists()):
            yield None
            return
        with self.open() as store:
            yield store

    def is_anyone_running(self, store: Store) -> bool:
        """Whether a scheduler is at work on the ledger."""
        from evertick.operations import live_nodes
        from evertick.service import FolderLock, lock_path  # type: ignore[attr-defined]

        lock = lock_path(self.url or "")
        if lock is None:
            return bool(live_nodes(store, now()))
        # Its leases never run out: the lock file is what tells a scheduler at work from one that is gone.
        owner = FolderLock(lock)._owner() if lock.exists() else None
        return owner is not None and owner.is_live(now())

    def logs(self) -> Logs:
        from evertick.errors import NotFound

        file = self._ledger_file()
        folder = self.folder / STATE_FOLDER if self.folder is not None else file.parent if file is not None else None
        if folder is None or not (folder / "logs").is_dir():
            raise NotFound(
                "there are no logs here: they are with the scheduler that ran it. Next: name its folder with --folder."
            )
        return _open_logs(folder)

    def _ledger_file(self) -> Path | None:
        from evertick.service import lock_path  # type: ignore[attr-defined]

        lock = lock_path(self.url) if self.url else None
        if lock is None or self.url is None:
            return None
        # The lock lies inside a folder of files, and beside a SQLite file under its name.
        is_sqlite = self.url.lower().startswith("sqlite")
        found: Path = lock.with_name(lock.name.removesuffix(".lock")) if is_sqlite else lock.parent
        return found


def _open_logs(folder: Path) -> Logs:
    from evertick.executors.logs import Logs as LocalLogs

    return LocalLogs(folder)


def place_options(command: Command) -> Command:
    """Adds `--store` and `--folder`, and hands what they mean to the command as `place`."""

    @click.option(
        "--store",
        envvar="EVERTICK_STORE",
        metavar="URL",
        help="The ledger; default: EVERTICK_STORE, else the folder's own, under .evertick/.",
    )
    @click.option(
        "--folder",
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="The folder of job files; default: the present one, where a scheduler has run in it.",
    )
    @functools.wraps(command)
    def with_place(*args: Any, store: str | None, folder: Path | None, **options: Any) -> Any:
        return command(*args, place=find_place(store, folder), **options)

    return with_place  # type: ignore[return-value]


def find_place(url: str | None, folder: Path | None) -> Place:
    from evertick.errors import NotFound

    if folder is not None and not folder.is_dir():
        raise NotFound(f"there is no folder '{folder}'. Write the path of a folder of job files.")
    from evertick.settings import Settings

    here = folder if folder is not None else Path()
    settings = Settings.load(here, overrides={"store": url})
    url = settings.store or None
    ledger = here / STATE_FOLDER / LEDGER
    if folder is None and url is not None and not (here / STATE_FOLDER).is_dir() and settings.config is None:
        # A ledger elsewhere, and nothing that says the files here are its jobs.
        return Place(None, url)
    return Place(here, url or (f"sqlite:///{ledger.absolute()}" if ledger.exists() else None))

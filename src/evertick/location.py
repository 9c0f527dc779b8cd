"""Where things are kept: which file a ledger's URL names, and which URL and state folder a node has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from evertick.errors import SettingsError
from evertick.settings import Settings
from evertick.settings.parts import STATE_FOLDER

MEMORY: Final = "memory:"
LEDGER_FILE: Final = "ledger.db"
"""The ledger of a folder whose settings name no other, in its state folder."""


def is_forced(url: str) -> bool:
    """Whether the URL of a ledger in a file allows a network file system."""
    return parse_qs(urlsplit(url).query).get("force") == ["1"]


@dataclass(frozen=True, slots=True)
class Location:
    store_url: str
    folder: Path | None = None
    """Of job files; None: all jobs are functions of a program."""
    state_folder: Path | None = None
    """Where this machine keeps what outlives the process: runs, logs, the socket. None: nothing does."""

    @property
    def lock_path(self) -> Path | None:
        return lock_path(self.store_url)

    @property
    def is_memory(self) -> bool:
        return self.store_url.startswith(MEMORY)

    @property
    def is_shared(self) -> bool:
        """Whether several nodes may work on the ledger at once."""
        return not self.is_memory and self.lock_path is None

    @property
    def is_in_process(self) -> bool:
        """Whether only the process that schedules can read the ledger."""
        return self.is_memory or self.store_url.startswith("files:")


def locate(settings: Settings, folder: Path | None, *, store: str | None = None, state: Path | None = None) -> Location:
    """Where a node of these settings keeps its things; `store` and `state` go before what the settings name."""
    url = store or settings.store
    if not url and folder is None:
        return Location(MEMORY)
    if url and "://" not in url and not url.startswith((MEMORY, "files:", "sqlite:")):
        raise SettingsError(f"the store {url!r} is not a URL. Write for example sqlite:///evertick.db.")
    state = state or (settings.state if folder is None else settings.state_folder(folder))
    if state is None and (lock := lock_path(url)) is not None:
        state = lock.parent / STATE_FOLDER  # beside a SQLite file, or inside a folder of files
    if not url:
        assert state is not None, "a folder has a state folder"
        url = own_ledger_url(state)
    return Location(url, folder, state)


def own_ledger_url(state_folder: Path) -> str:
    return f"sqlite:///{(state_folder / LEDGER_FILE).absolute()}"


def lock_path(url: str) -> Path | None:
    """The lock file of a ledger that one process at a time may own; None where the ledger itself keeps order."""
    path = ledger_path(url)
    if path is None:
        return None
    return path / ".scheduler.lock" if _scheme(url) == "files" else path.with_name(path.name + ".lock")


def ledger_path(url: str) -> Path | None:
    """The file or folder that a ledger is; None for one in memory or on a server."""
    match _scheme(url):
        case "files":
            return _folder(url)
        case "sqlite":
            return _sqlite_file(url)
    return None


def _scheme(url: str) -> str:
    return url.partition(":")[0].lower()


def _folder(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc:
        raise SettingsError(
            f"a folder of files is on this machine, but {url!r} names the host {parts.netloc!r}. "
            "Write three slashes before an absolute path: files:///srv/pipelines"
        )
    if not parts.path.strip("/"):
        raise SettingsError("a store in files needs a folder. Write: files:///srv/pipelines")
    return Path(unquote(parts.path))


def _sqlite_file(url: str) -> Path:
    rest = url.partition(":")[2]
    parts = urlsplit(f"sqlite:{rest}")
    path = unquote(parts.path)
    if parts.netloc:
        raise SettingsError(
            f"a SQLite file is on this machine, but {url!r} names the host {parts.netloc!r}. "
            "Write three slashes before a relative path and four before an absolute one: sqlite:///evertick.db"
        )
    # As SQLAlchemy reads it: the third slash ends the empty host, what follows is the path.
    path = path.removeprefix("/") if rest.startswith("//") else path
    if not path:
        raise SettingsError("a SQLite store needs a file. Write: sqlite:///evertick.db")
    return Path(path)

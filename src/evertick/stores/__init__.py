"""Which ledger a URL names; the module behind it is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from evertick.errors import SettingsError

if TYPE_CHECKING:
    from evertick.store import Store

__all__ = ["EXAMPLES", "lock_path", "open_store"]

EXAMPLES = (
    "sqlite:///evertick.db",
    "postgresql://user@host/evertick",
    "mysql://user@host/evertick",
    "files:///srv/pipelines",
    "memory:",
)
_EXTRAS = {"psycopg": "postgres", "pymysql": "mysql"}


def open_store(url: str) -> Store:
    """The ledger that a URL names, ready for use.

    `sqlite:///evertick.db` is a file in the working folder and `sqlite:////var/lib/evertick.db` one anywhere;
    `files:///srv/pipelines` is a folder, and `files:pipelines` one in the working folder.
    """
    scheme, _, rest = url.partition(":")
    opener = _OPENERS.get(scheme.lower())
    if opener is None:
        raise SettingsError(f"the store {_shown(url)!r} has no known scheme. Write one of: {', '.join(EXAMPLES)}.")
    try:
        return opener(rest)
    except ModuleNotFoundError as missing:
        extra = _EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        raise SettingsError(
            f"the store {_shown(url)!r} needs the package {missing.name!r}. "
            f"Install it with: pip install 'evertick[{extra}]'"
        ) from missing


def lock_path(url: str) -> Path | None:
    """The lock file of a store that one process at a time may own; None where the store itself keeps order."""
    scheme, _, rest = url.partition(":")
    match scheme.lower():
        case "files":
            return _folder(rest) / ".scheduler.lock"
        case "sqlite":
            path = _sqlite_path(rest)
            return path.with_name(path.name + ".lock")
    return None


def _memory(rest: str) -> Store:
    if rest.strip("/"):
        raise SettingsError(f"a store in memory has no place, but {rest!r} was given. Write: memory:")
    from evertick.stores.memory import MemoryStore

    return MemoryStore()


def _files(rest: str) -> Store:
    folder = _folder(rest)
    from evertick.stores.files import FilesStore

    return FilesStore(folder)


def _sqlite(rest: str) -> Store:
    path = _sqlite_path(rest)
    from evertick.stores.sql.sqlite import SqliteStore

    return SqliteStore(path, force=_is_forced(rest))


def _postgres(rest: str) -> Store:
    import psycopg  # noqa: F401  # the driver first: without it, say what to install

    from evertick.stores.sql.postgres import PostgresStore

    return PostgresStore(f"postgresql+psycopg:{rest}")


def _mysql(rest: str) -> Store:
    import pymysql  # noqa: F401

    from evertick.stores.sql.mysql import MysqlStore

    return MysqlStore(f"mysql+pymysql:{rest}")


_OPENERS: dict[str, Callable[[str], Store]] = {
    "memory": _memory,
    "files": _files,
    "sqlite": _sqlite,
    **dict.fromkeys(("postgresql", "postgres", "postgresql+psycopg"), _postgres),
    **dict.fromkeys(("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"), _mysql),
}


def _folder(rest: str) -> Path:
    parts = urlsplit(f"files:{rest}")
    if parts.netloc:
        raise SettingsError(
            f"a folder of files is on this machine, but 'files:{rest}' names the host {parts.netloc!r}. "
            "Write three slashes before an absolute path: files:///srv/pipelines"
        )
    if not parts.path.strip("/"):
        raise SettingsError("a store in files needs a folder. Write: files:///srv/pipelines")
    return Path(unquote(parts.path))


def _sqlite_path(rest: str) -> Path:
    parts = urlsplit(f"sqlite:{rest}")
    path = unquote(parts.path)
    if parts.netloc:
        raise SettingsError(
            f"a SQLite file is on this machine, but 'sqlite:{rest}' names the host {parts.netloc!r}. "
            "Write three slashes before a relative path and four before an absolute one: sqlite:///evertick.db"
        )
    # As SQLAlchemy reads it: the third slash ends the empty host, what follows is the path.
    path = path.removeprefix("/") if rest.startswith("//") else path
    if not path:
        raise SettingsError("a SQLite store needs a file. Write: sqlite:///evertick.db")
    return Path(path)


def _is_forced(rest: str) -> bool:
    return parse_qs(urlsplit(f"sqlite:{rest}").query).get("force") == ["1"]


def _shown(url: str) -> str:
    """The URL without its password, which must not reach a log."""
    front, at, host = url.rpartition("@")
    scheme, slashes, credentials = front.partition("//")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{slashes}{user}:***@{host}" if at and slashes and colon else url

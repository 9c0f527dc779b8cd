"""Opens the ledger that a URL names; imports its module only when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from evertick.errors import SettingsError
from evertick.location import is_forced, ledger_path

if TYPE_CHECKING:
    from evertick.store import Store

__all__ = ["EXAMPLES", "open_reader", "open_store"]

EXAMPLES = (
    "sqlite:///evertick.db",
    "postgresql://user@host/evertick",
    "mysql://user@host/evertick",
    "files:///srv/pipelines",
    "memory:",
)
_EXTRAS = {"psycopg": "postgres", "pymysql": "mysql"}


def open_store(url: str, *, migrate: bool = True) -> Store:
    """The ledger that a URL names, ready for use; a database keeps its schema unless `migrate`.

    `sqlite:///evertick.db` is a file in the working folder and `sqlite:////var/lib/evertick.db` one anywhere;
    `files:///srv/pipelines` is a folder, and `files:pipelines` one in the working folder.
    """
    opener = _OPENERS.get(url.partition(":")[0].lower())
    if opener is None:
        raise SettingsError(f"the store {_shown(url)!r} has no known scheme. Write one of: {', '.join(EXAMPLES)}.")
    try:
        return opener(url, migrate)
    except ModuleNotFoundError as missing:
        extra = _EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        raise SettingsError(
            f"the store {_shown(url)!r} needs the package {missing.name!r}. "
            f"Install it with: pip install 'evertick[{extra}]'"
        ) from missing


def open_reader(url: str) -> Store:
    """The ledger that a URL names, for a command that reads it and ends: a file opens in a fraction of the time."""
    if url.partition(":")[0].lower() != "sqlite":
        return open_store(url)
    path = ledger_path(url)
    assert path is not None
    from evertick.stores.sql.sqlite_reader import SqliteReader

    return SqliteReader(path, force=is_forced(url))


def _memory(url: str, _migrate: bool) -> Store:
    if _after_scheme(url).strip("/"):
        raise SettingsError(f"a store in memory has no path, but {_after_scheme(url)!r} was given. Write: memory:")
    from evertick.stores.memory import MemoryStore

    return MemoryStore()


def _files(url: str, _migrate: bool) -> Store:
    folder = ledger_path(url)
    assert folder is not None
    from evertick.stores.files import FilesStore

    return FilesStore(folder)


def _sqlite(url: str, migrate: bool) -> Store:
    path = ledger_path(url)
    assert path is not None
    from evertick.stores.sql.sqlite import SqliteStore

    return SqliteStore(path, force=is_forced(url), migrate=migrate)


def _postgres(url: str, migrate: bool) -> Store:
    import psycopg  # noqa: F401  # the driver first: without it, say what to install

    from evertick.stores.sql.postgres import PostgresStore

    return PostgresStore(f"postgresql+psycopg:{_after_scheme(url)}", migrate=migrate)


def _mysql(url: str, migrate: bool) -> Store:
    import pymysql  # noqa: F401

    from evertick.stores.sql.mysql import MysqlStore

    return MysqlStore(f"mysql+pymysql:{_after_scheme(url)}", migrate=migrate)


_OPENERS: dict[str, Callable[[str, bool], Store]] = {
    "memory": _memory,
    "files": _files,
    "sqlite": _sqlite,
    **dict.fromkeys(("postgresql", "postgres", "postgresql+psycopg"), _postgres),
    **dict.fromkeys(("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"), _mysql),
}


def _after_scheme(url: str) -> str:
    return url.partition(":")[2]


def _shown(url: str) -> str:
    """The URL without its password, which must not reach a log."""
    front, at, host = url.rpartition("@")
    scheme, slashes, credentials = front.partition("//")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{slashes}{user}:***@{host}" if at and slashes and colon else url

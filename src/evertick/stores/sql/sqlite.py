"""A ledger in a file on this machine: the default.

One connection writes, every transaction of it begun with the write lock, so that none fails for having read first;
others read, each thread on its own, and never wait for the writer.
"""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy import event, pool

from evertick.errors import StoreError
from evertick.model.instant import Instant
from evertick.stores.sql.rows import Params
from evertick.stores.sql.sqlite_file import SqliteFile, connect_to
from evertick.stores.sql.statements import SQLITE
from evertick.stores.sql.store import SqlStore

WRITER_CACHE_KIB: Final = 16_000
READER_CACHE_KIB: Final = 4_000
"""Pages of the ledger that a connection keeps, which grow with the ledger up to this. With 32 MB in each, processes
grew for hours; 16 MB cost a storm in random order 5 % more CPU time, 8 MB 18 %. Readers need less: each commit of
another process empties their cache, and 4 instead of 8 MB cost a calendar of a million runs 7 ms, others nothing. The
kernel has copies too."""
RELEASE_SECONDS: Final = 60.0
"""How often a connection in use gives back the pages that it keeps. Without this it keeps each page that it has
written once until the limit, hours later; the kernel has copies of them, and what is in use is read again in 10 ms."""
READERS_KEPT: Final = 4
"""Connections that stay open."""
INSERTED_TOGETHER: Final = 500
"""Rows in one statement: 8,000 values, of the 32,766 that SQLite allows."""


class SqliteStore(SqliteFile, SqlStore):
    dialect = SQLITE

    def __init__(self, path: Path, *, force: bool = False, check: bool = True, migrate: bool = True) -> None:
        """Open the ledger in a file, or create it; `force` opens it on a network file system too."""
        SqliteFile.__init__(self, path, force=force)
        SqlStore.__init__(self, self.place, _writer(self.path), _reader(self.path))
        self._share = 0  # there is one writer
        try:
            if check:
                self.check_opened(self.check)
            if migrate:
                self.migrate()
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """Raise `StoreCorrupt` if the file is damaged."""
        with self._naming_errors(), self._reader.connect() as connection:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if found != "ok":
            raise self.corrupt(str(found))

    def _insert(self, connection: sa.Connection, rows: Sequence[Params]) -> None:
        # Several in a statement: the driver lets go of the interpreter for each statement, not for each row.
        whole = len(rows) - len(rows) % INSERTED_TOGETHER
        for first in range(0, whole, INSERTED_TOGETHER):
            values = tuple(chain.from_iterable(rows[first : first + INSERTED_TOGETHER]))
            connection.exec_driver_sql(self._sql.insert_entries(INSERTED_TOGETHER), values)
        self._many(connection, self._sql.insert_entry, rows[whole:])

    def _update(self, connection: sa.Connection, rows: Sequence[Params]) -> int:
        """By the columns that they set: most changes set few, and naming only those is faster."""
        alike: defaultdict[tuple[type, ...], list[Params]] = defaultdict(list)
        for row in rows:
            alike[tuple(map(type, row))].append(row)
        written = 0
        for kinds, some in alike.items():
            statement, values_of = self._sql.change_of(tuple(kind is not type(None) for kind in kinds))
            written += self._many(connection, statement, list(map(values_of, some)))
        return written

    def _lock_gaps(self, connection: sa.Connection, exclusive: bool) -> None:
        """The transaction holds the write lock of the whole file."""

    def _lock_counts(self, connection: sa.Connection) -> None:
        """The same."""

    def _now(self, connection: sa.Connection, now: Instant) -> Instant:  # noqa: ARG002
        return now

    @contextmanager
    def _snapshot(self) -> Iterator[sa.Connection]:
        with self._reader.connect() as connection:
            connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            finally:
                connection.exec_driver_sql("ROLLBACK")

    @contextmanager
    def _migration_lock(self) -> Iterator[sa.Connection]:
        with self._writer.begin() as connection:
            yield connection

    def _named(self, error: Exception) -> StoreError | None:
        return self.named_error(error)

    def _is_deadlock(self, error: Exception) -> bool:  # noqa: ARG002
        return False  # there is one writer


def _writer(path: Path) -> sa.Engine:
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: connect_to(path, WRITER_CACHE_KIB),
        poolclass=pool.QueuePool,
        pool_size=1,
        max_overflow=0,
    )
    event.listen(engine, "begin", _begin_immediate)
    event.listen(engine, "checkin", _release_pages)
    return engine


def _release_pages(connection: sqlite3.Connection | None, known: pool.ConnectionPoolEntry) -> None:
    """Called when a connection returns to its pool, outside of any transaction."""
    now = time.monotonic()
    if connection is not None and now >= known.info.setdefault("releases_at", now + RELEASE_SECONDS):
        known.info["releases_at"] = now + RELEASE_SECONDS
        connection.execute("PRAGMA shrink_memory")


def _begin_immediate(connection: sa.Connection) -> None:
    # A transaction that reads and then writes fails at once when another wrote between; this one waits its turn.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _reader(path: Path) -> sa.Engine:
    def connect() -> sqlite3.Connection:
        connection = connect_to(path, READER_CACHE_KIB)
        connection.execute("PRAGMA query_only = ON")
        return connection

    engine = sa.create_engine(
        "sqlite://", creator=connect, poolclass=pool.QueuePool, pool_size=READERS_KEPT, max_overflow=60
    )
    event.listen(engine, "checkin", _release_pages)
    return engine

"""A ledger in a file on this machine: the default.

One connection writes, every transaction of it begun with the write lock, so that none fails for having read first;
others read, each thread on its own, and never wait for the writer.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import event, exc, pool

from evertick.errors import SettingsError, StoreCorrupt, StoreError, StoreUnavailable
from evertick.model.instant import DAY, Instant
from evertick.mounts import network_file_system
from evertick.store import Capabilities
from evertick.stores.sql import sqlite_backup, sqlite_log
from evertick.stores.sql.rows import Params
from evertick.stores.sql.statements import SQLITE
from evertick.stores.sql.store import SqlStore, unavailable

BUSY_SECONDS: Final = 30
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
CHECK_STEPS: Final = 50_000
"""How many SQLite instructions run between two checks whether to stop."""
FINDINGS_MAX: Final = 5
INSERTED_TOGETHER: Final = 500
"""Rows in one statement: 8,000 values, of the 32,766 that SQLite allows."""
log = logging.getLogger("evertick.store")

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteStore(SqlStore):
    dialect = SQLITE

    def __init__(self, path: Path, *, force: bool = False, check: bool = True, migrate: bool = True) -> None:
        """Open the ledger in a file, or create it; `force` opens it on a network file system too."""
        self.path = path.absolute()
        _refuse_network(self.path, forced=force)
        self._log = self.path.with_name(self.path.name + "-wal")
        self._is_new = not self.path.exists()
        _make_private(self.path)
        super().__init__(f"sqlite:///{self.path}", _writer(self.path), _reader(self.path))
        self._share = 0  # there is one writer
        try:
            if check:
                self._refuse_emptied()
                commits = sqlite_log.read_commits(self.path)
                self.check()
                if commits is not None and len(commits.frames) > 1:
                    self._report_dropped(commits)
            if migrate:
                self.migrate()
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(change_stamps=self, integrity_checks=self, backups=self)

    def change_stamp(self) -> object:
        """The file and its write-ahead log; every commit writes to one of them."""
        found = []
        for path in (self.path, self._log):
            try:
                status = os.stat(path)
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
            except OSError:
                found.append((0, 0, 0))
        return tuple(found)

    def check(self) -> None:
        """Raise `StoreCorrupt` if the file is damaged."""
        with self._naming_errors(), self._reader.connect() as connection:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if found != "ok":
            raise self._corrupt(str(found))

    def full_check(self, is_stopping: Callable[[], bool] = lambda: False) -> str | None:
        """The damage that a full read finds, including indexes that disagree with their tables; None: no damage.

        It uses its own read-only connection and may take minutes. Raises `InterruptedError` when asked to stop.
        """
        address = f"file:{quote(str(self.path))}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
                connection.set_progress_handler(is_stopping, CHECK_STEPS)
                found = [str(line) for (line,) in connection.execute(f"PRAGMA integrity_check({FINDINGS_MAX})")]
        except sqlite3.DatabaseError as error:
            if _code(error) in _DAMAGED:
                return str(error)
            if _code(error) == sqlite3.SQLITE_INTERRUPT:
                raise InterruptedError from None
            raise StoreUnavailable(f"{self.path} cannot be checked: {error}.") from error
        return None if found == ["ok"] else "; ".join(found)

    def _refuse_emptied(self) -> None:
        """A file cut to nothing would pass for a new one; its backups or its write-ahead log say that it is not."""
        if self._is_new or self.path.stat().st_size:
            return
        if self._log.exists() and self._log.stat().st_size:
            # SQLite would delete the log. It writes none before the file itself has its first page.
            raise self._corrupt(f"it is empty, and its write-ahead log {self._log.name} is not")
        if sqlite_backup.backups(self.path):
            raise self._corrupt("it is empty, and has backups")

    def _report_dropped(self, before: sqlite_log.Commits) -> None:
        try:
            with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
                # The one way to learn which frame is the last. Minus one while another process writes: the log is its.
                last_frame = int(connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1])
        except sqlite3.Error:
            return  # the next use of the ledger says what is wrong
        dropped = sqlite_log.count_dropped(self.path, before, last_frame) if last_frame >= 0 else 0
        if dropped:
            kept = sqlite_log.keep_log(self.path)
            log.error("ledger.commits_dropped count=%d reason=its write-ahead log is damaged kept=%s", dropped, kept)

    def backup(self, now: Instant, keep_days: int = sqlite_backup.KEEP_DAYS, every_us: int = DAY) -> Path | None:
        """Copy the ledger to a file beside it, unless a copy is less than a day old; returns its path."""
        try:
            return sqlite_backup.backup(self.path, now, keep_days, every_us)
        except (sqlite3.Error, OSError) as error:
            raise StoreUnavailable(
                f"the backup of {self.path} failed: {error}. The ledger itself is not affected."
            ) from error

    def _corrupt(self, reason: str) -> StoreCorrupt:
        return StoreCorrupt(sqlite_backup.way_out(self.path, reason))

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
        cause = error.orig if isinstance(error, exc.DBAPIError) else error
        if isinstance(cause, sqlite3.DatabaseError) and _code(cause) in _DAMAGED:
            return self._corrupt(str(cause))
        if isinstance(cause, sqlite3.OperationalError):
            return unavailable(self.place, error, "check that its disk has space and is writable")
        return None

    def _is_deadlock(self, error: Exception) -> bool:  # noqa: ARG002
        return False  # there is one writer


def _code(error: sqlite3.Error) -> int:
    """The primary code: the extended ones carry more above it."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _connect(path: Path, cache_kib: int) -> sqlite3.Connection:
    # No transaction begins by itself; the engine says when, and how.
    connection = sqlite3.connect(
        path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    try:
        with closing(connection.cursor()) as cursor:
            _use_wal(cursor)
            # NORMAL would take back acknowledged commits on a power cut, and an occurrence would run twice.
            cursor.execute("PRAGMA synchronous = FULL")
            cursor.execute(f"PRAGMA cache_size = -{cache_kib}")
            cursor.execute("PRAGMA journal_size_limit = 67108864")
    except BaseException:
        connection.close()
        raise
    return connection


def _use_wal(cursor: sqlite3.Cursor) -> None:
    """Switch a new file to write-ahead logging. SQLite does not wait by itself when two processes do so at once."""
    give_up_at = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
        time.sleep(0.01)


def _writer(path: Path) -> sa.Engine:
    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: _connect(path, WRITER_CACHE_KIB),
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
        connection = _connect(path, READER_CACHE_KIB)
        connection.execute("PRAGMA query_only = ON")
        return connection

    engine = sa.create_engine(
        "sqlite://", creator=connect, poolclass=pool.QueuePool, pool_size=READERS_KEPT, max_overflow=60
    )
    event.listen(engine, "checkin", _release_pages)
    return engine


def _make_private(path: Path) -> None:
    """Only its owner reads a ledger: parameters and error texts may hold secrets."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        # It must not be opened here: to close it would release the locks that SQLite holds on it for the other
        # connections of this process, and another process would delete the write-ahead log that they use.
        if path.is_dir() or not os.access(path, os.R_OK | os.W_OK):
            reason = os.strerror(errno.EISDIR if path.is_dir() else errno.EACCES)
            raise StoreUnavailable(f"the ledger {path} cannot be opened: {reason}.") from None
    except OSError as error:
        raise StoreUnavailable(f"the ledger {path} cannot be opened: {error.strerror}.") from error


def _refuse_network(path: Path, *, forced: bool) -> None:
    kind = None if forced else network_file_system(path)
    if kind is not None:
        raise SettingsError(
            f"{path} is on a network file system ({kind}), where locks are unreliable and two nodes could "
            "destroy the ledger. Put it on a local disk, use PostgreSQL or MySQL, or add ?force=1 to the URL."
        )

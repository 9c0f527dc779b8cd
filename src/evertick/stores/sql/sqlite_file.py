"""A ledger's file on this machine: opened, checked and copied with the standard library alone.

`SqliteStore` and `SqliteReader` build on it.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from evertick.errors import SettingsError, StoreCorrupt, StoreError, StoreUnavailable
from evertick.model.instant import DAY, Instant
from evertick.mounts import network_file_system
from evertick.store import Capabilities
from evertick.stores.sql import sqlite_backup, sqlite_log
from evertick.stores.sql.rows import unavailable

BUSY_SECONDS: Final = 30
CHECK_STEPS: Final = 50_000
"""How many SQLite instructions run between two checks whether to stop."""
FINDINGS_MAX: Final = 5

log = logging.getLogger("evertick.store")

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class SqliteFile:
    def __init__(self, path: Path, *, force: bool = False) -> None:
        """A ledger in a file, which is created empty if it is not there; `force` allows a network file system."""
        self.path = path.absolute()
        _refuse_network(self.path, forced=force)
        self._log = self.path.with_name(self.path.name + "-wal")
        self.is_new = not self.path.exists()
        _make_private(self.path)
        self.place = f"sqlite:///{self.path}"
        """Where the ledger is."""

    def check_opened(self, quick_check: Callable[[], object]) -> None:
        """Raise `StoreCorrupt` if the file is damaged, which `quick_check` finds, and report what a crash has cost."""
        self._refuse_emptied()
        commits = sqlite_log.read_commits(self.path)
        quick_check()
        if commits is not None and len(commits.frames) > 1:
            self._report_dropped(commits)

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
        if self.is_new or self.path.stat().st_size:
            return
        if self._log.exists() and self._log.stat().st_size:
            # SQLite would delete the log. It writes none before the file itself has its first page.
            raise self.corrupt(f"it is empty, and its write-ahead log {self._log.name} is not")
        if sqlite_backup.backups(self.path):
            raise self.corrupt("it is empty, and has backups")

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

    def corrupt(self, reason: str) -> StoreCorrupt:
        return StoreCorrupt(sqlite_backup.way_out(self.path, reason))

    def named_error(self, error: Exception) -> StoreError | None:
        """The store error for an error of the driver; None if it is a bug of ours."""
        cause = getattr(error, "orig", None) or error  # SQLAlchemy wraps those of the driver
        if isinstance(cause, sqlite3.DatabaseError) and _code(cause) in _DAMAGED:
            return self.corrupt(str(cause))
        if isinstance(cause, sqlite3.OperationalError):
            return unavailable(self.place, error, "check that its disk has space and is writable")
        return None


def _code(error: sqlite3.Error) -> int:
    """The primary code: the extended ones carry more above it."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def connect_to(path: Path, cache_kib: int) -> sqlite3.Connection:
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

"""Moves a ledger: restores a backup of a SQLite file, and copies all tables into another database."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa

from evertick.errors import NotFound, StoreCorrupt, StoreError
from evertick.model.instant import Instant, to_datetime
from evertick.stores.sql import migrations, sqlite_backup
from evertick.stores.sql.schema import JOBS, LEASES, METADATA, REQUESTS, RUNS, VERSIONS
from evertick.stores.sql.store import SqlStore

CHUNK: Final = 1_000
_ASIDE: Final = "%Y%m%dT%H%M%SZ"
# Its companions belong to a SQLite file: without them, or with those of another file, it is not what was committed.
_COMPANIONS: Final = ("", "-wal", "-shm")


class RestoreResult(NamedTuple):
    backup: Path
    aside: Path | None
    """Where the previous ledger is; None if there was none."""


def restore(path: Path, backup: Path | None, now: Instant) -> RestoreResult:
    """Put a backup, by default the newest, in the place of a ledger; the former file is kept beside it.

    No scheduler may run on the ledger; the caller holds its lock.
    """
    chosen = backup or _newest(path)
    _require_sound(chosen)
    # The copy is complete and on disk before the previous ledger is touched.
    draft = path.with_name(f"{path.name}.restoring")
    shutil.copyfile(chosen, draft)
    os.chmod(draft, 0o600)
    sqlite_backup.sync(draft)
    aside = path.with_name(f"{path.name}.before-{to_datetime(now).strftime(_ASIDE)}")
    had = path.exists()
    for companion in _COMPANIONS:
        former = path.with_name(path.name + companion)
        if former.exists():
            former.rename(aside.with_name(aside.name + companion))
    draft.replace(path)
    sqlite_backup.sync(path.parent)
    return RestoreResult(chosen, aside if had else None)


def copy_ledger(source: SqlStore, target: SqlStore, report: Callable[[int, int], object]) -> Mapping[str, int]:
    """Copy every table into an empty database, in one transaction; the rows of each table.

    `report` is called with the rows that are copied and the rows in all.
    """
    found = source.schema()
    if found.version != migrations.newest():
        raise StoreError(
            f"{source.place} has schema version {found.version}, and this Evertick copies version "
            f"{migrations.newest()}. Next: evertick db migrate --store URL of that ledger."
        )
    target.migrate()
    for store in (source, target):
        alive = store.live_nodes()
        if alive:
            raise StoreError(f"{store.place} is in use by {', '.join(alive)}. Stop these nodes first.")
    tables = [table for table in METADATA.sorted_tables if table is not VERSIONS]
    return source.read(lambda reading: target.write(lambda writing: _copy_tables(reading, writing, tables, report)))


def _copy_tables(
    reading: sa.Connection, writing: sa.Connection, tables: list[sa.Table], report: Callable[[int, int], object]
) -> Mapping[str, int]:
    for table in (RUNS, JOBS, REQUESTS):
        if _rows_in(writing, table):
            raise StoreError("the target already holds a ledger. Name an empty database.")
    for table in tables:
        writing.execute(sa.delete(table))  # a new schema has its first rows, such as floors
    counts = {table.name: _rows_in(reading, table) for table in tables}
    total, done = sum(counts.values()), 0
    report(0, total)
    for table in tables:
        for rows in reading.execution_options(yield_per=CHUNK).execute(sa.select(table)).mappings().partitions(CHUNK):
            writing.execute(sa.insert(table), [dict(row) for row in rows])
            done += len(rows)
            report(done, total)
    # The epochs continue, so that no old fencing token is valid; the leases themselves are not copied.
    writing.execute(sa.update(LEASES).values(expires_at=0))
    copied = {table.name: _rows_in(writing, table) for table in tables}
    if copied != counts:
        wrong = [name for name in counts if copied[name] != counts[name]]
        raise StoreError(f"the copy is incomplete in {', '.join(wrong)}; nothing was written. Try again.")
    return copied


def _rows_in(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def _newest(path: Path) -> Path:
    known = sqlite_backup.backups(path)
    if not known:
        raise NotFound(f"no backup in {sqlite_backup.folder_of(path)}. Name a backup file with --from.")
    return known[-1][1]


def _require_sound(backup: Path) -> None:
    """Raise unless the file is an undamaged ledger."""
    if not backup.is_file():
        raise NotFound(f"the backup '{backup}' does not exist.")
    try:
        # Read-only: a check must not create files beside the backup.
        with closing(sqlite3.connect(f"{backup.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError as error:
        raise StoreCorrupt(f"the backup {backup} cannot be read: {error}. Name another one with --from.") from error
    if said != "ok":
        raise StoreCorrupt(f"the backup {backup} failed its integrity check: {said}. Name another one with --from.")
    if RUNS.name not in tables:
        raise StoreCorrupt(f"the file {backup} is not a ledger. Name a file of a '.backups' folder with --from.")

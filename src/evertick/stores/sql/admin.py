"""Administration of a ledger in a database: migrate, check, back up, restore, copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import sqlalchemy as sa

from evertick.errors import SettingsError, StoreCorrupt, StoreUnavailable
from evertick.location import ledger_path, lock_path
from evertick.model.instant import Instant
from evertick.stores import open_store
from evertick.stores.lock import FolderLock
from evertick.stores.sql import migrations, sqlite_backup, transfer
from evertick.stores.sql.findings import FULL, QUICK, Finding, counts_text, file_findings
from evertick.stores.sql.schema import JOBS, REQUESTS, RUNS
from evertick.stores.sql.sqlite import SqliteStore
from evertick.stores.sql.store import SqlStore

_TOOLS = {"postgresql": "pg_dump", "mysql": "mariadb-dump --single-transaction, or mysqldump --single-transaction"}


def migrate(url: str) -> str:
    """Bring a ledger to this Evertick's schema, creating it if needed; returns what was done."""
    store = _open(url)
    try:
        steps = store.migrate()
        found = store.schema()
    finally:
        store.close()
    done = "migrated" if steps else "already up to date"
    return f"{store.place}: {done}; schema version {found.version}, written by Evertick {found.made_by}."


def backup(url: str, now: Instant) -> Path:
    """Copy a ledger that is a file; for a server, say which tool does it."""
    kind = _kind(url)
    if kind != "sqlite":
        raise SettingsError(f"Evertick cannot back up a {kind} server. Use {_TOOLS[kind]}.")
    store = _open(url, must_exist=True)
    assert isinstance(store, SqliteStore)
    try:
        made = store.backup(now, every_us=0)
    finally:
        store.close()
    assert made is not None, "a backup at any age is always made"
    return made


def restore(url: str, backup: Path | None, now: Instant) -> transfer.RestoreResult:
    """Put a backup in the place of a ledger that is a file, while no scheduler runs on it."""
    kind = _kind(url)
    path = ledger_path(url)
    if kind != "sqlite" or path is None:
        raise SettingsError(f"Evertick cannot restore a {kind} server. Use the tools of the database.")
    lock = lock_path(url)
    assert lock is not None, "a ledger in a file has a lock file"
    with FolderLock(lock).acquire(now):
        return transfer.restore(path, backup, now)


def copy(url: str, target_url: str, now: Instant, report: Callable[[int, int], object]) -> Mapping[str, int]:
    """Copy a ledger into an empty database, while no scheduler runs on either; the rows of each table."""
    with ExitStack() as stack:
        for one in (url, target_url):
            lock = lock_path(one)
            if lock is not None:
                stack.enter_context(FolderLock(lock).acquire(now))
        source = stack.enter_context(closing(_open(url, must_exist=True)))
        target = stack.enter_context(closing(_open(target_url)))
        return transfer.copy_ledger(source, target, report)


def recount(url: str) -> str:
    """Rebuild the hourly counts from the entries; answers what was done."""
    store = _open(url, must_exist=True)
    try:
        migrations.refuse_newer(store.schema(), store.place)
        store.migrate()
        wrong = store.recount()
    finally:
        store.close()
    done = f"corrected {wrong:,} count{'s' if wrong > 1 else ''}" if wrong else "all counts are right; nothing to do"
    return f"{store.place}: {done}."


def check(url: str, *, is_full: bool = True) -> list[Finding]:
    """The findings about a ledger, by the whole store; see `ledger_check.check`."""
    store = _open(url, must_exist=True)
    try:
        return list(_findings(store, is_full=is_full))
    finally:
        store.close()


def _findings(store: SqlStore, *, is_full: bool) -> Iterator[Finding]:
    if isinstance(store, SqliteStore) and is_full:
        damage = store.full_check()
        if damage is not None:
            raise StoreCorrupt(sqlite_backup.way_out(store.path, damage))
        yield Finding(True, FULL)
    elif isinstance(store, SqliteStore):
        yield Finding(True, QUICK)
    if isinstance(store, SqliteStore):
        yield from file_findings(store.path)
    found = store.schema()
    migrations.refuse_newer(found, store.place)
    if found.version < migrations.newest():
        next_step = "evertick db migrate --store URL, or start the scheduler"
        yield Finding(
            False,
            f"schema version {found.version} is older than {migrations.newest()}, which this Evertick needs",
            next_step,
        )
        return
    known = (
        f"; this Evertick knows versions up to {migrations.newest()} and can use it"
        if found.version > migrations.newest()
        else ""
    )
    yield Finding(True, f"schema version {found.version}, written by Evertick {found.made_by}{known}")
    yield Finding(True, store.read(_counts))


def _counts(connection: sa.Connection) -> str:
    def count(table: sa.Table, *where: sa.ColumnElement[bool]) -> int:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table).where(*where)).scalar_one())

    runs, jobs = count(RUNS, RUNS.c.is_open == 1), count(JOBS)
    waiting = count(REQUESTS, REQUESTS.c.is_open == 1)
    return counts_text(count(RUNS), runs, jobs, waiting)


def _kind(url: str) -> str:
    scheme = url.partition(":")[0].partition("+")[0].lower()
    kind = {"postgres": "postgresql", "mariadb": "mysql"}.get(scheme, scheme)
    if kind not in {"sqlite", *_TOOLS}:
        raise SettingsError(
            f"'{scheme}:' is not a database. Write the URL of one: sqlite:///evertick.db, "
            "postgresql://user@host/evertick or mysql://user@host/evertick."
        )
    return kind


def _open(url: str, *, must_exist: bool = False) -> SqlStore:
    """The ledger as it is, not migrated."""
    if _kind(url) == "sqlite" and must_exist and (path := ledger_path(url)) is not None and not path.exists():
        raise StoreUnavailable(f"no ledger at {path}. Next: evertick db migrate, which creates one.")
    store = open_store(url, migrate=False)
    assert isinstance(store, SqlStore)
    return store

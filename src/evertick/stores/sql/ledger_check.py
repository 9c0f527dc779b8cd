"""Whether a ledger in a database is readable, undamaged and of this version, for `doctor` and `evertick db check`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from evertick.errors import StoreCorrupt
from evertick.location import is_forced, ledger_path
from evertick.stores.sql import sqlite_backup
from evertick.stores.sql.findings import FULL, QUICK, Finding, counts_text, file_findings
from evertick.stores.sql.sqlite_reader import SCHEMA, SqliteReader


def check(url: str, *, is_full: bool = True) -> list[Finding]:
    """The findings about a ledger; a damaged one raises, with the way to restore it.

    A file is read in full, which takes a while with a large one; otherwise its structure only.
    """
    path = ledger_path(url) if url.lower().startswith("sqlite:") else None
    if path is not None and path.exists():
        with closing(SqliteReader(path, force=is_forced(url), migrate=False)) as reader:
            if reader.has_known_schema:
                return list(_findings(reader, is_full=is_full))
    from evertick.stores.sql import admin

    return admin.check(url, is_full=is_full)


def _findings(reader: SqliteReader, *, is_full: bool) -> Iterator[Finding]:
    if is_full and (damage := reader.full_check()) is not None:
        raise StoreCorrupt(sqlite_backup.way_out(reader.path, damage))
    yield Finding(True, FULL if is_full else QUICK)
    yield from file_findings(reader.path)
    yield Finding(True, f"schema version {SCHEMA}, written by Evertick {reader.made_by()}")
    yield Finding(True, counts_text(*reader.sizes()))

"""What a check of a ledger in a database reports, by the reader and by the whole store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from evertick.model.instant import to_text
from evertick.stores.sql import sqlite_backup, sqlite_log

FULL: Final = "the file passed its full integrity check"
QUICK: Final = "the file passed its quick integrity check"


class Finding(NamedTuple):
    is_fine: bool
    text: str
    next_step: str = ""


def file_findings(path: Path) -> Iterator[Finding]:
    status = path.stat()
    if status.st_uid != os.geteuid():
        yield Finding(False, f"the file belongs to user {status.st_uid}, not to you ({os.geteuid()})", "chown it")
    if status.st_mode & 0o077:
        yield Finding(False, f"other users can read the file (mode {status.st_mode & 0o777:o})", f"chmod 600 {path}")
    if (dropped := sqlite_log.dropped_log_of(path)).exists():
        text = "commits were lost when the ledger was opened, because its write-ahead log was damaged"
        yield Finding(False, f"{text}: their occurrences may run again", f"check those jobs, then remove {dropped}")
    known = sqlite_backup.backups(path)
    if known:
        yield Finding(True, f"newest backup: {known[-1][1]}, made at {to_text(known[-1][0])}")
    else:
        yield Finding(False, "no backup exists", "evertick db backup --store URL, or let the scheduler run for a day")


def counts_text(entries: int, active: int, jobs: int, waiting: int) -> str:
    return f"entries: {entries:,} ({active:,} open), jobs: {jobs:,}, unanswered requests: {waiting:,}"

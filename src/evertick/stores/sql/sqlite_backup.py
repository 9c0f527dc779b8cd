"""Backups of a SQLite ledger, and how to restore a damaged one."""

from __future__ import annotations

import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from evertick.model.instant import DAY, Instant, from_text, to_datetime, to_text

KEEP_DAYS: Final = 7
_FORM: Final = "%Y%m%dT%H%M%SZ"


def folder_of(path: Path) -> Path:
    return path.with_name(path.name + ".backups")


def backups(path: Path) -> list[tuple[Instant, Path]]:
    """The backups of a ledger and when each was made, oldest first."""
    return sorted((_made_at(file), file) for file in folder_of(path).glob("*T*Z.db"))


def backup(path: Path, now: Instant, keep_days: int = KEEP_DAYS, every_us: int = DAY) -> Path | None:
    """Copy the ledger unless the newest copy is younger than this; returns its path."""
    known = backups(path)
    if known and now - known[-1][0] < every_us:
        return None
    folder = folder_of(path)
    folder.mkdir(mode=0o700, exist_ok=True)
    copy = folder / f"{to_datetime(now).strftime(_FORM)}.db"
    unfinished = copy.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    try:
        _copy(path, unfinished)
        unfinished.replace(copy)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync(folder)
    for made_at, old in known:
        if now - made_at > keep_days * DAY:
            old.unlink(missing_ok=True)
    return copy


def _copy(path: Path, target: Path) -> None:
    """A consistent copy, while others read and write."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # VACUUM INTO takes an empty file
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("VACUUM INTO ?", (str(target),))
    sync(target)


def sync(path: Path) -> None:
    """Make a file or the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _made_at(file: Path) -> Instant:
    stem = file.stem
    return from_text(f"{stem[:4]}-{stem[4:6]}-{stem[6:11]}:{stem[11:13]}:{stem[13:]}")


def way_out(path: Path, reason: str) -> str:
    """The message for a damaged ledger: how to restore it."""
    known = backups(path)
    here = shlex.quote(str(path))
    url = shlex.quote(f"sqlite:///{path.absolute()}")
    aside = f'for f in {here} {here}-wal {here}-shm; do [ -e "$f" ] && mv "$f" "$f.damaged"; done'
    said = (
        f"the ledger {path} failed its integrity check: {reason}. Evertick did not change it and does not start on it."
    )
    if known:
        made_at, _ = known[-1]
        return (
            f"{said}\nRestore the newest backup, made at {to_text(made_at)}, while no scheduler is running:\n"
            f"    evertick db restore --store {url}\n"
            "Each job's catch-up rule then decides about everything that was due since."
        )
    return (
        f"{said}\nThere is no backup in {folder_of(path)}. Save what can be read, while no scheduler is running:\n"
        f"    {aside}; sqlite3 {here}.damaged .recover | sqlite3 {here}\n"
        "To start with an empty ledger instead, run only the first part of that line."
    )

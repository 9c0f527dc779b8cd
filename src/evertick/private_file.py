"""How a small file that only its owner may read is changed, by several processes and across a crash."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evertick.errors import SettingsError

MODE = 0o600
SIZE_MAX = 16 << 20


def read_private(path: Path) -> bytes | None:
    """What it holds; None where it is not there. One that others may read is refused: it may be known to them."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        if os.fstat(fd).st_mode & 0o077:
            raise SettingsError(f"{path} is readable by other users. Next: chmod 600 {path}")
        return file.read(SIZE_MAX)


def write_private(path: Path, content: bytes) -> None:
    """The new content or the old one, never a part of it."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def own_key(path: Path) -> bytes:
    """The 32 secret bytes that this file holds, made when they are first needed."""
    with locked(path):
        known = read_private(path)
        if known is None or len(known) < 32:
            known = secrets.token_bytes(32)
            write_private(path, known)
    return known


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Exclusive access to a file: other processes wait. The lock is beside it, because the file is replaced."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a rename is on disk only after this."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

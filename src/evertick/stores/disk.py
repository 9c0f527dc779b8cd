"""Writes files so that a crash leaves the old or the new content, never a mixture."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime
from pathlib import Path

from evertick.errors import StoreUnavailable
from evertick.private_file import sync_folder

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def write_all(fd: int, content: bytes, offset: int) -> None:
    """Write at an offset, in as many calls as the kernel needs."""
    view = memoryview(content)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def read_all(fd: int, start: int, end: int) -> bytes:
    """The bytes between two offsets, in as many calls as the kernel needs."""
    pieces = []
    while start < end:
        piece = os.pread(fd, end - start, start)
        if not piece:
            raise OSError(errno.EIO, "the file is shorter than what was written to it")
        pieces.append(piece)
        start += len(piece)
    return b"".join(pieces)


def write_beside(path: Path, content: bytes) -> Path:
    """A durable new file next to `path`, to be renamed over it."""
    draft = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    try:
        write_all(fd, content, 0)
        os.fsync(fd)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)
    return draft


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file as a whole; readers see the old or the new one."""
    os.replace(write_beside(path, content), path)
    sync_folder(path.parent)


def read_if_there(path: Path) -> bytes | None:
    """The content of a file; None if it does not exist. A read error raises: it is not an empty file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror}. Check its owner and the disk, then start again."
        ) from error


def set_aside(path: Path) -> Path:
    """Rename an unusable file by the time of its last write, so that a person can inspect it."""
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y%m%dT%H%M%SZ")
    place = path.with_name(f"{path.name}.unreadable-{written}")
    number = 1
    while place.exists():
        number += 1
        place = path.with_name(f"{path.name}.unreadable-{written}-{number}")
    os.rename(path, place)
    sync_folder(path.parent)
    return place

"""The journal: one durable line for each write to the ledger since the last snapshot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from evertick.errors import StoreUnavailable
from evertick.private_file import sync_folder
from evertick.stores.disk import FILE_MODE, read_all, write_all
from evertick.stores.files.codec import Write, decode_write, encode_write, seal, unseal


class Journal:
    """An open journal; it is valid up to `end`."""

    def __init__(self, path: Path, end: int) -> None:
        self.path = path
        self.end = end
        self._fd = _open(path)
        self._has_leftovers = os.fstat(self._fd).st_size != end
        sync_folder(path.parent)

    def append(self, sequence: int, write: Write) -> None:
        """Make a write durable, or leave no trace of it and raise `StoreUnavailable`."""
        line = seal({"seq": sequence, **encode_write(write)})
        try:
            self._clear_leftovers()
            self._has_leftovers = True
            write_all(self._fd, line, self.end)
            os.fdatasync(self._fd)
        except OSError as error:
            with suppress(OSError):  # else before the next line
                self._clear_leftovers()
            raise StoreUnavailable(
                f"{self.path} cannot be written: {error.strerror}. Nothing is lost; planning pauses until "
                "it can be written. Free some space or repair the disk."
            ) from error
        self._has_leftovers = False
        self.end += len(line)

    def rotate(self, previous: Path, start: int) -> None:
        """Make this journal the previous one, and continue in a new one that begins with the writes from `start` on."""
        self._clear_leftovers()  # a line that was never acknowledged must not pass for the next one
        draft = self.path.with_name(f"{self.path.name}.tmp-{os.getpid()}")
        draft.unlink(missing_ok=True)
        fd = _open(draft)
        try:
            rest = read_all(self._fd, start, self.end)
            write_all(fd, rest, 0)
            os.fsync(fd)
            os.replace(self.path, previous)
            os.replace(draft, self.path)
        except OSError:
            os.close(fd)
            raise
        os.close(self._fd)
        self._fd, self.end, self._has_leftovers = fd, len(rest), False
        sync_folder(self.path.parent)

    def close(self) -> None:
        os.close(self._fd)

    def _clear_leftovers(self) -> None:
        """Remove what a failed write or a crash left after the last valid line."""
        if self._has_leftovers:
            os.ftruncate(self._fd, self.end)
            os.fsync(self._fd)
            self._has_leftovers = False


def _open(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    os.fchmod(fd, FILE_MODE)
    return fd


class Ending(Enum):
    """How a journal ends."""

    WHOLE = "whole"
    TORN = "torn"
    """In an unfinished line, which was never acknowledged."""
    BARE = "bare"
    """In a line that is complete except for its newline."""
    DAMAGED = "damaged"
    """In a finished line that cannot be read."""


class Lines(NamedTuple):
    writes: list[tuple[int, Write]]
    """Sequence numbers and writes."""
    end: int
    """The end of the last valid line."""
    ending: Ending
    unread: int
    """The number of lines after it."""


def read_lines(content: bytes) -> Lines:
    """The lines of a journal up to the first unreadable one."""
    writes: list[tuple[int, Write]] = []
    end = 0
    for line, is_finished in _split(content):
        known = _read(line)
        if known is None and not is_finished:
            # The line is whole if only its newline is missing, or is the byte that went wrong.
            known = _read(line[:-1])
        if known is None:
            unread = content.count(b"\n", end) + (not content.endswith(b"\n"))
            return Lines(writes, end, Ending.DAMAGED if is_finished else Ending.TORN, unread)
        writes.append(known)
        if not is_finished:
            return Lines(writes, end, Ending.BARE, 0)
        end += len(line) + 1
    return Lines(writes, end, Ending.WHOLE, 0)


def _split(content: bytes) -> Iterator[tuple[bytes, bool]]:
    *finished, rest = content.split(b"\n")
    for line in finished:
        yield line, True
    if rest:
        yield rest, False


def _read(line: bytes) -> tuple[int, Write] | None:
    document = unseal(line)
    if document is None:
        return None
    try:
        return document["seq"], decode_write(document)
    except (KeyError, TypeError, ValueError):
        return None

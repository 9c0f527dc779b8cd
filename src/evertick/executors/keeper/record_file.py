"""A few words that one process writes again and again, and others of the same machine read at any time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final
from zlib import crc32

from evertick.executors.keeper.procfs import boot_id

_SIZE: Final = 128
_TRIES: Final = 3
"""A reader may see half of a write: then the next look sees the whole of it."""


class RecordFile:
    """Kept open: a keeper that has no descriptor left must still be able to write it."""

    def __init__(self, path: Path) -> None:
        self._boot_id = boot_id()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def write(self, *words: int | str) -> None:
        """In place and in one call: a full disk does not matter, and a reader sees the record before or this one."""
        text = " ".join(map(str, (self._boot_id, *words)))
        line = f"{text} {crc32(text.encode())}".ljust(_SIZE - 1) + "\n"
        os.pwrite(self._fd, line.encode(), 0)

    def close(self) -> None:
        os.close(self._fd)


def read_record(path: Path) -> list[str] | None:
    """The words that were written last; None where there are none, or the machine was restarted since."""
    for _ in range(_TRIES):
        try:
            text = path.read_text().partition("\n")[0]
        except (OSError, UnicodeDecodeError):
            return None
        *words, checksum = text.split() or [""]
        if words and str(crc32(" ".join(words).encode())) == checksum:
            return words[1:] if words[0] == boot_id() else None
    return None

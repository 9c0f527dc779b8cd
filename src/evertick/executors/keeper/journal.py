"""The journal of a keeper: every change is written here before it is reported, for the next keeper to read.

Lines of JSON in `keeper.jsonl`. When the file is large enough it is archived as `keeper.<number>.jsonl`, and a new one
begins with the attempts that are still open. An archived file is removed once all its results were delivered and are
old enough; nothing is ever rewritten. A crash or a full disk may tear the last line, which is skipped then.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from evertick.private_file import sync_folder

Line: TypeAlias = Sequence[Any]
"""A verb and its fields; see `attempt_state`."""

CURRENT = "keeper.jsonl"
HEADER = "keeper"  # boot id, last number, last serial, delivered: the first line of each file
SERIAL = 3
"""The place of the last serial in it."""
_ARCHIVED = re.compile(r"keeper\.(\d+)\.jsonl")


class ArchivedFile(NamedTuple):
    """A file that is not written any more."""

    path: Path
    last_serial: int
    """Of the last result in it."""
    closed_at: float
    """On the clock that runs only while a scheduler is connected."""
    size: int


class Journal:
    """`append` queues lines; `flush` writes them, before anything in them is reported."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._waiting: list[str] = []
        self._unwritten = b""
        self._size = 0
        self._fd = -1
        self._number = 0
        self.archive: deque[ArchivedFile] = deque()
        self.problem: str | None = None
        """Why lines could not be written; None if all are."""

    def begin(self, opening: Iterable[Line], last_serial: int) -> None:
        """Archive the present file and begin a new one.

        The lines that follow are never synced: after a power loss, the boot in the first line says that some may be
        missing. So that line has to be on disk before any attempt is accepted.
        """
        archived = sorted(
            (int(found[1]), path) for path in self._folder.iterdir() if (found := _ARCHIVED.fullmatch(path.name))
        )
        following = [*(path for _, path in archived[1:]), self._folder / CURRENT]
        for (number, path), next_path in zip(archived, following, strict=False):
            self._number = max(self._number, number)
            # The file that follows begins with what was there before. To take the last serial of all for it would make
            # the removal of the oldest file forget every result.
            serial = _serial_before(next_path)
            known = last_serial if serial is None else serial
            self.archive.append(ArchivedFile(path, known, 0.0, path.stat().st_size))
        self.rotate(opening, last_serial, 0.0)
        os.fsync(self._fd)
        sync_folder(self._folder)
        sync_folder(self._folder.parent)

    @property
    def archived_bytes(self) -> int:
        return sum(file.size for file in self.archive)

    def append(self, *line: object) -> None:
        self._waiting.append(_dumps(line))

    def flush(self) -> bool:
        """Write what is queued; whether all of it was written. The rest stays queued."""
        if self._waiting:
            self._unwritten += ("\n".join(self._waiting) + "\n").encode("utf-8", "surrogatepass")
            self._waiting.clear()
        try:
            while self._unwritten:
                written = os.write(self._fd, self._unwritten)
                self._size += written
                self._unwritten = self._unwritten[written:]
        except OSError as error:
            self.problem = f"{self._folder / CURRENT}: {error.strerror}"
            return False
        self.problem = None
        return True

    @property
    def is_full(self) -> bool:
        return self._size >= self._max_bytes and not self._unwritten

    def remove(self, is_over: Callable[[ArchivedFile], bool]) -> int | None:
        """Remove the oldest archived files while they are over; the last serial that they held."""
        removed = None
        while self.archive and is_over(self.archive[0]):
            file = self.archive.popleft()
            file.path.unlink(missing_ok=True)
            removed = file.last_serial
        return removed

    def close(self) -> None:
        self.flush()
        os.close(self._fd)

    def rotate(self, opening: Iterable[Line], last_serial: int, now: float) -> None:
        """The old file has both names until the new one replaces it: a crash in between only repeats lines."""
        current, new = self._folder / CURRENT, self._folder / (CURRENT + ".new")
        text = "".join(_dumps(line) + "\n" for line in opening).encode("utf-8", "surrogatepass")
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        archived = self._folder / f"keeper.{self._number + 1:08}.jsonl"
        has_before = current.exists()
        try:
            if os.write(fd, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if has_before:
                os.link(current, archived)
            os.rename(new, current)
        except BaseException:
            os.close(fd)
            if has_before:
                archived.unlink(missing_ok=True)
            raise
        if has_before:
            self._number += 1
            self.archive.append(ArchivedFile(archived, last_serial, now, archived.stat().st_size))
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size = fd, len(text)


def _serial_before(path: Path) -> int | None:
    """The last serial when a file began, which its first line says; None where that line is damaged."""
    try:
        with path.open("rb") as file:
            first = next(_lines_of(file.readline()), ())
        return int(first[SERIAL]) if len(first) > SERIAL and first[0] == HEADER else None
    except (OSError, ValueError, TypeError):
        return None


def read_lines(folder: Path) -> Iterator[Line]:
    """Every complete line, oldest first."""
    archived = sorted((int(found[1]), path) for path in folder.iterdir() if (found := _ARCHIVED.fullmatch(path.name)))
    for path in (*(path for _, path in archived), folder / CURRENT):
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            continue
        yield from _lines_of(text)


class JournalTail:
    """Reads what another process appends to its current journal file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CURRENT
        self._file_id: tuple[int, int] | None = None
        self._offset = 0

    def read(self) -> tuple[bool, list[Line]]:
        """Whether the file is a new one, which begins with all open attempts; and the lines since the last read."""
        try:
            with self._path.open("rb", buffering=0) as file:
                found = os.fstat(file.fileno())
                is_new = (found.st_dev, found.st_ino) != self._file_id or found.st_size < self._offset
                if is_new:
                    self._file_id, self._offset = (found.st_dev, found.st_ino), 0
                file.seek(self._offset)
                text = file.read(max(found.st_size - self._offset, 0))
        except FileNotFoundError:
            return False, []
        whole = text.rpartition(b"\n")[0]
        self._offset += len(whole) + 1 if whole else 0
        return is_new, list(_lines_of(whole))


def _lines_of(text: bytes) -> Iterator[Line]:
    for row in text.split(b"\n"):
        try:
            line = json.loads(row)
        except ValueError:
            continue  # torn or damaged; the other lines are still valid
        if isinstance(line, list) and line:
            yield line


_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

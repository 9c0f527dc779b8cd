"""What a keeper writes down before it says it, so that the next one knows what this one did.

Lines of JSON in `keeper.jsonl`; when that is long enough it is put aside as `keeper.<number>.jsonl` and a new one begun
with the attempts that are still open. A file put aside is removed once all outcomes in it were delivered and are old
enough; nothing is ever rewritten. The last line may be torn, by a crash or a full disk, and is passed over then.
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

Line: TypeAlias = Sequence[Any]
"""A verb and what it says; see `book`."""

CURRENT = "keeper.jsonl"
_ASIDE = re.compile(r"keeper\.(\d+)\.jsonl")


class Aside(NamedTuple):
    """A file that is not written to any more."""

    path: Path
    last_serial: int
    closed_at: float
    """On the clock that only runs while a scheduler is connected."""


class Journal:
    """Appends lines; `flush` puts them on disk, before anything in them is told to anybody."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._waiting: list[str] = []
        self._unwritten = b""
        self._size = 0
        self._fd = -1
        self._number = 0
        self.asides: deque[Aside] = deque()
        self.trouble: str | None = None
        """Why lines are waiting to be written; None while all is well."""

    def begin(self, opening: Iterable[Line], last_serial: int) -> None:
        """Put what is there aside, and begin a new file."""
        aside = sorted(
            (int(found[1]), path) for path in self._folder.iterdir() if (found := _ASIDE.fullmatch(path.name))
        )
        for number, path in aside:
            self._number = max(self._number, number)
            self.asides.append(Aside(path, last_serial, 0.0))
        self._rotate(opening, last_serial, 0.0)

    def append(self, *line: Any) -> None:
        self._waiting.append(_dumps(line))

    def flush(self) -> bool:
        """Write what waits; answers whether everything is written. What is not stays, and is tried again."""
        if self._waiting:
            self._unwritten += ("\n".join(self._waiting) + "\n").encode("utf-8", "surrogatepass")
            self._waiting.clear()
        try:
            while self._unwritten:
                written = os.write(self._fd, self._unwritten)
                self._size += written
                self._unwritten = self._unwritten[written:]
        except OSError as error:
            self.trouble = f"{self._folder / CURRENT}: {error.strerror}"
            return False
        self.trouble = None
        return True

    @property
    def is_full(self) -> bool:
        return self._size >= self._max_bytes and not self._unwritten

    def rotate(self, opening: Iterable[Line], last_serial: int, now: float) -> None:
        self._rotate(opening, last_serial, now)

    def forget(self, is_over: Callable[[Aside], bool]) -> int | None:
        """Remove the oldest files as long as they are over; answers the last serial that went with them."""
        forgotten = None
        while self.asides and is_over(self.asides[0]):
            aside = self.asides.popleft()
            aside.path.unlink(missing_ok=True)
            forgotten = aside.last_serial
        return forgotten

    def close(self) -> None:
        self.flush()
        os.close(self._fd)

    def _rotate(self, opening: Iterable[Line], last_serial: int, now: float) -> None:
        """The old file has both names until the new one takes its place: a crash in between repeats lines only."""
        current, fresh = self._folder / CURRENT, self._folder / (CURRENT + ".new")
        text = "".join(_dumps(line) + "\n" for line in opening).encode("utf-8", "surrogatepass")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        aside = self._folder / f"keeper.{self._number + 1:08}.jsonl"
        has_before = current.exists()
        try:
            if os.write(fd, text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if has_before:
                os.link(current, aside)
            os.rename(fresh, current)
        except BaseException:
            os.close(fd)
            if has_before:
                aside.unlink(missing_ok=True)
            raise
        if has_before:
            self._number += 1
            self.asides.append(Aside(aside, last_serial, now))
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._size = fd, len(text)


def read_lines(folder: Path) -> Iterator[list[Any]]:
    """Every line that is whole, oldest first; the file being begun when the writer died comes last."""
    aside = sorted((int(found[1]), path) for path in folder.iterdir() if (found := _ASIDE.fullmatch(path.name)))
    for path in (*(path for _, path in aside), folder / CURRENT):
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            continue
        yield from _lines_of(text)


class JournalTail:
    """What another process has written to its current journal file, read bit by bit."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / CURRENT
        self._file_id: tuple[int, int] | None = None
        self._offset = 0

    def read(self) -> tuple[bool, list[list[Any]]]:
        """The lines since the last look; and whether they are of a new file, which begins with all that is open."""
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


def _lines_of(text: bytes) -> Iterator[list[Any]]:
    for row in text.split(b"\n"):
        try:
            line = json.loads(row)
        except ValueError:
            continue  # torn, or spoilt on disk: the other lines are still true
        if isinstance(line, list) and line:
            yield line


_dumps = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode

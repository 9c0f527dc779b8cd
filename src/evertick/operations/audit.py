"""Who did what, when, from where, and with which outcome: a file that only grows, each line sealed by the one before.

A file and not a table: it is written also when the ledger is away, it is the same for every store, and an operator can
make it append-only in the file system or ship it elsewhere line by line. The chain tells whether a line was changed,
removed or put in; it cannot tell that the last ones were cut off, which is why `head` may be noted elsewhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from evertick.model.instant import Instant, to_text
from evertick.operations.desk_scene import now_by_the_clock

FILE: Final = "audit.log"
GENESIS: Final = "0" * 64
LINE_MAX: Final = 16_384
TEXT_MAX: Final = 500
_BLOCK: Final = 65_536


class Verdict(NamedTuple):
    is_whole: bool
    lines: int
    head: str
    """The seal of the last line: noted elsewhere, it shows that nothing was cut off since."""
    broken_at: int | None = None
    """The number of the first line that does not follow from the one before."""


class Audit:
    """The audit log of a state folder. Several processes may write to it."""

    def __init__(self, state_folder: Path, now: Callable[[], Instant] = now_by_the_clock) -> None:
        self.path = state_folder / FILE
        self._now = now

    def write(
        self, by: str, action: str, target: str = "", *, origin: str = "", outcome: str = "", detail: Any = None
    ) -> None:
        """Add a line; it is on the disk when this returns."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            number, previous = _last(fd)
            line = {
                "number": number + 1,
                "at": to_text(self._now()),
                "by": _short(by),
                "from": _short(origin),
                "action": _short(action),
                "target": _short(target),
                "outcome": _short(outcome),
                "detail": _bounded(detail),
                "previous": previous,
            }
            os.write(fd, _encode({**line, "hash": seal(line)}))
            os.fsync(fd)
        finally:
            os.close(fd)

    def page(self, before: int | None = None, limit: int = 100) -> tuple[list[Mapping[str, Any]], int | None]:
        """Lines, newest first, from behind `before`; and where the next page begins, None when this was the last."""
        found: list[Mapping[str, Any]] = []
        for line in self._backwards():
            if before is not None and line.get("number", 0) >= before:
                continue
            if len(found) == limit:
                return found, int(found[-1]["number"])
            found.append(line)
        return found, None

    def verify(self) -> Verdict:
        """Follow the chain from its beginning."""
        number, previous = 0, GENESIS
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return Verdict(True, 0, GENESIS)
        with file:
            for text in file:
                line = _decode(text)
                if "broken" in line:
                    continue  # torn by a crash: a whole line in its place would be missed by its number
                number += 1
                claimed = line.pop("hash", None)
                if claimed != seal(line) or line.get("previous") != previous or line.get("number") != number:
                    return Verdict(False, number - 1, previous, number)
                previous = str(claimed)
        return Verdict(True, number, previous)

    def _backwards(self) -> Iterator[Mapping[str, Any]]:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        with open(fd, "rb") as file:
            for text in _lines_backwards(file.fileno(), os.fstat(fd).st_size):
                yield _decode(text)


def seal(line: Mapping[str, Any]) -> str:
    """What a line and all before it come down to."""
    text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _last(fd: int) -> tuple[int, str]:
    """The number and the seal of the last line. One that was cut short by a crash is ended."""
    size = os.fstat(fd).st_size
    if not size:
        return 0, GENESIS
    if os.pread(fd, 1, size - 1) != b"\n":
        os.write(fd, b"\n")
        size += 1
    for text in _lines_backwards(fd, size):
        line = _decode(text)
        if isinstance(line.get("number"), int) and isinstance(line.get("hash"), str):
            return line["number"], line["hash"]
    return 0, GENESIS


def _lines_backwards(fd: int, size: int) -> Iterator[bytes]:
    rest, end = b"", size
    while end > 0:
        start = max(end - _BLOCK, 0)
        rest = os.pread(fd, end - start, start) + rest
        end = start
        head, *lines = rest.split(b"\n")
        yield from (line for line in reversed(lines) if line)
        rest = head
        if len(rest) > 4 * LINE_MAX:
            rest = b""  # no line of ours is this long
    if rest:
        yield rest


def _encode(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def _decode(text: bytes) -> dict[str, Any]:
    try:
        line = json.loads(text)
    except ValueError:
        return {"broken": text[:200].decode("utf-8", "replace")}
    return line if isinstance(line, dict) else {"broken": str(line)[:200]}


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


def _bounded(detail: Any) -> Any:
    text = json.dumps(detail, ensure_ascii=True, default=str)
    return json.loads(text) if len(text) <= LINE_MAX // 2 else f"{text[:TEXT_MAX]}…"

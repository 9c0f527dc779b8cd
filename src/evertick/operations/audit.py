"""Who did what, when, from where, and with which outcome: an append-only file in which each line seals the one before.

A file and not a table: it can be written when the ledger is unavailable, it is the same for every store, and an
operator can make it append-only in the file system or ship it elsewhere line by line. The chain shows whether a line
was changed, removed or inserted. Its seals use a key, so that only its holder can make a chain; the ledger also stores
the end of the chain (`audit_head`), so that cut-off lines are detected. An action that cannot be recorded must not
happen: `prepare` checks beforehand whether a line can be written, and reserves disk space for it. A long file is
renamed to a name with the number of its first line, and the next file begins with a line that says so; the chain
continues through all of them. Renamed files may be moved away, oldest first: the rest can still be verified from its
first line.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from evertick.errors import AuditUnavailable
from evertick.model.instant import Instant, to_text
from evertick.model.plain_json import Json, JsonObject, parse_json
from evertick.operations.audit_head import Head, LedgerHead
from evertick.operations.context import now_by_the_clock
from evertick.private_file import own_key, sync_folder, write_private

FILE: Final = "audit.log"
KEY_FILE: Final = "audit.key"
RESERVE_FILE: Final = "audit.reserve"
RESERVE_BYTES: Final = 256 * 1024
"""Given back to a full disk, so that what was begun can still be noted."""
PART_BYTES: Final = 16 << 20
"""How long the file becomes before the next one begins: some forty thousand lines."""
CONTINUED: Final = "audit.continued"
"""What the first line of a file that is not the first says was done."""
GENESIS: Final = "0" * 64
LINE_MAX: Final = 16_384
TEXT_MAX: Final = 500
_BLOCK: Final = 65_536
_PART: Final = re.compile(r"audit\.[0-9]{12}\.log")
Line: TypeAlias = Mapping[str, Json]
"""A line of the log; one that a crash has torn has only `broken`."""

_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC


class Verdict(NamedTuple):
    is_whole: bool
    lines: int
    """How many follow from each other."""
    head: str
    """The seal of the last line: noted elsewhere, it shows that nothing was cut off since."""
    broken_at: int | None = None
    """The number of the first line that does not follow from the one before."""
    first: int = 1
    """The number of the first line that is there; what was before it was moved away."""
    missing: int = 0
    """How many lines at the end the ledger knows of that are not there, or not as they were."""


class _Link(NamedTuple):
    """Where a chain stands: the last line, and the seal that the next one must name."""

    number: int = 0
    seal: str = GENESIS


class Audit:
    """The audit log of a state folder. Several processes may write to it."""

    def __init__(
        self,
        state_folder: Path,
        now: Callable[[], Instant] = now_by_the_clock,
        part_bytes: int = PART_BYTES,
        *,
        key: bytes | None = None,
        head: Callable[[str], LedgerHead] | None = None,
    ) -> None:
        """`key` where it is kept elsewhere than in the folder; `head` makes the note in the ledger for a log's id."""
        self.path = state_folder / FILE
        self._now = now
        self._part_bytes = part_bytes
        self._reserve = state_folder / RESERVE_FILE
        self._key = key or own_key(state_folder / KEY_FILE)
        self._key_id = hashlib.sha256(b"evertick audit key " + self._key).hexdigest()[:16]
        self._head = None if head is None else head(self._key_id)

    def prepare(self) -> None:
        """Make sure that a line can be written; raises AuditUnavailable, and then the action must not happen."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o600))
            if not self._reserve.exists():
                # Random bytes: a file system that compresses would keep no room for zeros.
                write_private(self._reserve, secrets.token_bytes(RESERVE_BYTES))
        except OSError as error:
            raise AuditUnavailable(f"the audit log {self.path} cannot be written: {error.strerror}.") from error

    def write(
        self, by: str, action: str, target: str = "", *, origin: str = "", outcome: str = "", detail: object = None
    ) -> None:
        """Add a line; it is on the disk when this returns. Raises AuditUnavailable."""
        note = (by, action, target, origin, outcome, detail)
        try:
            try:
                head = self._write(*note)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self._reserve.unlink(missing_ok=True)
                head = self._write(*note)
        except OSError as error:
            raise AuditUnavailable(f"the audit log {self.path} cannot be written: {error.strerror}.") from error
        if self._head is not None:
            self._head.note(head)

    def close(self) -> None:
        if self._head is not None:
            self._head.flush()

    def _write(self, by: str, action: str, target: str, origin: str, outcome: str, detail: object) -> Head:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            with self._locked() as fd:
                size = os.fstat(fd).st_size
                if size < self._part_bytes:
                    link = self._last(fd)
                    if not size and link.number:
                        link = self._append(fd, link, "evertick", CONTINUED, f"line {link.number}", "", "", None)
                    return Head(*self._append(fd, link, by, action, target, origin, outcome, detail))
                os.rename(self.path, self.path.with_name(f"audit.{_first_number(fd):012}.log"))
                sync_folder(self.path.parent)

    def page(self, before: int | None = None, limit: int = 100) -> tuple[list[Line], int | None]:
        """Lines, newest first, from behind `before`; and where the next page begins, None when this was the last."""
        found: list[Line] = []
        for line in self._backwards(before):
            if before is not None and _number(line) >= before:
                continue
            if len(found) == limit:
                return found, next((number for one in reversed(found) if (number := _number(one))), None)
            found.append(line)
        return found, None

    def verify(self) -> Verdict:
        """Follow the chain from its beginning, or from the first file that was not moved away."""
        noted = None if self._head is None else self._head.read()  # before the log: it grows meanwhile
        verdict, seal_there = self._follow(None if noted is None else noted.number)
        if noted is None or not verdict.is_whole or (seal_there is not None and seal_there == noted.seal):
            return verdict
        last = verdict.first + verdict.lines - 1
        if noted.number < verdict.first:
            return verdict  # moved away
        return verdict._replace(
            is_whole=False, broken_at=min(noted.number, last + 1), missing=max(noted.number - last, 1)
        )

    def _follow(self, wanted: int | None) -> tuple[Verdict, str | None]:
        """The chain, and the seal of the line of that number."""
        link: _Link | None = None
        first, found = 1, None
        for fd in self._files():
            with open(os.dup(fd), "rb") as file:
                for text in file:
                    line = _decode(text)
                    if "broken" in line:
                        continue  # torn by a crash: a whole line in its place would be missed by its number
                    if link is None:
                        link = _beginning(line)
                        first = link.number + 1
                    claimed = line.pop("hash", None)
                    follows = line.get("previous") == link.seal and line.get("number") == link.number + 1
                    if not follows or not isinstance(claimed, str) or not self._is_sealed(line, claimed):
                        return Verdict(False, link.number + 1 - first, link.seal, link.number + 1, first), None
                    link = _Link(link.number + 1, claimed)
                    if link.number == wanted:
                        found = claimed
        link = link or _Link()
        return Verdict(True, link.number + 1 - first, link.seal, None, first), found

    def _is_sealed(self, line: Line, claimed: str) -> bool:
        return line.get("key") == self._key_id and hmac.compare_digest(claimed, seal(line, self._key))

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file to write to, locked against other writers."""
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _FLAGS, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if _is_at(fd, self.path):
                    yield fd
                    return
                # The file was renamed while this thread waited: write to the next one.
            finally:
                os.close(fd)

    def _append(
        self, fd: int, link: _Link, by: str, action: str, target: str, origin: str, outcome: str, detail: object
    ) -> _Link:
        line: JsonObject = {
            "number": link.number + 1,
            "at": to_text(self._now()),
            "by": _short(by),
            "from": _short(origin),
            "action": _short(action),
            "target": _short(target),
            "outcome": _short(outcome),
            "detail": _bounded(detail),
            "previous": link.seal,
            "key": self._key_id,
        }
        sealed = seal(line, self._key)
        text = _encode({**line, "hash": sealed})
        if os.write(fd, text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
        return _Link(link.number + 1, sealed)

    def _last(self, fd: int) -> _Link:
        """The last line: of this file, or where it has none yet, of the one that was put beside before it."""
        found = _last_of(fd)
        if found is None:
            for name in sorted(self._parts(), reverse=True):
                part = os.open(name, os.O_RDONLY | _FLAGS)
                try:
                    found = found or _last_of(part, may_write=False)
                finally:
                    os.close(part)
        return found or _Link()

    def _parts(self) -> list[Path]:
        if not self.path.parent.is_dir():
            return []
        return sorted(one for one in self.path.parent.iterdir() if _PART.fullmatch(one.name))

    def _files(self) -> Iterator[int]:
        """All files, oldest first. The newest is opened first: it may be put beside while the others are looked for."""
        newest = _open(self.path)
        try:
            known = None if newest is None else os.fstat(newest).st_ino
            for part in self._parts():
                fd = _open(part)
                if fd is None:
                    continue
                try:
                    if os.fstat(fd).st_ino != known:
                        yield fd
                finally:
                    os.close(fd)
            if newest is not None:
                yield newest
        finally:
            if newest is not None:
                os.close(newest)

    def _backwards(self, before: int | None) -> Iterator[Line]:
        """Newest first; files that hold nothing before a line are not read."""
        newest = _open(self.path)
        known = None if newest is None else os.fstat(newest).st_ino
        if newest is not None:
            with open(newest, "rb") as file:
                yield from map(_decode, _lines_backwards(file.fileno(), os.fstat(newest).st_size))
        for part in reversed(self._parts()):
            fd = _open(part)
            if fd is None:
                continue
            with open(fd, "rb"):
                is_other = os.fstat(fd).st_ino != known
                if is_other and (before is None or int(part.name.split(".")[1]) < before):
                    yield from map(_decode, _lines_backwards(fd, os.fstat(fd).st_size))


def seal(line: Line, key: bytes) -> str:
    """What a line and all before it come down to."""
    text = json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    return hmac.new(key, text, "sha256").hexdigest()


def _beginning(line: Line) -> _Link:
    """What the first line that is there must follow: nothing, or what it says was moved away."""
    number, previous = line.get("number"), line.get("previous")
    if line.get("action") == CONTINUED and isinstance(number, int) and isinstance(previous, str):
        return _Link(number - 1, previous)
    return _Link()


def _number(line: Line) -> int:
    """0 for a line that has none."""
    number = line.get("number")
    return number if isinstance(number, int) else 0


def _open(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | _FLAGS)
    except FileNotFoundError:
        return None


def _is_at(fd: int, path: Path) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


def _first_number(fd: int) -> int:
    """The number of the first whole line; 0 where there is none."""
    head = os.pread(fd, 4 * LINE_MAX, 0).split(b"\n")
    return next((number for line in map(_decode, head) if (number := _number(line))), 0)


def _last_of(fd: int, *, may_write: bool = True) -> _Link | None:
    """The last whole line. One that was cut short by a crash is ended."""
    size = os.fstat(fd).st_size
    if not size:
        return None
    if may_write and os.pread(fd, 1, size - 1) != b"\n":
        os.write(fd, b"\n")
        size += 1
    for text in _lines_backwards(fd, size):
        line = _decode(text)
        number, seal_of_line = line.get("number"), line.get("hash")
        if isinstance(number, int) and isinstance(seal_of_line, str):
            return _Link(number, seal_of_line)
    return None


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


def _encode(line: Line) -> bytes:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def _decode(text: bytes) -> JsonObject:
    try:
        line = json.loads(text)
    except ValueError:
        return {"broken": text[:200].decode("utf-8", "replace")}
    return line if isinstance(line, dict) else {"broken": str(line)[:200]}


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


def _bounded(detail: object) -> Json:
    text = json.dumps(detail, ensure_ascii=True, default=str)
    return parse_json(text) if len(text) <= LINE_MAX // 2 else f"{text[:TEXT_MAX]}…"

"""Whether SQLite drops commits because its write-ahead log is damaged.

After a crash SQLite reads its log up to the first frame with a wrong checksum, and forgets what follows without a word:
as a rule that is the write which the crash cut off. Each commit is synced before the next one is written, so more than
one dropped commit means that the log was damaged. The format: https://sqlite.org/fileformat2.html#walformat

Only the log is read here. SQLite's locks are on the two files beside it, and closing one of those would release them.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">4I8s2I")
"""Magic number, version, page size, sequence, salt, checksum."""
_FRAME: Final = struct.Struct(">2I8s8x")
"""Page, size of the file after a commit (else 0), salt, checksum."""


class Commits(NamedTuple):
    """What a log holds: its salt, which changes when it begins anew, and the frame that ends each commit."""

    salt: bytes
    frames: tuple[int, ...]


def dropped_log_of(path: Path) -> Path:
    """Where a damaged log is kept."""
    return path.with_name(path.name + "-wal.dropped")


def read_commits(path: Path) -> Commits | None:
    """The commits in the log of a ledger; call it before the ledger is opened. None: there is no log."""
    try:
        with path.with_name(path.name + "-wal").open("rb") as log:
            head = log.read(_HEADER.size)
            if len(head) < _HEADER.size:
                return None
            size = _FRAME.size + _HEADER.unpack(head)[2]
            count = (os.fstat(log.fileno()).st_size - _HEADER.size) // size
            heads = (os.pread(log.fileno(), _FRAME.size, _HEADER.size + number * size) for number in range(count))
            frames = [_FRAME.unpack(one) for one in heads if len(one) == _FRAME.size]
    except FileNotFoundError:
        return None
    if not frames:
        return None
    salt = _HEADER.unpack(head)[4] if _is_whole(head) else frames[0][2]
    return Commits(salt, tuple(number for number, (_, ends, its) in enumerate(frames, 1) if ends and its == salt))


def count_dropped(path: Path, before: Commits, last_frame: int) -> int:
    """How many commits SQLite dropped that were on disk before others followed; `last_frame` is the last it took."""
    now = read_commits(path)
    if now is None or now.salt != before.salt:
        return 0  # another process has begun the log anew
    return max(sum(frame > last_frame for frame in before.frames) - 1, 0)


def keep_log(path: Path) -> Path:
    """Copy the log of a ledger before the next commit writes over what was dropped."""
    kept = dropped_log_of(path)
    kept.touch(mode=0o600)
    shutil.copyfile(path.with_name(path.name + "-wal"), kept)
    return kept


def _is_whole(head: bytes) -> bool:
    """Whether the checksum of the header is right."""
    magic, *_, first, second = _HEADER.unpack(head)
    one = two = 0
    words = struct.unpack(f"{'>' if magic & 1 else '<'}6I", head[:24])
    for left, right in zip(words[::2], words[1::2], strict=True):
        one = (one + left + two) & 0xFFFFFFFF
        two = (two + right + one) & 0xFFFFFFFF
    return (one, two) == (first, second)

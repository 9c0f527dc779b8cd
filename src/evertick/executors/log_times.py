"""When the bytes of a log were written: a small index beside the log, with a record for each change of time.

A record says from which byte on the log was written at or after which instant. What precedes the first record was
written when the step started, so a step that prints only in its first moments has no index.
"""

from __future__ import annotations

import os
import struct
from typing import Final, NamedTuple

from evertick.model.instant import MILLISECOND, SECOND, Instant

TIMES_SUFFIX: Final = ".times"
NEAR_US: Final = 100 * MILLISECOND
"""Output within this time of a record has the time of that record."""
FAR_US: Final = SECOND
"""The same once there are many records: a day of steady output takes about a megabyte."""
FINE_MAX: Final = 5_000
TIMES_BYTES_MAX: Final = 8 * 1024 * 1024
_RECORD: Final = struct.Struct("<QQ")


class LogTime(NamedTuple):
    offset: int
    at: Instant


class TimeIndex:
    """Decides which records of a growing log are needed."""

    __slots__ = ("_count", "_last_at")

    def __init__(self, started_at: Instant) -> None:
        self._last_at, self._count = started_at, 0

    def is_due(self, now: Instant) -> bool:
        """Whether output at this time needs a record; also when the clock was set back."""
        near_us = NEAR_US if self._count < FINE_MAX else FAR_US
        if 0 <= now - self._last_at < near_us:
            return False
        self._last_at, self._count = now, self._count + 1
        return True


def append_time(folder: int, log_name: str, record: LogTime) -> None:
    """Add a record to the index of a log; the file is not kept open, because output may come once an hour."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(log_name + TIMES_SUFFIX, flags, 0o600, dir_fd=folder)
    try:
        os.write(fd, _RECORD.pack(*record))
    finally:
        os.close(fd)


def read_times(data: bytes) -> tuple[LogTime, ...]:
    """The records of an index in order; the rest of one that was cut off is left out."""
    whole = len(data) // _RECORD.size * _RECORD.size
    return tuple(LogTime(*record) for record in _RECORD.iter_unpack(data[:whole]))

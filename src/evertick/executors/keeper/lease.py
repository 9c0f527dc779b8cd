"""The lease of a keeper: until when it may run its attempts, on the clock since boot.

When the lease is over, other nodes may start the same runs. The keeper ends them before that, and a watchdog does it
for a keeper that was killed or hangs. Both read the lease from one file, so neither needs the other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from evertick.executors.keeper.procfs import boot_id

FILE: Final = "keeper.lease"
MARGIN_MIN_US, MARGIN_MAX_US = 200_000, 5_000_000
"""Between the steps of ending attempts: clocks run at different rates, and a busy machine is late."""
_RECORD_SIZE: Final = 128
_READ_TRIES: Final = 3
"""A reader may see half of a write; then it reads again."""


class Lease(NamedTuple):
    """Instants are in microseconds since boot, suspend included; `UNLIMITED` means no lease."""

    end_at: int
    """From then on processes are asked to end, and nothing new is started."""
    until: int
    """By then everything was killed."""
    epoch: int
    """Changes when the lease had expired in between: attempts of the epoch before may run on another node."""
    vouched_until: int = 0
    """Until then no other node starts an attempt that the ledger has not recorded; 0: it records all of them first."""

    @property
    def is_limited(self) -> bool:
        return self.until > 0

    def is_over(self, now: int) -> bool:
        return self.is_limited and now >= self.end_at

    @property
    def unconfirmed_end_at(self) -> int:
        """When attempts that the ledger has not recorded are killed."""
        return self.vouched_until - MARGIN_MIN_US * 4

    def grace_us(self, now: int, grace_us: int) -> int:
        """How much of the usual grace is left."""
        return max(0, min(grace_us, self.until - now - MARGIN_MIN_US))


UNLIMITED: Final = Lease(0, 0, 0)


def lease_from(asked_at: int, lease_us: int, grace_us: int, epoch: int, vouched_until: int = 0) -> Lease:
    """The keeper's share of a lease that was requested at `asked_at` (since boot) and lasts `lease_us` from then."""
    margin = min(max(lease_us // 10, MARGIN_MIN_US), MARGIN_MAX_US)
    until = asked_at + lease_us - margin
    return Lease(until - margin - min(grace_us, lease_us // 4), until, epoch, vouched_until)


class LeaseFile:
    def __init__(self, folder: Path) -> None:
        self._file = RecordFile(folder / FILE)

    def write(self, lease: Lease) -> None:
        self._file.write(lease.end_at, lease.until, lease.epoch)

    def close(self) -> None:
        self._file.close()


def read_lease(folder: Path) -> Lease:
    """The lease written last; `UNLIMITED` where there is none, or the machine was rebooted since."""
    match read_record(folder / FILE):
        case [end_at, until, epoch]:
            return Lease(int(end_at), int(until), int(epoch))
        case _:
            return UNLIMITED


class RecordFile:
    """A few words that one process overwrites and others of the same machine read at any time.

    Kept open: a keeper that has no descriptor left must still be able to write it.
    """

    def __init__(self, path: Path) -> None:
        self._boot_id = boot_id()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def write(self, *words: int | str) -> None:
        """In place and in one call: it needs no disk space, and a reader sees the old record or the new one."""
        text = " ".join(map(str, (self._boot_id, *words)))
        line = f"{text} {crc32(text.encode())}".ljust(_RECORD_SIZE - 1) + "\n"
        os.pwrite(self._fd, line.encode(), 0)

    def close(self) -> None:
        os.close(self._fd)


def read_record(path: Path) -> list[str] | None:
    """The words written last; None where there are none, or the machine was rebooted since."""
    for _ in range(_READ_TRIES):
        try:
            text = path.read_text().partition("\n")[0]
        except (OSError, UnicodeDecodeError):
            return None
        *words, checksum = text.split() or [""]
        if words and str(crc32(" ".join(words).encode())) == checksum:
            return words[1:] if words[0] == boot_id() else None
    return None

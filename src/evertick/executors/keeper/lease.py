"""Until when a keeper may go on running what it was given, by the clock that its whole machine shares.

Elsewhere the same runs may be started again once the lease is over. The keeper ends them before, and a watchdog does it
for a keeper that was killed or hangs; both read the lease from one file, so that neither needs the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from evertick.executors.keeper.record_file import RecordFile, read_record

FILE: Final = "keeper.lease"
MARGIN_MIN_US, MARGIN_MAX_US = 200_000, 5_000_000
"""Between the steps of ending: clocks run at different rates, and a busy machine is late."""


class Lease(NamedTuple):
    """Instants are microseconds since boot, suspend included; no lease at all is `UNLIMITED`."""

    end_at: int
    """From then on processes are asked to end, and nothing new is started."""
    until: int
    """Everything is gone by then, by force."""
    epoch: int
    """Another one means that the lease was over in between: what ran under the one before may run elsewhere."""
    vouched_until: int = 0
    """Until then the ledger lets nobody else start what it has not been told of yet; 0: it is told of everything."""

    @property
    def is_limited(self) -> bool:
        return self.until > 0

    def is_over(self, now: int) -> bool:
        return self.is_limited and now >= self.end_at

    @property
    def unconfirmed_end_at(self) -> int:
        """When processes are killed that the ledger does not know of."""
        return self.vouched_until - MARGIN_MIN_US * 4

    def grace_us(self, now: int, grace_us: int) -> int:
        """How much of the usual grace there is time for."""
        return max(0, min(grace_us, self.until - now - MARGIN_MIN_US))


UNLIMITED: Final = Lease(0, 0, 0)


def lease_from(asked_at: int, lease_us: int, grace_us: int, epoch: int, vouched_until: int = 0) -> Lease:
    """The keeper's part of a lease that was asked for at `asked_at` (since boot) and lasts `lease_us` from then on."""
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
    """The lease that was written last; `UNLIMITED` where there is none, or the machine was restarted since."""
    match read_record(folder / FILE):
        case [end_at, until, epoch]:
            return Lease(int(end_at), int(until), int(epoch))
        case _:
            return UNLIMITED

"""Attempts whose launch the ledger has not recorded yet, and the deadline of each.

Such an attempt is safe only while the process that launched it holds its buckets: the next owner of the bucket finds no
trace of it in the ledger and may start it again. So each attempt has its own deadline, and only a renewal by the
process that launched it extends the deadline; a later process on the same machine renews buckets of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from evertick.executors.keeper.lease import Lease, RecordFile, read_record

Run = TypeVar("Run", bound=Hashable)

NEVER: Final = 0
FILE: Final = "keeper.unconfirmed"
_NO_INSTANCE: Final = "-"


class Deadline(NamedTuple):
    instance: str
    """The process that launched the attempt."""
    end_at: int
    """In microseconds since boot; `NEVER` where the ledger records every attempt before its launch."""

    def is_over(self, now: int) -> bool:
        return self.end_at != NEVER and now >= self.end_at

    def renewed_by(self, newest: Deadline) -> Deadline:
        return newest if newest.instance == self.instance else self


class DeadlineSummary(NamedTuple):
    """What a watchdog needs beside the journal, which has each attempt's deadline at the time of its launch."""

    newest: Deadline
    """The last renewal: it applies to everything that its process has launched."""
    earliest: int
    """No deadline, of present attempts or of later launches under this renewal, is earlier; or `NEVER`."""


NO_DEADLINES: Final = DeadlineSummary(Deadline("", NEVER), NEVER)


class Unconfirmed(Generic[Run]):
    """Deadlines by the number of an attempt, or by any other key for it."""

    def __init__(self) -> None:
        self._deadlines: dict[Run, Deadline] = {}
        self._newest = Deadline("", NEVER)
        """The deadline of a launch that arrives now."""

    def renew(self, instance: str, lease: Lease) -> None:
        self._newest = Deadline(instance, lease.unconfirmed_end_at if lease.vouched_until else NEVER)
        for run, deadline in self._deadlines.items():
            self._deadlines[run] = deadline.renewed_by(self._newest)

    def has_room(self, instance: str, now: int) -> bool:
        """Whether that process may launch an attempt that the ledger has not recorded."""
        newest = self._newest
        return newest.end_at == NEVER or (newest.instance == instance and not newest.is_over(now))

    def add(self, run: Run, instance: str) -> Deadline:
        """That process launches the attempt, perhaps again: the process before it cannot extend it any more."""
        deadline = self._deadlines[run] = Deadline(instance, self._newest.end_at)
        return deadline

    def restore(self, run: Run, deadline: Deadline, newest: Deadline) -> None:
        """Take over the deadline of the keeper before, and the last renewal that it received."""
        self._deadlines[run] = deadline.renewed_by(newest)

    def discard(self, run: Run) -> None:
        self._deadlines.pop(run, None)

    def __contains__(self, run: Run) -> bool:
        return run in self._deadlines

    def __iter__(self) -> Iterator[Run]:
        return iter(self._deadlines)

    def is_over(self, run: Run, now: int) -> bool:
        return run in self._deadlines and self._deadlines[run].is_over(now)

    def over(self, now: int) -> list[Run]:
        return [run for run, deadline in self._deadlines.items() if deadline.is_over(now)]

    def ends(self) -> list[int]:
        return [deadline.end_at for deadline in self._deadlines.values() if deadline.end_at != NEVER]

    def summary(self) -> DeadlineSummary:
        ends = self.ends() if self._newest.end_at == NEVER else [self._newest.end_at, *self.ends()]
        return DeadlineSummary(self._newest, min(ends, default=NEVER))


class DeadlineFile:
    """Written with each renewal, so that a launch writes nothing but the journal."""

    def __init__(self, folder: Path) -> None:
        self._file = RecordFile(folder / FILE)

    def write(self, summary: DeadlineSummary) -> None:
        # In hex, because the other side chooses the text.
        instance = summary.newest.instance.encode("utf-8", "surrogatepass").hex() or _NO_INSTANCE
        self._file.write(instance, summary.newest.end_at, summary.earliest)

    def close(self) -> None:
        self._file.close()


def read_deadlines(folder: Path) -> DeadlineSummary:
    match read_record(folder / FILE):
        case [instance, end_at, earliest]:
            name = "" if instance == _NO_INSTANCE else bytes.fromhex(instance).decode("utf-8", "surrogatepass")
            return DeadlineSummary(Deadline(name, int(end_at)), int(earliest))
        case _:
            return NO_DEADLINES

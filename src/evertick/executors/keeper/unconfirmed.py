"""Which attempts does the ledger not know of yet, and when does each of them end?

Such an attempt is safe only while the process that launched it holds its buckets: afterwards their next owner finds
nothing of it in the ledger and may start it again. So the deadline belongs to the attempt, and only a renewal by that
process extends it; a process that comes after it on the same machine renews buckets of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from evertick.executors.keeper.lease import Lease
from evertick.executors.keeper.record_file import RecordFile, read_record

Run = TypeVar("Run", bound=Hashable)

NEVER: Final = 0
FILE: Final = "keeper.unconfirmed"
_NO_INSTANCE: Final = "-"


class Deadline(NamedTuple):
    instance: str
    """The process that launched it."""
    end_at: int
    """In microseconds since boot; `NEVER` where the ledger is told of everything before it is launched."""

    def is_over(self, now: int) -> bool:
        return self.end_at != NEVER and now >= self.end_at

    def renewed_by(self, newest: Deadline) -> Deadline:
        return newest if newest.instance == self.instance else self


class Outlook(NamedTuple):
    """What a watchdog has to know beside the journal, which has the deadline of each attempt as it was accepted."""

    newest: Deadline
    """The last renewal: it holds for all that its process has launched."""
    earliest: int
    """Nothing is over before that instant, nor will be what is launched under this renewal; or `NEVER`."""


NO_OUTLOOK: Final = Outlook(Deadline("", NEVER), NEVER)


class Unconfirmed(Generic[Run]):
    """By the number of an attempt, or whatever else stands for it."""

    def __init__(self) -> None:
        self._deadlines: dict[Run, Deadline] = {}
        self._newest = Deadline("", NEVER)
        """Of a launch that arrives now."""

    def renew(self, instance: str, lease: Lease) -> None:
        self._newest = Deadline(instance, lease.unconfirmed_end_at if lease.vouched_until else NEVER)
        for run, deadline in self._deadlines.items():
            self._deadlines[run] = deadline.renewed_by(self._newest)

    def has_room(self, instance: str, now: int) -> bool:
        """Whether that process may have something started that the ledger does not know of."""
        newest = self._newest
        return newest.end_at == NEVER or (newest.instance == instance and not newest.is_over(now))

    def add(self, run: Run, instance: str) -> Deadline:
        """It is launched by that process, perhaps once more: the one before it has no say in it any longer."""
        deadline = self._deadlines[run] = Deadline(instance, self._newest.end_at)
        return deadline

    def restore(self, run: Run, deadline: Deadline, newest: Deadline) -> None:
        """As the keeper before knew it; `newest` is the last renewal that it heard."""
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
        """When they have to be looked at."""
        return [deadline.end_at for deadline in self._deadlines.values() if deadline.end_at != NEVER]

    def outlook(self) -> Outlook:
        ends = self.ends() if self._newest.end_at == NEVER else [self._newest.end_at, *self.ends()]
        return Outlook(self._newest, min(ends, default=NEVER))


class OutlookFile:
    """Written with each renewal, so that nothing has to be written for a launch beside the journal."""

    def __init__(self, folder: Path) -> None:
        self._file = RecordFile(folder / FILE)

    def write(self, outlook: Outlook) -> None:
        # In hex: it is what the other side calls itself.
        instance = outlook.newest.instance.encode("utf-8", "surrogatepass").hex() or _NO_INSTANCE
        self._file.write(instance, outlook.newest.end_at, outlook.earliest)

    def close(self) -> None:
        self._file.close()


def read_outlook(folder: Path) -> Outlook:
    match read_record(folder / FILE):
        case [instance, end_at, earliest]:
            name = "" if instance == _NO_INSTANCE else bytes.fromhex(instance).decode("utf-8", "surrogatepass")
            return Outlook(Deadline(name, int(end_at)), int(earliest))
        case _:
            return NO_OUTLOOK

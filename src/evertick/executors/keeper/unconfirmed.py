"""Which attempts does the ledger not know of yet, and when does each of them end?

Such an attempt is safe only while the process that launched it holds its buckets: afterwards their next owner finds
nothing of it in the ledger and may start it again. So the deadline belongs to the attempt, and only a renewal by that
process extends it; a process that comes after it on the same machine renews buckets of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, NamedTuple, TypeVar

from evertick.executors.keeper.lease import Lease

Run = TypeVar("Run", bound=Hashable)

NEVER = 0


class Deadline(NamedTuple):
    instance: str
    """The process that launched it."""
    end_at: int
    """In microseconds since boot; `NEVER` where the ledger is told of everything before it is launched."""

    def is_over(self, now: int) -> bool:
        return self.end_at != NEVER and now >= self.end_at


class Unconfirmed(Generic[Run]):
    """By the number of an attempt, or whatever else stands for it."""

    def __init__(self) -> None:
        self._deadlines: dict[Run, Deadline] = {}
        self._newest = Deadline("", NEVER)
        """Of a launch that arrives now."""

    def renew(self, instance: str, lease: Lease) -> None:
        self._newest = Deadline(instance, lease.unconfirmed_end_at if lease.vouched_until else NEVER)
        for run, deadline in self._deadlines.items():
            if deadline.instance == instance:
                self._deadlines[run] = self._newest

    def has_room(self, instance: str, now: int) -> bool:
        """Whether that process may have something started that the ledger does not know of."""
        newest = self._newest
        return newest.end_at == NEVER or (newest.instance == instance and not newest.is_over(now))

    def add(self, run: Run, instance: str) -> Deadline:
        """It is launched by that process, perhaps once more: the one before it has no say in it any longer."""
        deadline = self._deadlines[run] = Deadline(instance, self._newest.end_at)
        return deadline

    def restore(self, run: Run, deadline: Deadline) -> None:
        self._deadlines[run] = deadline

    def discard(self, run: Run) -> None:
        self._deadlines.pop(run, None)

    def __contains__(self, run: Run) -> bool:
        return run in self._deadlines

    def __iter__(self) -> Iterator[Run]:
        return iter(self._deadlines)

    def over(self, now: int) -> list[Run]:
        return [run for run, deadline in self._deadlines.items() if deadline.is_over(now)]

    def ends(self) -> list[int]:
        """When they have to be looked at."""
        return [deadline.end_at for deadline in self._deadlines.values() if deadline.end_at != NEVER]

"""Which runs are due at which instant, for the near future."""

from __future__ import annotations

from collections import defaultdict
from heapq import heappop, heappush
from typing import Generic, TypeVar

from evertick.model.instant import Instant

Item = TypeVar("Item")


class Ring(Generic[Item]):
    """Slots by instant, each with the runs due at it.

    A slot is an instant, not an instant modulo a revolution: after a stall of any length, what came due meanwhile is
    taken next, in order. Thousands of runs at one instant cost one place in the heap.
    """

    __slots__ = ("_instants", "_size", "_slots")

    def __init__(self) -> None:
        self._slots: defaultdict[Instant, list[Item]] = defaultdict(list)
        self._instants: list[Instant] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, instant: Instant, item: Item) -> None:
        slot = self._slots[instant]
        if not slot:
            heappush(self._instants, instant)
        slot.append(item)
        self._size += 1

    def take(self, now: Instant) -> list[Item]:
        """The runs of the oldest due instant; empty if nothing is due.

        One instant at a time, so that runs of one instant may end before the next is decided, however late both are.
        """
        if not self._instants or self._instants[0] > now:
            return []
        items = self._slots.pop(heappop(self._instants))
        self._size -= len(items)
        return items

    def next_at(self) -> Instant | None:
        return self._instants[0] if self._instants else None

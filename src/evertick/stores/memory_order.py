"""Rows in time order: a list that is sorted when it is read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TypeAlias

from evertick.model.instant import Instant
from evertick.model.run import RunKey

Place: TypeAlias = tuple[Instant, str, str]
"""A key as the ledger is sorted: (scheduled_for, job_id, origin)."""


def place_of(key: RunKey) -> Place:
    job_id, at, origin = key
    return at, job_id, origin


def next_place(place: Place) -> Place:
    """The first place behind this one."""
    at, job_id, origin = place
    return at, job_id, origin + "\0"


class TimeOrder:
    """Writing is quick, and reading pays for what was written since, not for what is there."""

    __slots__ = ("_added", "_removed", "_sorted")

    def __init__(self) -> None:
        self._sorted: list[Place] = []
        self._added: list[Place] = []
        self._removed: set[Place] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._added) - len(self._removed)

    def add(self, place: Place) -> None:
        if place in self._removed:
            self._removed.discard(place)  # it is still in one of the lists
        else:
            self._added.append(place)

    def remove(self, place: Place) -> None:
        self._removed.add(place)

    def stretch(self, low: Place | None, high: Place | None, count: int, *, oldest_first: bool) -> list[Place]:
        """Up to so many from `low` on and before `high`: the first of them, or the last, and then the last first."""
        self._settle()
        start = 0 if low is None else bisect_left(self._sorted, low)
        end = len(self._sorted) if high is None else bisect_left(self._sorted, high)
        if oldest_first:
            return self._sorted[start : min(end, start + count)]
        return self._sorted[max(start, end - count) : end][::-1]

    def _settle(self) -> None:
        if self._removed:
            removed, places = self._removed, self._sorted
            low, high = bisect_left(places, min(removed)), bisect_right(places, max(removed))
            places[low:high] = [place for place in places[low:high] if place not in removed]
            self._added = [place for place in self._added if place not in removed]
            self._removed = set()
        if self._added:
            self._added.sort()
            # What is new is late in time, and so is what it must be put between.
            low = bisect_left(self._sorted, self._added[0])
            self._sorted[low:] = sorted(self._sorted[low:] + self._added)
            self._added = []

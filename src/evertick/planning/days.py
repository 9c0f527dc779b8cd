"""Which day of a zone an instant is on, and when a day begins and ends there.

Days are judged by the clock on the wall: a change at midnight may make a day begin at 01:00, or come twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from evertick.model.calendar import Day
from evertick.model.instant import SECOND, Instant
from evertick.planning.zones import DAY, HORIZON, offset_intervals, read_zone

_SLACK = 2 * DAY
"""Further than this no local time is from UTC."""


class DayPiece(NamedTuple):
    """From `start` up to and without `end` it is this day, without a change of the clock."""

    start: Instant
    end: Instant
    day: Day


class ZoneDays:
    """The days of one zone."""

    __slots__ = ("_intervals", "_name", "_starts")

    def __init__(self, name: str) -> None:
        self._name = name
        self._intervals = offset_intervals(name)
        self._starts = [interval.start for interval in self._intervals]

    def day_of(self, instant: Instant) -> Day:
        second = instant // SECOND
        return (second + self._offset(second)) // DAY

    def first_instant(self, day: Day) -> Instant:
        """The first instant of a day; of one that a change skipped, the change."""
        local = day * DAY
        number = max(bisect_right(self._starts, local - _SLACK) - 1, 0)
        while number + 1 < len(self._intervals):
            start, end, offset = self._intervals[number]
            if end + offset > local:
                return max(start, local - offset) * SECOND
            number += 1
        return max(self._intervals[-1].start, local - self._intervals[-1].offset) * SECOND

    def end_instant(self, day: Day) -> Instant:
        """The instant behind the last one of a day."""
        local = (day + 1) * DAY
        number = bisect_right(self._starts, local + _SLACK) - 1
        while number > 0:
            start, end, offset = self._intervals[number]
            if start + offset < local:
                return min(end, local - offset) * SECOND
            number -= 1
        return (local - self._intervals[0].offset) * SECOND

    def pieces(self, start: Instant, end: Instant) -> Iterator[DayPiece]:
        """The days of `(start, end]` in order."""
        at = start + 1
        while at <= end:
            number = max(bisect_right(self._starts, at // SECOND) - 1, 0)
            interval = self._intervals[number]
            day = (at // SECOND + interval.offset) // DAY
            midnight = (day + 1) * DAY - interval.offset
            is_last = number + 1 == len(self._intervals)
            stop = min((midnight if is_last else min(midnight, interval.end)) * SECOND, end + 1)
            yield DayPiece(at, stop, day)
            at = stop

    def same_time(self, instant: Instant, day: Day) -> Instant | None:
        """The instant of the same local time on another day, by the rule for fixed times; None beyond the horizon."""
        second, rest = divmod(instant, SECOND)
        local = day * DAY + (second + self._offset(second)) % DAY
        starts, stretches = read_zone(self._name, as_wildcard=False)
        if not 0 <= local < HORIZON - _SLACK:
            return None
        number = max(bisect_right(starts, local - _SLACK) - 1, 0)
        for later in range(number, len(stretches)):
            stretch = stretches[later]
            if local < stretch.end + stretch.offset:
                return max(local - stretch.offset, stretch.start) * SECOND + rest
        return None

    def _offset(self, second: int) -> int:
        return self._intervals[max(bisect_right(self._starts, second) - 1, 0)].offset


@lru_cache(maxsize=1_024)
def days_in(zone: str) -> ZoneDays:
    return ZoneDays(zone)

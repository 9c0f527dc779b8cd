"""Which seconds of a calendar match, counted in local time and knowing nothing of zones.

A pattern is days times times of day. Both parts are shared between all expressions that have them in common, and
all days of 1969 to 2201 come from at most fourteen tables, one per kind of year (the weekday it begins on, leap or
not). A search is two bisections; it can look at no more than 233 years.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import isleap
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from evertick.planning.zones import DAY

_FLAT_MAX = 1440
"""Times of day kept in one table; above it, minutes and seconds are kept apart, so no table grows beyond it."""
_MINUTES = tuple(range(0, DAY, 60))  # one set of integers for every table of whole minutes

_YEARS = range(1969, 2202)
_EPOCH = date(1970, 1, 1).toordinal()
_YEAR_START = tuple(date(year, 1, 1).toordinal() - _EPOCH for year in _YEARS)
_YEAR_KIND = tuple((date(year, 1, 1).isoweekday() % 7, isleap(year)) for year in _YEARS)
_BIAS = -_YEAR_START[0]
_YEAR_OF_DAY = b"".join(bytes([index]) * (366 if isleap(year) else 365) for index, year in enumerate(_YEARS))
_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class DayRule(NamedTuple):
    """The three day fields. Sets of numbers are bit masks: bit 1 of `month_days` is the first, bit 0 of
    `weekdays` is Sunday."""

    month_days: int
    months: int
    weekdays: int
    needs_both: bool
    """Whether day of month and weekday must both match; else either will do."""
    last_day: bool = False
    last_workday: bool = False
    nearest_workdays: int = 0
    """Bit n: the weekday (Monday to Friday) nearest to the n-th, in its month."""
    last_weekdays: int = 0
    """Bit d: the last weekday d of the month."""
    nth_weekdays: frozenset[tuple[int, int]] = frozenset()
    """(d, n): the n-th weekday d of the month."""

    def days_of_month(self, length: int, first_weekday: int) -> int:
        """The matching days of a month that has `length` days and begins on `first_weekday`, bit 0 the first."""
        by_date = self._by_date(length, first_weekday)
        by_weekday = self._by_weekday(length, first_weekday)
        both = by_date & by_weekday if self.needs_both else by_date | by_weekday
        return both & ((1 << length) - 1)

    def _by_date(self, length: int, first_weekday: int) -> int:
        days = self.month_days >> 1
        if self.last_day:
            days |= 1 << (length - 1)
        if self.last_workday:
            days |= 1 << (_nearest_workday(length, length, first_weekday) - 1)
        for day in range(1, length + 1):
            if self.nearest_workdays >> day & 1:
                days |= 1 << (_nearest_workday(day, length, first_weekday) - 1)
        return days

    def _by_weekday(self, length: int, first_weekday: int) -> int:
        # Six weeks of the seven-bit pattern, moved so that bit 0 is the weekday of the first.
        days = sum(self.weekdays << week * 7 for week in range(6)) >> first_weekday
        for weekday in range(7):
            if self.last_weekdays >> weekday & 1:
                days |= 1 << (length - 1 - (first_weekday + length - 1 - weekday) % 7)
        for weekday, nth in self.nth_weekdays:
            days |= 1 << ((weekday - first_weekday) % 7 + (nth - 1) * 7)
        return days


def _nearest_workday(day: int, length: int, first_weekday: int) -> int:
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:  # Saturday: the Friday before, unless that is another month
        return day - 1 if day > 1 else day + 2
    if weekday == 0:  # Sunday: the Monday after, unless that is another month
        return day + 1 if day < length else day - 2
    return day


@lru_cache(maxsize=8192)
def _days_of_year(rule: DayRule, first_weekday: int, is_leap: bool) -> tuple[int, ...]:
    """The matching days of a kind of year, January the first being 0."""
    year, start = 0, 0
    for month, usual in enumerate(_MONTH_LENGTHS, 1):
        length = usual + (is_leap and month == 2)
        if rule.months >> month & 1:
            year |= rule.days_of_month(length, (first_weekday + start) % 7) << start
        start += length
    digits = bin(year)
    last = len(digits) - 1
    return tuple([last - place for place in range(last, 1, -1) if digits[place] == "1"])


@lru_cache(maxsize=4096)
def _rows_of(_rule: DayRule) -> list[tuple[int, ...] | None]:
    """Room for the matching days of each year, filled as years are asked for, one list per rule."""
    return [None] * len(_YEARS)


class Pattern:
    """A set of local seconds: every time of day in the tables, on every day of the rule."""

    __slots__ = ("_minutes", "_rows", "_rule", "_seconds", "first_time", "last_time", "per_day", "times")

    def __init__(self, rule: DayRule, minutes: tuple[int, ...], seconds: tuple[int, ...]) -> None:
        self._rule = rule
        self._rows = _rows_of(rule)
        self.per_day = len(minutes) * len(seconds)
        self.times: tuple[int, ...] | None = None
        """All matching times of day, where they fit one table."""
        if seconds == (0,):
            self.times = minutes
        elif self.per_day <= _FLAT_MAX:
            self.times = tuple([minute + second for minute in minutes for second in seconds])
        self._minutes = minutes
        self._seconds = seconds
        self.first_time = minutes[0] + seconds[0]
        self.last_time = minutes[-1] + seconds[-1]

    def can_match(self) -> bool:
        """Whether there is a matching day in any kind of year."""
        # The first of them is nearly always enough; 1970 to 2010 has all fourteen kinds.
        return bool(self._rows[1] or any(self._row(year) for year in range(1, 42)))

    def at_or_after(self, local: int) -> int | None:
        """The first match that is not before `local`."""
        day = local // DAY
        year = _YEAR_OF_DAY[day + _BIAS]
        start = _YEAR_START[year]
        row = self._rows[year]
        if row is None:
            row = self._row(year)
        place = bisect_left(row, day - start)
        if place < len(row):
            found = start + row[place]
            if found != day:
                return found * DAY + self.first_time
            time = local - day * DAY
            if time <= self.last_time:
                return day * DAY + self._time_from(time)
            if place + 1 < len(row):
                return (start + row[place + 1]) * DAY + self.first_time
        for later in range(year + 1, len(_YEARS)):
            row = self._row(later)
            if row:
                return (_YEAR_START[later] + row[0]) * DAY + self.first_time
        return None

    def before(self, local: int) -> int | None:
        """The last match that is before `local`."""
        day = (local - 1) // DAY
        year = _YEAR_OF_DAY[day + _BIAS]
        place = bisect_right(self._row(year), day - _YEAR_START[year])
        while True:
            while place == 0:
                if year == 0:
                    return None
                year -= 1
                place = len(self._row(year))
            place -= 1
            found = _YEAR_START[year] + self._row(year)[place]
            time = self._time_before(local - found * DAY)
            if time is not None:
                return found * DAY + time

    def count(self, low: int, high: int) -> int:
        """How many matches there are from `low` up to `high`."""
        first, last = low // DAY, high // DAY
        total = self._count_days(first, last) * self.per_day
        if self._has_day(first):
            total -= self._count_times(low - first * DAY)
        if self._has_day(last):
            total += self._count_times(high - last * DAY)
        return total

    def count_days(self, low: int, days: int) -> list[int]:
        """How many matches there are in each of consecutive stretches of 24 hours, the first from `low` on."""
        first = low // DAY
        before = self._count_times(low - first * DAY)
        behind = self.per_day - before
        has_days = [self._has_day(day) for day in range(first, first + days + 1)]
        return [behind * has_day + before * has_next for has_day, has_next in pairwise(has_days)]

    def collect(self, low: int, high: int, offset: int) -> list[int]:
        """The matches from `low` up to `high`, each less `offset`."""
        first, last = low // DAY, (high - 1) // DAY
        times = self.times
        if times is None:
            return [at - offset for day in self._days(first, last) for at in self._dense(day * DAY, low, high)]
        if first == last:
            if not self._has_day(first):
                return []
            shift = first * DAY
            chosen = times[bisect_left(times, low - shift) : bisect_left(times, high - shift)]
            shift -= offset
            return [shift + time for time in chosen]
        found: list[int] = []
        for day in self._days(first, last):
            chosen = times
            if day in (first, last):
                chosen = times[bisect_left(times, low - day * DAY) : bisect_left(times, high - day * DAY)]
            shift = day * DAY - offset
            found += [shift + time for time in chosen]
        return found

    def window(self, local: int) -> tuple[int, tuple[int, ...]]:
        """A table of times that holds the match `local`, and the local second it counts from."""
        if self.times is not None:
            return local // DAY * DAY, self.times
        return local // 60 * 60, self._seconds

    def _row(self, year: int) -> tuple[int, ...]:
        row = self._rows[year]
        if row is None:
            row = self._rows[year] = _days_of_year(self._rule, *_YEAR_KIND[year])
        return row

    def _has_day(self, day: int) -> bool:
        year = _YEAR_OF_DAY[day + _BIAS]
        row = self._rows[year]
        if row is None:
            row = self._row(year)
        day -= _YEAR_START[year]
        place = bisect_left(row, day)
        return place < len(row) and row[place] == day

    def _days(self, first: int, last: int) -> Iterator[int]:
        """The matching days from `first` to `last`."""
        for year in range(_YEAR_OF_DAY[first + _BIAS], _YEAR_OF_DAY[last + _BIAS] + 1):
            row, start = self._row(year), _YEAR_START[year]
            for day in row[bisect_left(row, first - start) : bisect_right(row, last - start)]:
                yield start + day

    def _count_days(self, first: int, last: int) -> int:
        """How many days match from `first` up to `last`."""
        total = 0
        for year in range(_YEAR_OF_DAY[first + _BIAS], _YEAR_OF_DAY[last + _BIAS] + 1):
            row, start = self._row(year), _YEAR_START[year]
            total += bisect_left(row, last - start) - bisect_left(row, first - start)
        return total

    def _time_from(self, time: int) -> int:
        """The first time of day that is not before `time`, which is not after the last one."""
        times = self.times
        if times is not None:
            return times[bisect_left(times, time)]
        minutes, seconds = self._minutes, self._seconds
        place = bisect_right(minutes, time) - 1
        if place >= 0 and time - minutes[place] <= seconds[-1]:
            return minutes[place] + seconds[bisect_left(seconds, time - minutes[place])]
        return minutes[place + 1] + seconds[0]

    def _time_before(self, time: int) -> int | None:
        """The last time of day before `time`."""
        minutes, seconds = self._minutes, self._seconds
        place = bisect_left(minutes, time) - 1
        if place >= 0 and time - minutes[place] <= seconds[0]:
            place -= 1
        if place < 0:
            return None
        return minutes[place] + seconds[bisect_left(seconds, time - minutes[place]) - 1]

    def _count_times(self, time: int) -> int:
        """How many times of day are before `time`."""
        place = bisect_left(self._minutes, time)
        if place == 0:
            return 0
        return (place - 1) * len(self._seconds) + bisect_left(self._seconds, time - self._minutes[place - 1])

    def _dense(self, midnight: int, low: int, high: int) -> Iterator[int]:
        """The matches of one day from `low` up to `high`, minute by minute."""
        minutes = self._minutes
        for minute in minutes[max(0, bisect_right(minutes, low - midnight) - 1) :]:
            start = midnight + minute
            if start >= high:
                return
            for second in self._seconds:
                if low <= start + second < high:
                    yield start + second


@lru_cache(maxsize=4096)
def _minutes_of_day(hours: tuple[int, ...], minutes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([_MINUTES[hour * 60 + minute] for hour in hours for minute in minutes])


def pattern_of(rule: DayRule, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]) -> Pattern:
    """The pattern of sorted hours, minutes and seconds on the days of a rule; large ones that are equal are one."""
    if len(hours) == len(minutes) == len(seconds) == 1:
        return Pattern(rule, _minutes_of_day(hours, minutes), seconds)  # smaller than its place in a cache
    return _shared_pattern(rule, hours, minutes, seconds)


@lru_cache(maxsize=4096)
def _shared_pattern(
    rule: DayRule, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]
) -> Pattern:
    return Pattern(rule, _minutes_of_day(hours, minutes), seconds)

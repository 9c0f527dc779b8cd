"""When does a cron expression fire, in its zone, across every change of the clock?

One search serves the planner, catch-up, backfill, previews and pages. It works on whole UTC seconds: a shared
pattern says which local seconds match, a reading of the zone says when local seconds happen, and this class joins
the two. Fire times are exact from 1970 through 2200; there are none outside.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime
from math import floor
from typing import NoReturn, TypeAlias
from zoneinfo import ZoneInfo

from evertick.errors import CronError, DefinitionError, InvalidArgument
from evertick.planning.cron_field import clip
from evertick.planning.cron_grammar import Expression, read_expression
from evertick.planning.cron_notes import DstNote, notes_between
from evertick.planning.cron_pattern import Pattern, pattern_of
from evertick.planning.cron_text import describe_expression
from evertick.planning.zones import DAY, Reading, Stretch, find_zone, read_zone

__all__ = ["Cron", "DstNote", "Window"]

Window: TypeAlias = tuple[int, int, int, tuple[int, ...]]
"""(low, high, base, table): what follows any second from `low` up to `high` is `base` plus an entry of `table`."""

_at = datetime.fromtimestamp


class _Memo:
    """Where the last search ended, so that the next one can begin there. Never more than a shortcut:
    each part is one tuple, replaced as a whole, so any thread may use or replace it."""

    __slots__ = ("answer", "place", "reading", "window")

    def __init__(self) -> None:
        self.reading: Reading | None = None
        # The last answer as it was given and in seconds: who walks from fire to fire hands it back.
        self.answer: tuple[datetime | None, int] = (None, 0)
        # The stretch of the last match: (start, end, offset, number).
        self.place = (0, 0, 0, 0)
        self.window: Window = (0, 0, 0, ())


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression in a zone. Made by `Cron.parse`; equal when text, zone and hashed name are."""

    text: str
    timezone: str
    name: str
    """What `H` was hashed from; empty without an `H`, so that equal schedules of different jobs are equal."""
    is_wildcard: bool = field(compare=False)
    _zone: ZoneInfo = field(compare=False, repr=False)
    _pattern: Pattern = field(compare=False, repr=False)
    _memo: _Memo = field(compare=False, repr=False)

    @classmethod
    def parse(cls, text: str, timezone: str = "UTC", name: str = "") -> Cron:
        """Read an expression; a `CRON_TZ=Zone` before it goes before `timezone`."""
        expression = read_expression(text, name)
        zone_name = expression.zone or timezone
        try:
            zone = find_zone(zone_name)
        except DefinitionError as error:
            raise CronError(f"cron {clip(text)!r}: {error.reason}", hint=error.hint, field=error.field) from None
        pattern = pattern_of(expression.days, expression.hours, expression.minutes, expression.seconds)
        if not pattern.can_match():
            raise CronError(
                f"cron {clip(text)!r} can never fire: no month has such a day.",
                hint="Check the day-of-month, month and day-of-week fields against each other.",
            )
        hashed = name if expression.uses_name else ""
        return cls(expression.text, zone_name, hashed, expression.is_wildcard, zone, pattern, _Memo())

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire strictly after an aware datetime, in the schedule's zone; None after the year 2200."""
        memo = self._memo
        last, second = memo.answer
        found = self.next_second(second if moment is last else _whole_second(moment))
        if found is None:
            return None
        answer = _at(found, self._zone)
        memo.answer = (answer, found)
        return answer

    def between(self, start: datetime, end: datetime) -> list[datetime]:
        """The fires after `start`, up to and including `end`."""
        zone = self._zone
        return [_at(found, zone) for found in self.seconds_between(_whole_second(start), _whole_second(end))]

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """The next `count` fires after a moment; fewer where the schedule ends."""
        found: list[datetime] = []
        second = self.next_second(_whole_second(after))
        while second is not None and len(found) < count:
            found.append(_at(second, self._zone))
            second = self.next_second(second)
        return found

    def describe(self) -> str:
        """The schedule in English."""
        return describe_expression(self._expression(), self.timezone)

    def dst_notes(self, start: datetime, end: datetime) -> list[DstNote]:
        """What changes of the clock do to this schedule after `start`, up to and including `end`."""
        return notes_between(
            self._pattern, self.timezone, _whole_second(start), _whole_second(end), is_wildcard=self.is_wildcard
        )

    def next_second(self, after: int) -> int | None:
        """The first fire strictly after a second since the epoch; None after the year 2200."""
        memo = self._memo
        low, high, base, table = memo.window
        if low <= after < high:
            return base + table[bisect_right(table, after - base)]
        start, end, offset, number = memo.place
        if start <= after < end:
            pattern = self._pattern
            local = pattern.at_or_after(after + 1 + offset)
            if local is not None:
                found = local - offset
                if found < end:
                    if pattern.per_day > 1:
                        self._remember(local, start, end, offset)
                    return found
                # The match is also valid in a later period, as long as local time is continuous between the two.
                _, stretches = self._reading()
                local_end = end + offset
                for later in range(number + 1, min(number + 4, len(stretches))):
                    start, end, offset, covers_from = stretches[later]
                    if not local_end <= covers_from <= local:
                        break
                    if local - offset < end:
                        memo.place = (start, end, offset, later)
                        return max(local - offset, start)
                    local_end = end + offset
        return self._search_forward(after)

    @property
    def window(self) -> Window:
        """Where the searches near the last one find their answer; empty if it left nothing to use again."""
        return self._memo.window

    def previous_second(self, before: int) -> int | None:
        """The last fire strictly before a second since the epoch; None before 1970."""
        starts, stretches = self._reading()
        latest = bisect_right(starts, before - 1) - 1
        found: int | None = None
        bound: int | None = None
        for index in range(latest, -1, -1):
            start, end, offset, covers_from = stretches[index]
            high = min(before, end) + offset
            # What was found for a later stretch stands as long as local time only went back.
            if bound is None or high > bound or (found is not None and found >= high):
                found, bound = self._pattern.before(high), high
            if found is not None and found >= covers_from:
                return max(found - offset, start)
        return None

    def seconds_between(self, start: int, end: int) -> list[int]:
        """The fires after `start`, up to and including `end`, in seconds since the epoch."""
        first, last, offset, _ = self._memo.place
        if first <= start <= end < last:
            return self._pattern.collect(start + 1 + offset, end + 1 + offset, offset)
        found: list[int] = []
        for number, stretch in self._stretches(start, end):
            if self._is_owed(stretch, start):
                found.append(stretch.start)
            low, high = max(start + 1, stretch.start), min(end + 1, stretch.end)
            found += self._pattern.collect(low + stretch.offset, high + stretch.offset, stretch.offset)
            self._memo.place = (stretch.start, stretch.end, stretch.offset, number)
        return found

    def count_between(self, start: int, end: int) -> int:
        """How many fires there are after `start`, up to and including `end`, without making a list of them."""
        total = 0
        for _, stretch in self._stretches(start, end):
            low, high = max(start + 1, stretch.start), min(end + 1, stretch.end)
            total += self._pattern.count(low + stretch.offset, high + stretch.offset)
            total += self._is_owed(stretch, start)
        return total

    def count_days(self, start: int, days: int) -> list[int]:
        """The number of fires in each of consecutive periods of 24 hours, beginning at `start`.

        If no clock changes in between, the times of day are computed once for all of them.
        """
        met = self._stretches(start - 1, start + days * DAY - 1)
        if len(met) == 1 and not self._is_owed(met[0][1], start - 1):
            return self._pattern.count_days(start + met[0][1].offset, days)
        return [self.count_between(at - 1, at + DAY - 1) for at in range(start, start + days * DAY, DAY)]

    def _search_forward(self, after: int) -> int | None:
        """Go from stretch to stretch until one contains the next match of its local time."""
        starts, stretches = self._reading()
        earliest = max(bisect_right(starts, after + 1) - 1, 0)
        if after + 1 >= stretches[earliest].end:
            earliest += 1
        found: int | None = None
        bound: int | None = None
        for index in range(earliest, len(stretches)):
            start, end, offset, covers_from = stretches[index]
            low = max(covers_from, after + 1 + offset) if after >= start else covers_from
            # What was found for an earlier stretch stands as long as local time only went forward.
            if bound is None or low < bound or (found is not None and found < low):
                found, bound = self._pattern.at_or_after(low), low
            if found is not None and found - offset < end:
                if self._pattern.per_day > 1:
                    self._remember(found, start, end, offset)
                self._memo.place = (start, end, offset, index)
                return max(found - offset, start)
        return None

    def _remember(self, local: int, start: int, end: int, offset: int) -> None:
        """Keep the table around a match for the searches that follow it, if all of it lies in the stretch."""
        base, table = self._pattern.window(local)
        base -= offset
        if len(table) > 1 and base + table[-1] < end:
            self._memo.window = (max(base, start), base + table[-1], base, table)

    def _is_owed(self, stretch: Stretch, after: int) -> bool:
        """Whether skipped times make the start of a stretch a fire, where no time matches there by itself."""
        local = stretch.start + stretch.offset
        if stretch.start <= after or stretch.covers_from >= local:
            return False
        count = self._pattern.count
        return count(stretch.covers_from, local) > 0 and count(local, local + 1) == 0

    def _stretches(self, start: int, end: int) -> list[tuple[int, Stretch]]:
        """The stretches that meet the seconds after `start` up to and including `end`, with their numbers."""
        if end <= start:
            return []
        starts, stretches = self._reading()
        first = max(bisect_right(starts, start + 1) - 1, 0)
        last = bisect_right(starts, end)
        if first < last and stretches[first].end <= start + 1:
            first += 1
        return list(enumerate(stretches[first:last], first))

    def _reading(self) -> Reading:
        reading = self._memo.reading
        if reading is None:
            reading = self._memo.reading = read_zone(self.timezone, as_wildcard=self.is_wildcard)
        return reading

    def _expression(self) -> Expression:
        return read_expression(self.text, self.name)

    def __reduce__(self) -> tuple[object, ...]:
        return Cron.parse, (self.text, self.timezone, self.name)

    def __str__(self) -> str:
        return f"{self.text} ({self.timezone})"


def _whole_second(moment: datetime) -> int:
    if moment.tzinfo is None:
        _refuse_naive(moment)
    # Until the year 2242 a float tells the microseconds of a timestamp apart; it is quicker than a difference.
    return floor(moment.timestamp())


def _refuse_naive(moment: datetime) -> NoReturn:
    raise InvalidArgument(f"a datetime without a zone is not an instant: {moment!r}. Add tzinfo, for example UTC.")

"""On which days do the occurrences of a schedule run?

The planner, catch-up, backfill, previews, `verify` and pages share this rule: an occurrence on an excluded day does not
run, and is entered in the ledger as skipped; with `shift` it is due on the nearest day that is not excluded.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from evertick.model.calendar import Calendar, CalendarRule, Day, Shift, date_of_day
from evertick.model.facts import Facts
from evertick.model.instant import Instant, to_text
from evertick.planning.days import ZoneDays

SHIFT_DAYS_MAX = 366
"""An occurrence moves at most this far; if every day of a year is excluded, it is skipped."""
_JUMPS_MAX = 1_000  # a monthly schedule has a day within forty years, or none at all
_WEEK = 7


class Exclusion(NamedTuple):
    """Why an occurrence does not run on its day."""

    calendar: str
    """The calendar that excludes the day; for `only`, all calendars that lack it."""
    day: str
    """The name of the day."""
    is_listed: bool = True
    """Whether the job skips the days of the calendar, or runs only on them."""
    moved_to: Instant | None = None

    @property
    def facts(self) -> Facts:
        return Facts(calendar=self.calendar, day=self.day, moved_to=self.moved_to or 0)

    def until(self, last: Exclusion) -> Exclusion:
        """One exclusion for consecutive days up to `last`."""
        return self if last.day == self.day else self._replace(day=f"{self.day} to {last.day}", moved_to=None)

    def __str__(self) -> str:
        where = "in" if self.is_listed else "not in"
        moved = "" if self.moved_to is None else f"; moved to {to_text(self.moved_to)}"
        return f"{self.day} is {where} the calendar {self.calendar}{moved}"


def excluded_text(facts: Facts) -> str:
    """The reason of an exclusion, from its facts alone."""
    return f"{facts.day} is excluded by the calendar {facts.calendar}"


class Base(Protocol):
    """The schedule as it is written."""

    def next_after(self, instant: Instant) -> Instant | None: ...

    def previous_before(self, instant: Instant) -> Instant | None: ...

    def between(self, start: Instant, end: Instant) -> list[Instant]: ...

    def count(self, start: Instant, end: Instant) -> int: ...


class DayRule:
    """A calendar rule that can be asked about days."""

    __slots__ = ("_first", "_last", "_only", "_skip", "rule")

    def __init__(self, rule: CalendarRule) -> None:
        self.rule = rule
        self._skip = [_Days(one) for one in rule.skip]
        self._only = [_Days(one) for one in rule.only]
        listed = [one.days for one in (*rule.skip, *rule.only) if one.days]
        # Without a listed day every week is like the others.
        self._first = min((days[0] for days in listed), default=None)
        self._last = max((days[-1] for days in listed), default=None)

    def exclusion(self, day: Day) -> Exclusion | None:
        """Why a day is excluded; None: it is not."""
        for one in self._skip:
            if (label := one.label(day)) is not None:
                return Exclusion(one.name, label)
        if self._only and not any(one.has(day) for one in self._only):
            return Exclusion(", ".join(one.name for one in self._only), f"{date_of_day(day):%A}", is_listed=False)
        return None

    def excludes(self, day: Day) -> bool:
        return any(one.has(day) for one in self._skip) or bool(
            self._only and not any(one.has(day) for one in self._only)
        )

    def next_day(self, day: Day, *, excluded: bool) -> Day | None:
        """The first day from this one on that is excluded, or that is not; None: there is none."""
        # After the last listed day, each week is like the one before.
        end = day if self._last is None else max(day, self._last + 1)
        for one in range(day, end + _WEEK):
            if self.excludes(one) is excluded:
                return one
        return None

    def previous_day(self, day: Day, *, excluded: bool) -> Day | None:
        """The same, backward."""
        start = day if self._first is None else min(day, self._first - 1)
        for one in range(day, start - _WEEK, -1):
            if self.excludes(one) is excluded:
                return one
        return None

    def target(self, day: Day) -> Day | None:
        """The day that the occurrences of an excluded day move to."""
        forward = self.rule.shift is Shift.NEXT
        found = self.next_day(day, excluded=False) if forward else self.previous_day(day, excluded=False)
        return found if found is not None and abs(found - day) <= SHIFT_DAYS_MAX else None


class _Days:
    __slots__ = ("_labels", "_weekdays", "name")

    def __init__(self, calendar: Calendar) -> None:
        self.name = calendar.name
        self._weekdays = frozenset(calendar.weekdays)
        labels = calendar.labels or tuple(f"{date_of_day(day)}" for day in calendar.days)
        self._labels = dict(zip(calendar.days, labels, strict=True))

    def has(self, day: Day) -> bool:
        return day in self._labels or (day + 3) % _WEEK in self._weekdays  # 1970-01-01 was a Thursday

    def label(self, day: Day) -> str | None:
        found = self._labels.get(day)
        if found is None and (day + 3) % _WEEK in self._weekdays:
            return f"{date_of_day(day):%A}"
        return found


@lru_cache(maxsize=256)
def day_rule(rule: CalendarRule) -> DayRule:
    """Shared by all schedules with the same rule."""
    return DayRule(rule)


class ExcludedOccurrences:
    """The occurrences of a schedule that its calendar excludes, moved or not."""

    __slots__ = ("_base", "_days", "_rule")

    def __init__(self, base: Base, rule: DayRule, days: ZoneDays) -> None:
        self._base, self._rule, self._days = base, rule, days

    @property
    def is_moving(self) -> bool:
        """Whether each of them is due on another day instead."""
        return self._rule.rule.shift is not None

    def exclusion(self, at: Instant) -> Exclusion | None:
        """Why an occurrence of this instant does not run; None: its day is not excluded."""
        day = self._days.day_of(at)
        found = self._rule.exclusion(day)
        if found is None or self._rule.rule.shift is None:
            return found
        target = self._rule.target(day)
        return found if target is None else found._replace(moved_to=self._days.same_time(at, target))

    def calendars(self, start: Instant, end: Instant) -> list[str]:
        """The calendars that exclude an occurrence of a window, in the order of their days."""
        found: list[str] = []
        for piece in self._days.pieces(start, end):
            why = self._rule.exclusion(piece.day)
            if why is not None and why.calendar not in found and self._base.count(piece.start - 1, piece.end - 1):
                found.append(why.calendar)
        return found

    def next_after(self, instant: Instant) -> Instant | None:
        return _next_on(self._base, self._rule, self._days, instant, excluded=True)

    def previous_before(self, instant: Instant) -> Instant | None:
        return _previous_on(self._base, self._rule, self._days, instant, excluded=True)

    def between(self, start: Instant, end: Instant) -> list[Instant]:
        return [at for low, high in self.stretches(start, end) for at in self._base.between(low, high)]

    def count(self, start: Instant, end: Instant) -> int:
        return sum(self._base.count(low, high) for low, high in self.stretches(start, end))

    def stretches(self, start: Instant, end: Instant, *, excluded: bool = True) -> Iterator[tuple[Instant, Instant]]:
        """The windows of excluded days, or of the others, in a window; neighbours are joined."""
        begin: Instant | None = None
        stop = start
        for piece in self._days.pieces(start, end):
            if self._rule.excludes(piece.day) is excluded:
                begin = piece.start - 1 if begin is None else begin
                stop = piece.end - 1
            elif begin is not None:
                yield begin, stop
                begin = None
        if begin is not None:
            yield begin, stop


class CalendarSchedule:
    """The occurrences that run: those on days that are not excluded, and those moved to one."""

    __slots__ = ("__weakref__", "_base", "_days", "_moved", "_rule", "excluded")

    def __init__(self, base: Base, rule: DayRule, days: ZoneDays) -> None:
        self._base, self._rule, self._days = base, rule, days
        self._moved: tuple[Day, Sequence[Instant]] | None = None
        """The occurrences that move to the last day asked for: a walk asks for each of them in turn."""
        self.excluded = ExcludedOccurrences(base, rule, days)

    @property
    def base(self) -> Base:
        """The schedule as it is written."""
        return self._base

    def next_after(self, instant: Instant) -> Instant | None:
        own = _next_on(self._base, self._rule, self._days, instant, excluded=False)
        if self._rule.rule.shift is None:
            return own
        day: Day | None = self._days.day_of(instant)
        for _ in range(_JUMPS_MAX):
            assert day is not None
            day = self._next_target(day)
            if day is None or (own is not None and self._days.first_instant(day) > own):
                return own
            moved = self._moved_to(day)
            place = bisect_right(moved, instant)
            if place < len(moved):
                return moved[place] if own is None else min(own, moved[place])
            day += 1
        return own

    def previous_before(self, instant: Instant) -> Instant | None:
        own = _previous_on(self._base, self._rule, self._days, instant, excluded=False)
        if self._rule.rule.shift is None:
            return own
        day: Day | None = self._days.day_of(instant)
        for _ in range(_JUMPS_MAX):
            assert day is not None
            day = self._previous_target(day)
            if day is None or (own is not None and self._days.end_instant(day) <= own):
                return own
            moved = self._moved_to(day)
            place = bisect_left(moved, instant)
            if place:
                return moved[place - 1] if own is None else max(own, moved[place - 1])
            day -= 1
        return own

    def between(self, start: Instant, end: Instant) -> list[Instant]:
        stretches = self.excluded.stretches(start, end, excluded=False)
        own = [at for low, high in stretches for at in self._base.between(low, high)]
        moved = self._moved_between(start, end)
        return sorted({*own, *moved}) if moved else own

    def count(self, start: Instant, end: Instant) -> int:
        stretches = self.excluded.stretches(start, end, excluded=False)
        own = sum(self._base.count(low, high) for low, high in stretches)
        moved = self._moved_between(start, end)
        return own + sum(self._base.next_after(at - 1) != at for at in moved)

    def _moved_between(self, start: Instant, end: Instant) -> set[Instant]:
        if self._rule.rule.shift is None or start >= end:
            return set()
        found: set[Instant] = set()
        day, last = self._next_target(self._days.day_of(start)), self._days.day_of(end)
        while day is not None and day <= last:
            found.update(at for at in self._moved_to(day) if start < at <= end)
            day = self._next_target(day + 1)
        return found

    def _next_target(self, day: Day) -> Day | None:
        """The first day from this one on that receives occurrences from an excluded day."""
        rule = self._rule
        if rule.rule.shift is Shift.NEXT:
            if not rule.excludes(day) and rule.excludes(day - 1):
                return day
            excluded = rule.next_day(day, excluded=True)
            return None if excluded is None else rule.next_day(excluded, excluded=False)
        free = rule.next_day(day, excluded=False)
        excluded = None if free is None else rule.next_day(free, excluded=True)
        return None if excluded is None else excluded - 1

    def _previous_target(self, day: Day) -> Day | None:
        rule = self._rule
        if rule.rule.shift is Shift.PREVIOUS:
            if not rule.excludes(day) and rule.excludes(day + 1):
                return day
            excluded = rule.previous_day(day, excluded=True)
            return None if excluded is None else rule.previous_day(excluded, excluded=False)
        free = rule.previous_day(day, excluded=False)
        excluded = None if free is None else rule.previous_day(free, excluded=True)
        return None if excluded is None else excluded + 1

    def _moved_to(self, day: Day) -> Sequence[Instant]:
        """The occurrences of the excluded days beside a day, at their times on that day, in order."""
        known = self._moved
        if known is None or known[0] != day:
            # Of two threads that ask for different days, each gets its own.
            known = self._moved = (day, sorted(set(self._find_moved(day))))
        return known[1]

    def _find_moved(self, day: Day) -> Iterator[Instant]:
        rule = self._rule
        if rule.rule.shift is Shift.NEXT:
            free = rule.previous_day(day - 1, excluded=False)
            first, last = max(day - SHIFT_DAYS_MAX, 0 if free is None else free + 1), day - 1
        else:
            free = rule.next_day(day + 1, excluded=False)
            first = day + 1
            last = day + SHIFT_DAYS_MAX if free is None else min(day + SHIFT_DAYS_MAX, free - 1)
        window = self._days.first_instant(first) - 1, self._days.end_instant(last) - 1
        moved = (self._days.same_time(at, day) for at in self.excluded.between(*window))
        return (at for at in moved if at is not None)


def _next_on(base: Base, rule: DayRule, days: ZoneDays, instant: Instant, *, excluded: bool) -> Instant | None:
    at = base.next_after(instant)
    for _ in range(_JUMPS_MAX):
        if at is None:
            return None
        day = days.day_of(at)
        if rule.excludes(day) is excluded:
            return at
        wanted = rule.next_day(day + 1, excluded=excluded)
        if wanted is None:
            return None
        at = base.next_after(max(at, days.first_instant(wanted) - 1))
    return None


def _previous_on(base: Base, rule: DayRule, days: ZoneDays, instant: Instant, *, excluded: bool) -> Instant | None:
    at = base.previous_before(instant)
    for _ in range(_JUMPS_MAX):
        if at is None:
            return None
        day = days.day_of(at)
        if rule.excludes(day) is excluded:
            return at
        wanted = rule.previous_day(day - 1, excluded=excluded)
        if wanted is None:
            return None
        at = base.previous_before(min(at, days.end_instant(wanted)))
    return None

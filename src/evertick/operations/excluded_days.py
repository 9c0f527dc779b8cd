"""Which coming days do the calendars of jobs exclude, and how many occurrences does that concern?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Final, NamedTuple

from evertick.model.instant import Instant
from evertick.model.schedule import ScheduleSpec, has_calendar
from evertick.operations.results.schedule import ExcludedDay
from evertick.planning.schedules import compile_all, count_of, excluded_of, exclusion_of, next_of

COUNTED_MAX: Final = 20_000
"""Calendars times days that are looked at: about a second of work; beyond it, the first days."""


class DayBounds(NamedTuple):
    """A day in a time zone; most have 24 hours."""

    date: date
    start: Instant
    end: Instant


def excluded_days(
    jobs: Iterable[tuple[ScheduleSpec, ...]], days: Sequence[DayBounds], now: Instant
) -> tuple[ExcludedDay, ...]:
    """The days after now on which jobs with these schedules would be due, but for their calendars."""
    shared = Counter(specs for specs in jobs if has_calendar(specs))
    if not shared:
        return ()
    coming = [day for day in days if day.end > now][: max(COUNTED_MAX // len(shared), 1)]
    return tuple(found for day in coming if (found := _excluded_day(shared, day, max(day.start - 1, now))) is not None)


def _excluded_day(shared: Counter[tuple[ScheduleSpec, ...]], day: DayBounds, after: Instant) -> ExcludedDay | None:
    names: dict[str, None] = {}
    concerned = occurrences = 0
    for specs, jobs in shared.items():
        schedules = excluded_of(compile_all(specs))
        count = count_of(schedules, after, day.end - 1)
        if not count:
            continue
        at = next_of(schedules, after)
        why = None if at is None else exclusion_of(specs, at)
        # A one-off on such a day runs although the calendar excludes the day.
        if why is not None:
            names[why.day] = None
            concerned, occurrences = concerned + jobs, occurrences + jobs * count
    return ExcludedDay(day.date.isoformat(), tuple(names), concerned, occurrences) if concerned else None

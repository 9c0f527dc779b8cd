"""The calendar: the outcomes of each day, of one job or of all, and what is still to come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby, pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from evertick.errors import InvalidArgument
from evertick.model.instant import DAY, HOUR, MINUTE, Instant, from_datetime, to_datetime
from evertick.model.schedule import ScheduleSpec, has_calendar
from evertick.operations.blackouts import find_blackouts
from evertick.operations.context import Context, View
from evertick.operations.figures import outcome_counts, skip_counts
from evertick.operations.jobs import watermark_of
from evertick.operations.next_due_cache import NextDueCache
from evertick.operations.preview import why_held
from evertick.operations.results.schedule import Calendar, Day, ExcludedDay
from evertick.operations.time_text import check_zone
from evertick.planning.schedules import Schedule, compile_all, count_days, count_of, excluded_of, exclusion_of, next_of
from evertick.store import Tally

DAYS_MAX = 400
REMEMBERED_US = 10 * MINUTE
AHEAD_MAX = 60_000
"""Schedules times days that are counted for the coming days of all jobs: about a second of work."""
EXCLUDED_MAX = 20_000
"""Calendars times days that are looked at: about a second of work; beyond it, the first days."""


class DayBounds(NamedTuple):
    """A day in a time zone; most have 24 hours."""

    date: date
    start: Instant
    end: Instant


def calendar(
    context: Context,
    job_id: str | None = None,
    start: date | str | None = None,
    end: date | str | None = None,
    zone: str | None = None,
) -> Calendar:
    """By default the last year and the next four weeks."""
    if job_id is not None:
        context.require_job(job_id)
    name = zone or context.zone(job_id)
    check_zone(name)
    now = context.now()
    today = to_datetime(now).astimezone(ZoneInfo(name)).date()
    first = _date_of(start) if start else today - timedelta(days=364)
    last = _date_of(end) if end else today + timedelta(days=28)
    if not 0 <= (last - first).days <= DAYS_MAX:
        raise InvalidArgument(
            f"the period from {first} to {last} is not valid.", hint=f"Write up to {DAYS_MAX} days, in order."
        )
    days = _days(first, last, name)
    found, ahead = _tallies(context, job_id, days), _ahead(context, job_id, days, now)
    return Calendar(
        job=job_id,
        timezone=name,
        days=tuple(_day(day, found[number], ahead[number]) for number, day in enumerate(days)),
        blackouts=find_blackouts(context, job_id, days[0].start, days[-1].end),
        excluded=_excluded(context, job_id, days, now),
    )


def _excluded(context: Context, job_id: str | None, days: Sequence[DayBounds], now: Instant) -> tuple[ExcludedDay, ...]:
    """Of jobs that are planned; calendars change seldom, so they are asked once in some minutes."""
    view = context.view()
    wanted = view.jobs.values() if job_id is None else [view.jobs[job_id]] if job_id in view.jobs else []
    free = [job.schedules for job in wanted if why_held(job, view.records.get(job.id))[0] is None]
    key = ("excluded", job_id, days[0].start, days[-1].end, now // REMEMBERED_US)
    return view.kept(key, lambda: excluded_days(free, days, now))


def excluded_days(
    jobs: Iterable[tuple[ScheduleSpec, ...]], days: Sequence[DayBounds], now: Instant
) -> tuple[ExcludedDay, ...]:
    """The days after now on which jobs with these schedules would be due, but for their calendars."""
    shared = Counter(specs for specs in jobs if has_calendar(specs))
    if not shared:
        return ()
    coming = [day for day in days if day.end > now][: max(EXCLUDED_MAX // len(shared), 1)]
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


def _tallies(context: Context, job_id: str | None, days: Sequence[DayBounds]) -> list[list[Tally]]:
    """Per day."""
    found: list[list[Tally]] = [[] for _ in days]
    for tally in context.store.outcomes([*(day.start for day in days), days[-1].end], job_id):
        found[tally.cell].append(tally)
    return found


def _ahead(context: Context, job_id: str | None, days: Sequence[DayBounds], now: Instant) -> Sequence[int | None]:
    """How many occurrences one job, or all of them, have on each day after now."""
    if job_id is None:
        coming = [day for day in days if day.end > now]
        view, kept_for = context.view(), (days[0].start, days[-1].end, now // REMEMBERED_US)
        counted = view.kept(("ahead", *kept_for), lambda: _ahead_of_all(context.next_due, view, coming, now))
        return [*([0] * (len(days) - len(coming))), *counted]
    record = context.require(job_id)
    if why_held(context.jobs.get(job_id), record)[0] is not None:
        return [0] * len(days)
    schedules = compile_all(context.specs(job_id))
    planned = max(now, watermark_of(record, context.view().snapshot.floors) or 0)
    return [count_of(schedules, max(day.start - 1, planned), day.end - 1) for day in days]


def _ahead_of_all(engines: NextDueCache, view: View, days: Sequence[DayBounds], now: Instant) -> list[int | None]:
    """Jobs with the same schedules are counted once; where even that is too much, only the first days are."""
    shared = Counter(
        engines.engines_of(job.id, job.schedules, now)
        for job in view.jobs.values()
        if job.schedules and why_held(job, view.records.get(job.id))[0] is None
    )
    counted = days[: max(AHEAD_MAX // max(len(shared), 1), 1)]
    planned = max([now, *view.snapshot.floors.values()])
    found = [0] * len(counted)
    for group in _groups(counted, planned):
        for one, jobs in shared.items():
            for number, count in enumerate(_count_group(one, counted, group, planned), group.start):
                found[number] += count * jobs
    return [*found, *[None] * (len(days) - len(counted))]


def _groups(days: Sequence[DayBounds], planned: Instant) -> Iterator[range]:
    """Days in groups that can be counted together: 24 hours long, without planned entries; others are alone."""
    is_plain = [day.start > planned and day.end - day.start == DAY for day in days]
    for plain, numbers in groupby(range(len(days)), is_plain.__getitem__):
        some = list(numbers)
        yield from [range(some[0], some[-1] + 1)] if plain else [range(number, number + 1) for number in some]


def _count_group(
    schedules: Sequence[Schedule], days: Sequence[DayBounds], group: range, planned: Instant
) -> Sequence[int]:
    first = days[group.start]
    if len(group) > 1:
        return count_days(schedules, first.start, len(group))
    return [count_of(schedules, max(first.start - 1, planned), first.end - 1)]


def _date_of(day: date | str) -> date:
    try:
        found = day if isinstance(day, date) else date.fromisoformat(day[:10])
    except ValueError:
        raise InvalidArgument(f"'{day}' is not a date.", hint="Write for example 2026-03-02.") from None
    if not 1971 <= found.year < 2200:
        raise InvalidArgument(f"'{day}' is out of range.", hint="Write a year from 1971 to 2199.")
    return found


def _days(first: date, last: date, zone: str) -> list[DayBounds]:
    midnights = [
        from_datetime(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)))
        for day in (first + timedelta(days=number) for number in range((last - first).days + 2))
    ]
    return [
        DayBounds(first + timedelta(days=number), start, end) for number, (start, end) in enumerate(pairwise(midnights))
    ]


def _day(day: DayBounds, tallies: Sequence[Tally], ahead: int | None) -> Day:
    hours = (day.end - day.start) / HOUR
    return Day(
        **outcome_counts(tallies),
        date=day.date.isoformat(),
        start=to_datetime(day.start),
        dst=None if hours == 24 else "forward" if hours < 24 else "back",
        skips=skip_counts(tallies),
        planned=ahead,
    )

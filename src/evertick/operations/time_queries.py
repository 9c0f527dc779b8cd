"""Queries about time: upcoming occurrences, cron expressions, the load of coming minutes, and the calendar."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import groupby, islice, pairwise, takewhile
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from evertick.errors import InvalidArgument
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, Instant, from_datetime, to_datetime
from evertick.model.job import Job
from evertick.model.lifecycle import PLANNED, SkipReason
from evertick.model.schedule import ScheduleSpec, has_calendar, rule_of, written_spec
from evertick.operations.blackouts import find_blackouts
from evertick.operations.context import Context, View, bounded
from evertick.operations.figures import outcome_counts, skip_counts
from evertick.operations.jobs import delayed_start, name_of, watermark_of, zone_of
from evertick.operations.ledger_rows import moment, starts_at_of
from evertick.operations.load_forecast import count_starts
from evertick.operations.next_due_cache import Action, Due, NextDueCache
from evertick.operations.preview import in_blackout, why_held
from evertick.operations.protocol import Moment
from evertick.operations.results.schedule import (
    Calendar,
    ClockNote,
    CronFire,
    CronPreview,
    Day,
    Fire,
    JobUpcoming,
    Load,
    MinuteLoad,
    NotedFire,
    Plan,
    Upcoming,
)
from evertick.operations.submission import no_such_job
from evertick.operations.time_text import check_zone, local_text, offset_text
from evertick.planning.cron import Cron
from evertick.planning.cron_grammar import ALIASES
from evertick.planning.schedules import (
    CronSchedule,
    Schedule,
    compile_all,
    compile_schedule,
    count_days,
    count_of,
    excluded_of,
    exclusion_of,
    next_of,
)
from evertick.store import Tally

FIRES_MAX = 10_000
DAYS_MAX = 400
LOAD_US = 7 * DAY
AHEAD_MAX = 60_000
"""Schedules times days that are counted for the coming days of all jobs: about a second of work."""
YEAR_US = 366 * DAY
REMEMBERED_US = 10 * MINUTE
FIELDS = ("second", "minute", "hour", "day_of_month", "month", "day_of_week")


class _DayBounds(NamedTuple):
    """A day in a time zone; most have 24 hours."""

    date: date
    start: Instant
    end: Instant


def upcoming(
    context: Context, count: int = 20, until: Moment | None = None, *, once: bool = False, excluded: bool = False
) -> Upcoming:
    """Paused and disabled jobs are left out."""
    bounded("count", count, 1, FIRES_MAX)
    view, end = context.view(), context.instant_or_none(until, is_ahead=True)

    def find() -> Upcoming:
        fires = _fires(context, None, end, with_held=False, with_excluded=excluded, most=count, once=once)
        return Upcoming(tuple(_fire(context, fire) for fire in islice(fires, count)))

    return view.kept(("upcoming", count, end, once, excluded), find)


def job_upcoming(
    context: Context, job_id: str, count: int = 20, until: Moment | None = None, *, excluded: bool = False
) -> JobUpcoming:
    """Clock changes are those of the coming year."""
    bounded("count", count, 1, FIRES_MAX)
    end = context.instant_or_none(until, job_id, is_ahead=True)
    fires = _fires(context, job_id, end, with_held=False, with_excluded=excluded)
    notes, meaning = _clock_changes(context.definition_of(job_id), context.now())
    texts = {note.at: note.text for note in notes}
    return JobUpcoming(
        timezone=context.zone(job_id),
        items=tuple(
            NotedFire(**_fire_fields(fire, context.now()), note=texts.get(to_datetime(fire.due.at)))
            for fire in islice(fires, count)
        ),
        dst_notes=notes,
        meaning=meaning,
    )


def load(context: Context, until: Moment) -> Load:
    view, end, now = context.view(), context.instant(until, is_ahead=True), context.now()

    def count() -> Load:
        free = [job.schedules for job in view.jobs.values() if why_held(job, view.records.get(job.id))[0] is None]
        forecast = count_starts(filter(None, free), now, max(now, min(end, now + LOAD_US)))
        minutes = (MinuteLoad(to_datetime(minute), number) for minute, number in forecast.minutes.items())
        return Load(tuple(minutes), to_datetime(forecast.until))

    return view.kept(("load", end), count)


def plan(context: Context, until: Moment, jobs: Collection[str] = (), limit: int = 100) -> Plan:
    bounded("limit", limit, 1, 10 * FIRES_MAX)
    known = context.jobs
    for job_id in jobs:
        if job_id not in known:
            raise no_such_job(job_id, known)
    fires = _fires(
        context, jobs or None, context.instant(until, is_ahead=True), ("start",), with_excluded=True, most=limit + 1
    )
    found = [_fire(context, fire) for fire in islice(fires, limit + 1)]
    return Plan(tuple(found[:limit]), has_more=len(found) > limit)


def cron(
    context: Context,
    expression: str,
    timezone: str | None = None,
    count: int = 10,
    after: Moment | None = None,
    name: str = "",
) -> CronPreview:
    """Clock changes are those of the coming year."""
    bounded("count", count, 1, FIRES_MAX)
    parsed = Cron.parse(expression, timezone or "UTC", name)
    start = context.now() if after is None else context.instant(after, zone=parsed.timezone, is_ahead=True)
    words = ALIASES.get(parsed.text, parsed.text).split()
    written = words if len(words) == len(FIELDS) else ["0", *words]
    notes = _dst_notes(parsed, start)
    texts = {note.at: note.text for note in notes}
    fires = [from_datetime(moment) for moment in parsed.upcoming(to_datetime(start), count)]
    return CronPreview(
        expression=expression,
        timezone=parsed.timezone,
        meaning=parsed.describe(),
        fields=dict(zip(FIELDS, written, strict=True)),
        dst_notes=notes,
        next=tuple(
            CronFire(
                scheduled_for=to_datetime(at),
                local=local_text(at, parsed.timezone),
                offset=offset_text(at, parsed.timezone),
                timezone=parsed.timezone,
                wait_seconds=(at - start) / SECOND,
                note=texts.get(to_datetime(at)),
            )
            for at in fires
        ),
    )


def calendar(
    context: Context,
    job_id: str | None = None,
    start: date | str | None = None,
    end: date | str | None = None,
    zone: str | None = None,
) -> Calendar:
    """By default the last year and the next four weeks."""
    if job_id is not None:
        context.require(job_id)
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
    )


class _Fire(NamedTuple):
    """A coming occurrence, and why it would be skipped now."""

    due: Due
    job: Job
    zone: str
    held: SkipReason | None
    detail: str
    starts_at: Instant | None
    """When its run starts, by the job's jitter; None: at its time."""
    day: str | None = None
    """The name of the day, if a calendar excludes it."""


def _fires(
    context: Context,
    job_ids: str | Collection[str] | None,
    end: Instant | None,
    actions: Sequence[Action] = ("start", "stop", "restart"),
    *,
    with_held: bool = True,
    with_excluded: bool = False,
    most: int | None = None,
    once: bool = False,
) -> Iterator[_Fire]:
    view = context.view()
    jobs, records = view.jobs, view.records
    # Held jobs are left out before the walk: with only paused jobs it would look for another one until the year 2200.
    streams = [
        (job.id, action, specs)
        for job in _chosen(context, job_ids, jobs)
        if with_held or why_held(job, records.get(job.id))[0] is None
        for action, specs in _specs_of(job)
        if action in actions
    ]
    if "start" in actions:
        yield from _delayed(view, {job_id for job_id, action, _ in streams if action == "start"}, context.now(), end)
    walk = context.next_due.walk(streams, context.now(), most, is_once=once)
    coming = _coming(view, takewhile(lambda one: end is None or one.at <= end, walk))
    excluded = [
        _excluded(jobs[job_id], context.now(), end)
        for job_id, action, specs in (streams if with_excluded else ())
        if action == "start" and has_calendar(specs)
    ]
    yield from heapq.merge(coming, *excluded, key=lambda fire: fire.due) if excluded else coming


def _excluded(job: Job, now: Instant, end: Instant | None) -> Iterator[_Fire]:
    """Coming occurrences that the calendar of a job excludes."""
    schedules, zone = excluded_of(compile_all(job.schedules)), zone_of(job, job.schedules)
    at = next_of(schedules, now)
    while at is not None and (end is None or at <= end):
        why = exclusion_of(job.schedules, at)
        if why is not None:
            yield _Fire(Due(at, job.id), job, zone, SkipReason.CALENDAR, str(why), None, why.day)
        at = next_of(schedules, at)


def _coming(view: View, walk: Iterable[Due]) -> Iterator[_Fire]:
    jobs, records = view.jobs, view.records
    for due in walk:
        job = jobs[due.job_id]
        reason, detail = why_held(job, records.get(job.id))
        if reason is None and job.blackouts and due.action == "start":
            reason, detail = in_blackout(job, due.at)
        delayed = delayed_start(job, due.at) if due.action == "start" else None
        yield _Fire(due, job, zone_of(job, dict(_specs_of(job))[due.action]), reason, detail, delayed)


def _delayed(view: View, job_ids: Collection[str], now: Instant, end: Instant | None) -> Iterator[_Fire]:
    """Occurrences whose time has come and whose runs start later, by jitter."""
    found = [
        (at, row.key.job_id, row.key.scheduled_for)
        for row in view.snapshot.open_runs
        if row.state is PLANNED and row.facts and row.key.scheduled_for <= now < (at := starts_at_of(row))
    ]
    for at, job_id, scheduled_for in sorted(found):
        job = view.jobs.get(job_id)
        if job is not None and job_id in job_ids and (end is None or at <= end):
            reason, detail = why_held(job, view.records.get(job_id))
            due = Due(scheduled_for, job_id, "start")
            yield _Fire(due, job, zone_of(job, job.schedules), reason, detail, at)


def _fire(context: Context, fire: _Fire) -> Fire:
    return Fire(**_fire_fields(fire, context.now()))


def _fire_fields(fire: _Fire, now: Instant) -> dict[str, Any]:
    """The fields of `Fire`."""
    at, zone, delayed = fire.due.at, fire.zone, fire.starts_at
    return {
        "job": fire.job.id,
        "job_name": name_of(fire.job.id, fire.job),
        "action": fire.due.action,
        "scheduled_for": to_datetime(at),
        "starts_at": moment(delayed),
        "local": local_text(at, zone),
        "local_start": None if delayed is None else local_text(delayed, zone),
        "offset": offset_text(at, zone),
        "timezone": zone,
        "wait_seconds": ((at if delayed is None else delayed) - now) / SECOND,
        "what": "run" if fire.held is None else f"skip: {fire.held}",
        "reason": fire.held,
        "detail": fire.detail,
        "day": fire.day,
    }


def _chosen(context: Context, job_ids: str | Collection[str] | None, jobs: Mapping[str, Job]) -> list[Job]:
    if job_ids is None:
        return list(jobs.values())
    if isinstance(job_ids, str):
        return [context.definition_of(job_ids)]
    return [jobs[job_id] for job_id in job_ids]


def _tallies(context: Context, job_id: str | None, days: Sequence[_DayBounds]) -> list[list[Tally]]:
    """Per day."""
    found: list[list[Tally]] = [[] for _ in days]
    for tally in context.store.outcomes([*(day.start for day in days), days[-1].end], job_id):
        found[tally.cell].append(tally)
    return found


def _ahead(context: Context, job_id: str | None, days: Sequence[_DayBounds], now: Instant) -> Sequence[int | None]:
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


def _ahead_of_all(engines: NextDueCache, view: View, days: Sequence[_DayBounds], now: Instant) -> list[int | None]:
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


def _groups(days: Sequence[_DayBounds], planned: Instant) -> Iterator[range]:
    """Days in groups that can be counted together: 24 hours long, without planned entries; others are alone."""
    is_plain = [day.start > planned and day.end - day.start == DAY for day in days]
    for plain, numbers in groupby(range(len(days)), is_plain.__getitem__):
        some = list(numbers)
        yield from [range(some[0], some[-1] + 1)] if plain else [range(number, number + 1) for number in some]


def _count_group(
    schedules: Sequence[Schedule], days: Sequence[_DayBounds], group: range, planned: Instant
) -> Sequence[int]:
    first = days[group.start]
    if len(group) > 1:
        return count_days(schedules, first.start, len(group))
    return [count_of(schedules, max(first.start - 1, planned), first.end - 1)]


def _specs_of(job: Job) -> Sequence[tuple[Action, tuple[ScheduleSpec, ...]]]:
    """The schedules of a job, by what they do."""
    if not (job.stops or job.restarts):
        return [("start", job.schedules)] if job.schedules else ()
    found: list[tuple[Action, tuple[ScheduleSpec, ...]]] = [("start", job.schedules)] if job.schedules else []
    if job.stops:
        found.append(("stop", job.stops))
    if job.restarts:
        found.append(("restart", job.restarts))
    return found


def _date_of(day: date | str) -> date:
    try:
        found = day if isinstance(day, date) else date.fromisoformat(day[:10])
    except ValueError:
        raise InvalidArgument(f"'{day}' is not a date.", hint="Write for example 2026-03-02.") from None
    if not 1971 <= found.year < 2200:
        raise InvalidArgument(f"'{day}' is out of range.", hint="Write a year from 1971 to 2199.")
    return found


def _days(first: date, last: date, zone: str) -> list[_DayBounds]:
    midnights = [
        from_datetime(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)))
        for day in (first + timedelta(days=number) for number in range((last - first).days + 2))
    ]
    return [
        _DayBounds(first + timedelta(days=number), start, end)
        for number, (start, end) in enumerate(pairwise(midnights))
    ]


def _day(day: _DayBounds, tallies: Sequence[Tally], ahead: int | None) -> Day:
    hours = (day.end - day.start) / HOUR
    return Day(
        **outcome_counts(tallies),
        date=day.date.isoformat(),
        start=to_datetime(day.start),
        dst=None if hours == 24 else "forward" if hours < 24 else "back",
        skips=skip_counts(tallies),
        planned=ahead,
    )


def _clock_changes(job: Job, now: Instant) -> tuple[tuple[ClockNote, ...], tuple[str, ...]]:
    """How changes of the clock affect a job's schedules, and what the schedules mean in English."""
    notes: list[ClockNote] = []
    meaning = []
    for spec in map(written_spec, job.schedules):
        engine = compile_schedule(spec)
        if isinstance(engine, CronSchedule):
            notes += _dst_notes(engine.cron, now)
            meaning.append(engine.cron.describe())
        else:
            meaning.append(str(spec))
    if rule := rule_of(job.schedules):
        meaning.append(f"calendar: {rule}")
    return tuple(notes), tuple(meaning)


def _dst_notes(cron: Cron, start: Instant) -> tuple[ClockNote, ...]:
    notes = cron.dst_notes(to_datetime(start), to_datetime(start + YEAR_US))
    instants = [(from_datetime(note.at), note.text) for note in notes]
    return tuple(ClockNote(to_datetime(at), local_text(at, cron.timezone), text) for at, text in instants)

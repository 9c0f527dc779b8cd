"""Queries about time: upcoming occurrences, cron expressions, and the load of coming minutes."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from evertick.errors import EvertickError
from evertick.model.blackout import Blackout, blackout_at, split_stretch
from evertick.model.instant import DAY, MINUTE, SECOND, Instant, to_datetime
from evertick.model.job import Job
from evertick.model.lifecycle import PLANNED, SkipReason
from evertick.model.schedule import ScheduleSpec, has_calendar, rule_of, written_spec
from evertick.operations.context import Context, View, bounded
from evertick.operations.cron_preview import FIRES_MAX, clock_notes, preview_cron
from evertick.operations.jobs import delayed_start, name_of, zone_of
from evertick.operations.ledger_rows import moment, starts_at_of
from evertick.operations.next_due_cache import Action, Due
from evertick.operations.preview import in_blackout, why_held
from evertick.operations.protocol import Moment
from evertick.operations.results.base import fields_of
from evertick.operations.results.schedule import (
    ClockNote,
    CronPreview,
    Fire,
    JobUpcoming,
    Load,
    MinuteLoad,
    NotedFire,
    Plan,
    Upcoming,
)
from evertick.operations.submission import no_such_job
from evertick.operations.time_text import local_text, offset_text
from evertick.planning.cron import Cron
from evertick.planning.jitter import starts_at
from evertick.planning.schedules import (
    CronSchedule,
    Schedule,
    compile_all,
    compile_schedule,
    count_of,
    excluded_of,
    exclusion_of,
    next_of,
    occurrences,
)

LOAD_US = 7 * DAY
COUNTED_MAX = 200_000
"""Minutes of schedules that are computed, which takes some tenths of a second; jobs with equal schedules count once."""


def upcoming(
    context: Context, count: int = 20, until: Moment | None = None, *, once: bool = False, excluded: bool = False
) -> Upcoming:
    """Paused and disabled jobs are left out; with `once`, a list of what starts next, also jobs in a blackout."""
    bounded("count", count, 1, FIRES_MAX)
    view, end = context.view(), context.instant_or_none(until, is_ahead=True)

    def find() -> Upcoming:
        fires = _fires(context, None, end, with_held=False, with_excluded=excluded, most=count, once=once)
        starting = (fire for fire in fires if not once or fire.held is None)
        return Upcoming(tuple(_fire(context, fire) for fire in islice(starting, count)))

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
            NotedFire(**fields_of(Fire, _fire(context, fire)), note=texts.get(to_datetime(fire.due.at)))
            for fire in islice(fires, count)
        ),
        dst_notes=notes,
        meaning=meaning,
    )


def load(context: Context, until: Moment) -> Load:
    view, end, now = context.view(), context.instant(until, is_ahead=True), context.now()

    def count() -> Load:
        free = [job for job in view.jobs.values() if why_held(job, view.records.get(job.id))[0] is None]
        forecast = count_starts(free, now, max(now, min(end, now + LOAD_US)))
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
    return preview_cron(parsed, expression, start, count)


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
    view, now = context.view(), context.now()
    jobs, records = view.jobs, view.records
    # Held jobs are left out before the walk: with only paused jobs it would look for another one until the year 2200.
    streams = [
        (job.id, action, specs)
        for job in _chosen(context, job_ids, jobs)
        if with_held or why_held(job, records.get(job.id))[0] is None
        for action, specs in _specs_of(job)
        if action in actions and not (once and action == "start" and job.blackouts and blackout_at(job.blackouts, now))
    ]
    if "start" in actions:
        yield from _delayed(view, streams, now, end)
    walk = context.next_due.walk(streams, now, most, is_once=once)
    coming = _coming(view, takewhile(lambda one: end is None or one.at <= end, walk))
    excluded = [
        _excluded(jobs[job_id], now, end)
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


def _delayed(
    view: View, streams: Sequence[tuple[str, Action, tuple[ScheduleSpec, ...]]], now: Instant, end: Instant | None
) -> Iterator[_Fire]:
    """Occurrences whose time has come and whose runs start later, by jitter."""
    found = [
        (at, row.key.job_id, row.key.scheduled_for)
        for row in view.snapshot.open_runs
        if row.state is PLANNED and row.facts and row.key.scheduled_for <= now < (at := starts_at_of(row))
    ]
    job_ids = {job_id for job_id, action, _ in streams if action == "start"} if found else ()
    for at, job_id, scheduled_for in sorted(found):
        job = view.jobs.get(job_id)
        if job is not None and job_id in job_ids and (end is None or at <= end):
            reason, detail = why_held(job, view.records.get(job_id))
            due = Due(scheduled_for, job_id, "start")
            yield _Fire(due, job, zone_of(job, job.schedules), reason, detail, at)


def _fire(context: Context, fire: _Fire) -> Fire:
    at, zone, delayed = fire.due.at, fire.zone, fire.starts_at
    return Fire(
        job=fire.job.id,
        job_name=name_of(fire.job.id, fire.job),
        action=fire.due.action,
        scheduled_for=to_datetime(at),
        starts_at=moment(delayed),
        local=local_text(at, zone),
        local_start=None if delayed is None else local_text(delayed, zone),
        offset=offset_text(at, zone),
        timezone=zone,
        wait_seconds=((at if delayed is None else delayed) - context.now()) / SECOND,
        what="run" if fire.held is None else f"skip: {fire.held}",
        reason=fire.held,
        detail=fire.detail,
        day=fire.day,
    )


def _chosen(context: Context, job_ids: str | Collection[str] | None, jobs: Mapping[str, Job]) -> list[Job]:
    if job_ids is None:
        return list(jobs.values())
    if isinstance(job_ids, str):
        return [context.definition_of(job_ids)]
    return [jobs[job_id] for job_id in job_ids]


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


def _clock_changes(job: Job, now: Instant) -> tuple[tuple[ClockNote, ...], tuple[str, ...]]:
    """How changes of the clock affect a job's schedules, and what the schedules mean in English."""
    notes: list[ClockNote] = []
    meaning = []
    for spec in map(written_spec, job.schedules):
        engine = compile_schedule(spec)
        if isinstance(engine, CronSchedule):
            notes += clock_notes(engine.cron, now)
            meaning.append(engine.cron.describe())
        else:
            meaning.append(str(spec))
    if rule := rule_of(job.schedules):
        meaning.append(f"calendar: {rule}")
    return tuple(notes), tuple(meaning)


# --- the load of coming minutes


class BusyMinutes(NamedTuple):
    minutes: Mapping[Instant, int]
    """The beginnings of minutes in which something starts."""
    until: Instant
    """How far it counted: less than requested if there are too many occurrences."""


def count_starts(jobs: Iterable[Job], after: Instant, until: Instant) -> BusyMinutes:
    """The starts of jobs, minute by minute, outside of blackouts: all of them, or of a shorter time all of them."""
    shared: Counter[tuple[tuple[ScheduleSpec, ...], tuple[Blackout, ...]]] = Counter()
    delayed: list[tuple[Job, Sequence[Schedule]]] = []
    for job in jobs:
        # Each job with jitter has delays of its own, so it shares its starts with no other.
        if job.policy.jitter_us and (schedules := _compiled(job.schedules)):
            delayed.append((job, schedules))
        else:
            near = tuple(one for one in job.blackouts if one.start <= until and one.end > after)
            shared[job.schedules, near] += 1
    groups = [
        (schedules, blackouts, count) for (specs, blackouts), count in shared.items() if (schedules := _compiled(specs))
    ]

    def looks() -> int:
        plain = sum(_looks(one, after, until) for one, _, _ in groups)
        return plain + sum(count_of(one, after - job.policy.jitter_us, until) for job, one in delayed)

    while (until - after) // MINUTE > 1 and looks() > COUNTED_MAX:
        until = after + (until - after) // 2
    found: Counter[Instant] = Counter()
    for job, schedules in delayed:
        for due in occurrences(schedules, after - job.policy.jitter_us, until):
            if blackout_at(job.blackouts, due) is None and after < (start := starts_at(job, due)) <= until:
                found[start // MINUTE * MINUTE] += 1
    for schedules, blackouts, count in groups:
        for begin, end, inside in split_stretch(blackouts, after, until):
            if inside is None:
                _count_minutes(schedules, begin, end, count, found)
    return BusyMinutes(dict(sorted(found.items())), until)


def _count_minutes(
    schedules: Sequence[Schedule], after: Instant, until: Instant, count: int, found: Counter[Instant]
) -> None:
    if count_of(schedules, after, until) <= (until - after) // MINUTE:
        for at in occurrences(schedules, after, until):
            found[at // MINUTE * MINUTE] += count
        return
    # Due more often than once a minute: counted by minutes, however often that is.
    for minute in range((after + 1) // MINUTE * MINUTE, until + 1, MINUTE):
        number = count_of(schedules, max(after, minute - 1), min(until, minute + MINUTE - 1))
        if number:
            found[minute] += count * number


def _compiled(specs: tuple[ScheduleSpec, ...]) -> Sequence[Schedule]:
    try:
        return compile_all(specs)
    except EvertickError:
        return ()  # its definition is invalid, and has its own error


def _looks(schedules: Sequence[Schedule], after: Instant, until: Instant) -> int:
    return min(count_of(schedules, after, until), (until - after) // MINUTE)

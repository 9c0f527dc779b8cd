"""Queries about time: upcoming occurrences, what a cron expression means, and the calendar."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from evertick.errors import DefinitionError, InvalidArgument
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, Instant, from_datetime, to_datetime, to_text
from evertick.model.job import Job
from evertick.model.lifecycle import SKIPPED, SkipReason
from evertick.operations.context import Context, Shared, View, bounded
from evertick.operations.jobs import name_of, watermark_of, zone_of
from evertick.operations.load_forecast import count_starts
from evertick.operations.next_due_cache import Due
from evertick.operations.preview import why_held
from evertick.operations.shapes import Data, fire_data, outcome_counts
from evertick.operations.submission import no_such_job
from evertick.operations.time_text import local_text, offset_text
from evertick.planning.cron import Cron
from evertick.planning.cron_grammar import ALIASES
from evertick.planning.schedules import CronSchedule, compile_all, compile_schedule, count_of
from evertick.planning.zones import find_zone
from evertick.store import RunFilter, Tally

FIRES_MAX = 10_000
DAYS_MAX = 400
LOAD_US = 7 * DAY
AHEAD_MAX = 60_000
"""Schedules times days that are counted for the days to come of all jobs: about a second's work."""
YEAR_US = 366 * DAY
SETTLED_US = 2 * DAY
"""Of a day that is over for this long nearly everything is known."""
REMEMBERED_US = 10 * MINUTE
DAYS_KEPT = 5_000
FIELDS = ("second", "minute", "hour", "day_of_month", "month", "day_of_week")


class Day(NamedTuple):
    """A day on the clocks of a zone; most have 24 hours."""

    date: date
    start: Instant
    end: Instant


class TimeQueries(Context):
    def upcoming(
        self, job_id: str | None = None, count: int = 20, until: str | None = None, *, is_once: bool = False
    ) -> Data:
        """What runs next, of one job or of all; what is paused or disabled is left out.

        With `is_once` each of all jobs is told once: one that is due all the time would leave no room for others.
        Of one job also what its schedules mean, and what changes of the clock do to them in the coming year.
        """
        bounded("count", count, 1, FIRES_MAX)
        end = self.moment(until, job_id)
        if job_id is None:
            view = self.view()
            fires = self._fires(None, end, with_held=False, most=count, is_once=is_once)
            return view.kept(("upcoming", count, end, is_once), lambda: Shared({"items": list(islice(fires, count))}))
        found = list(islice(self._fires(job_id, end, with_held=False), count))
        notes, meaning = _clock_changes(self.definition_of(job_id), self.now())
        told = {note["at"]: note["text"] for note in notes}
        return {
            "timezone": self.zone(job_id),
            "items": [{**fire, "note": told.get(fire["scheduled_for"])} for fire in found],
            "dst_notes": notes,
            "meaning": meaning,
        }

    def load(self, until: str) -> Data:
        """How many starts each minute up to a time has, over all jobs; `to` is how far was counted."""
        view, end, now = self.view(), self.moment(until), self.now()
        assert end is not None

        def count() -> Shared:
            free = [job.schedules for job in view.jobs.values() if why_held(job, view.records.get(job.id))[0] is None]
            crowd = count_starts(filter(None, free), now, max(now, min(end, now + LOAD_US)))
            minutes = [{"at": to_text(minute), "count": number} for minute, number in crowd.minutes.items()]
            return Shared({"minutes": minutes, "to": to_text(crowd.until)})

        return view.kept(("load", end), count)

    def plan(self, until: str, jobs: Collection[str] = (), limit: int = 100) -> Data:
        """What would fire until a time, over all jobs or some; what would be skipped as things are now is told too."""
        bounded("limit", limit, 1, 10 * FIRES_MAX)
        known = self.jobs
        for job_id in jobs:
            if job_id not in known:
                raise no_such_job(job_id, known)
        found = list(islice(self._fires(jobs or None, self.moment(until), ("start",), most=limit + 1), limit + 1))
        return {"items": found[:limit], "has_more": len(found) > limit}

    def cron(
        self, expression: str, timezone: str | None = None, count: int = 10, after: str | None = None, name: str = ""
    ) -> Data:
        """What an expression means, when it fires next, and what daylight saving does to it in the coming year."""
        bounded("count", count, 1, FIRES_MAX)
        cron = Cron.parse(expression, timezone or "UTC", name)
        start = self.now() if after is None else self.moment(after, zone=cron.timezone)
        assert start is not None
        words = ALIASES.get(cron.text, cron.text).split()
        written = words if len(words) == len(FIELDS) else ["0", *words]
        notes = _dst_notes(cron, start)
        told = {note["at"]: note["text"] for note in notes}
        fires = [from_datetime(moment) for moment in cron.upcoming(to_datetime(start), count)]
        return {
            "expression": expression,
            "timezone": cron.timezone,
            "meaning": cron.describe(),
            "fields": dict(zip(FIELDS, written, strict=True)),
            "dst_notes": notes,
            "next": [
                {
                    "scheduled_for": to_text(at),
                    "local": local_text(at, cron.timezone),
                    "offset": offset_text(at, cron.timezone),
                    "timezone": cron.timezone,
                    "wait_seconds": (at - start) / SECOND,
                    "note": told.get(to_text(at)),
                }
                for at in fires
            ],
        }

    def calendar(
        self, job_id: str | None = None, start: str | None = None, end: str | None = None, zone: str | None = None
    ) -> Data:
        """How each day was on the clocks of a zone, and how often something is still to come.

        `start` and `end` are dates; without them it is the year up to today and the four weeks behind it.
        """
        if job_id is not None:
            self.require(job_id)
        name = zone or self.zone(job_id)
        _check_zone(name)
        now = self.now()
        today = to_datetime(now).astimezone(ZoneInfo(name)).date()
        first = _read_date(start) if start else today - timedelta(days=364)
        last = _read_date(end) if end else today + timedelta(days=28)
        if not 0 <= (last - first).days <= DAYS_MAX:
            raise InvalidArgument(
                f"from {first} to {last} is no stretch of days.", hint=f"Write up to {DAYS_MAX} days, in order."
            )
        days = _days(first, last, name)
        found = self._tallies(job_id, days, now)
        ahead = self._ahead(job_id, days, now)
        return {
            "job": job_id,
            "timezone": name,
            "days": [_day_data(day, found[number], ahead[number]) for number, day in enumerate(days)],
        }

    def _fires(
        self,
        job_ids: str | Collection[str] | None,
        end: Instant | None,
        actions: Sequence[str] = ("start", "stop", "restart"),
        *,
        with_held: bool = True,
        most: int | None = None,
        is_once: bool = False,
    ) -> Iterator[Data]:
        now, view = self.now(), self.view()
        jobs, records = view.jobs, view.records
        chosen = self._chosen(job_ids, jobs)
        # Left out before the walk: of jobs that are all paused it would look for one that is not until the year 2200.
        streams = [
            (job.id, action, specs)
            for job in chosen
            if with_held or why_held(job, records.get(job.id))[0] is None
            for action, specs in _specs_of(job).items()
            if specs and action in actions
        ]
        walk: Iterator[Due] = self.horizon.walk(streams, now, most, is_once=is_once)
        for due in takewhile(lambda one: end is None or one.at <= end, walk):
            job = jobs[due.job_id]
            reason, detail = why_held(job, records.get(job.id))
            zone = zone_of(job, _specs_of(job)[due.action])
            yield fire_data(
                due.at, due.job_id, name_of(due.job_id, job), zone, now, due.action, reason and str(reason), detail
            )

    def _chosen(self, job_ids: str | Collection[str] | None, jobs: Any) -> list[Job]:
        if job_ids is None:
            return list(jobs.values())
        if isinstance(job_ids, str):
            return [self.definition_of(job_ids)]
        return [jobs[job_id] for job_id in job_ids]

    def _tallies(self, job_id: str | None, days: Sequence[Day], now: Instant) -> list[list[Tally]]:
        """Per day; days of one length that follow each other are counted together.

        Of all jobs, days that are over for long are counted once and remembered for a while: a year of a busy ledger
        takes a second to count, and hardly ever changes.
        """
        kept = self._kept_days if job_id is None and self._keep_us else {}
        found = [kept.get(day.start, (0, None))[1] if now < kept.get(day.start, (0, None))[0] else None for day in days]
        begin = 0
        while begin < len(days):
            if found[begin] is not None:
                begin += 1
                continue
            width = days[begin].end - days[begin].start
            stop = begin + 1
            while stop < len(days) and found[stop] is None and days[stop].end - days[stop].start == width:
                stop += 1
            for number, tallies in enumerate(self._count(job_id, days[begin:stop], width, now), begin):
                found[number] = tallies
                if days[number].end < now - SETTLED_US:
                    kept[days[number].start] = (now + REMEMBERED_US, tallies)
            begin = stop
        while len(kept) > DAYS_KEPT:
            kept.pop(next(iter(kept)))
        return [tallies or [] for tallies in found]

    def _count(self, job_id: str | None, days: Sequence[Day], width: int, now: Instant) -> list[list[Tally]]:
        found: list[list[Tally]] = [[] for _ in days]
        since, until = days[0].start, min(days[-1].end, now + HOUR)
        if since < until:
            where = RunFilter(job_ids=() if job_id is None else [job_id], since=since, until=until)
            for tally in self.store.tally(where, width):
                found[tally.cell].append(tally)
        return found

    def _ahead(self, job_id: str | None, days: Sequence[Day], now: Instant) -> Sequence[int | None]:
        """How often one job, or all of them, are due on each day after now."""
        if job_id is None:
            coming = [day for day in days if day.end > now]
            view, kept_for = self.view(), (days[0].start, days[-1].end, now // REMEMBERED_US)
            counted = view.kept(("ahead", *kept_for), lambda: self._ahead_of_all(view, coming, now))
            return [*([0] * (len(days) - len(coming))), *counted]
        record = self.require(job_id)
        if why_held(self.jobs.get(job_id), record)[0] is not None:
            return [0] * len(days)
        schedules = compile_all(self.specs(job_id))
        planned = max(now, watermark_of(record, self.view().snapshot.floors) or 0)
        return [count_of(schedules, max(day.start - 1, planned), day.end - 1) for day in days]

    def _ahead_of_all(self, view: View, days: Sequence[Day], now: Instant) -> list[int | None]:
        """Jobs that share their schedules are counted once; the first days only where even that is too much."""
        shared = Counter(
            compile_all(job.schedules)
            for job in view.jobs.values()
            if job.schedules and why_held(job, view.records.get(job.id))[0] is None
        )
        told = days[: max(AHEAD_MAX // max(len(shared), 1), 1)]
        planned = max([now, *view.snapshot.floors.values()])
        found: list[int | None] = [
            sum(count_of(one, max(day.start - 1, planned), day.end - 1) * jobs for one, jobs in shared.items())
            for day in told
        ]
        return found + [None] * (len(days) - len(told))


def _specs_of(job: Job) -> dict[str, Any]:
    return {"start": job.schedules, "stop": job.stops, "restart": job.restarts}


def _check_zone(name: str) -> None:
    try:
        find_zone(name)
    except DefinitionError as error:
        raise InvalidArgument(error.reason, hint=error.hint, field="timezone") from None


def _read_date(text: str) -> date:
    try:
        found = date.fromisoformat(text[:10])
    except ValueError:
        raise InvalidArgument(f"'{text}' is not a date.", hint="Write for example 2026-03-02.") from None
    if not 1971 <= found.year < 2200:
        raise InvalidArgument(f"'{text}' is out of range.", hint="Write a year from 1971 to 2199.")
    return found


def _days(first: date, last: date, zone: str) -> list[Day]:
    midnights = [
        from_datetime(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)))
        for day in (first + timedelta(days=number) for number in range((last - first).days + 2))
    ]
    return [Day(first + timedelta(days=number), start, end) for number, (start, end) in enumerate(pairwise(midnights))]


def _day_data(day: Day, tallies: Sequence[Tally], ahead: int | None) -> Data:
    skips: Counter[SkipReason] = Counter()
    for tally in tallies:
        if tally.state is SKIPPED and tally.reason is not None:
            skips[tally.reason] += tally.occurrences
    hours = (day.end - day.start) / HOUR
    return {
        "date": day.date.isoformat(),
        "start": to_text(day.start),
        "dst": None if hours == 24 else "forward" if hours < 24 else "back",
        **outcome_counts(tallies),
        "skips": {str(reason): count for reason, count in sorted(skips.items())},
        "planned": ahead,
    }


def _clock_changes(job: Job, now: Instant) -> tuple[list[Data], list[str]]:
    """What changes of the clock do to a job's schedules, and what these mean in English."""
    notes, meaning = [], []
    for spec in job.schedules:
        engine = compile_schedule(spec)
        if isinstance(engine, CronSchedule):
            notes += _dst_notes(engine.cron, now)
            meaning.append(engine.cron.describe())
        else:
            meaning.append(str(spec))
    return notes, meaning


def _dst_notes(cron: Cron, start: Instant) -> list[Data]:
    notes = cron.dst_notes(to_datetime(start), to_datetime(start + YEAR_US))
    instants = [(from_datetime(note.at), note.text) for note in notes]
    return [{"at": to_text(at), "local": local_text(at, cron.timezone), "text": text} for at, text in instants]

"""What a simulated ledger says about the coming days: load by hour, skips, waits, and runs that end too late."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from evertick.model.instant import HOUR, SECOND, Instant, to_datetime
from evertick.model.job import Job
from evertick.model.lifecycle import SKIPPED, SkipReason
from evertick.model.run import LedgerRow
from evertick.operations.ledger_rows import starts_at_of
from evertick.operations.results.preview import DurationSource, Forecast, HourForecast, JobForecast, QueueForecast
from evertick.planning.schedules import compile_all, count_of, next_of

RUNS_MAX: Final = 200_000
"""Occurrences that are simulated, which takes some tens of seconds."""
WAIT_US: Final = SECOND
"""A start that is later than this after its due time waited for something."""


@dataclass(frozen=True, slots=True)
class RunDurations:
    """How long the runs of a job take."""

    seconds: tuple[float, ...]
    source: DurationSource

    def draw(self, number: int) -> int:
        """The duration of the n-th run: the measured ones one after another, so that a simulation can be repeated."""
        return round(self.seconds[number % len(self.seconds)] * SECOND)


class _Span(NamedTuple):
    """A period in which something was active, and how many were added at its beginning."""

    start: Instant
    end: Instant


def cut_period(jobs: Iterable[Job], since: Instant, until: Instant) -> Instant:
    """The end of a period with few enough occurrences to simulate: `until`, or earlier by halves."""
    schedules = [compile_all(job.schedules) for job in jobs if job.enabled]
    while until - since > HOUR and sum(count_of(one, since, until) for one in schedules) > RUNS_MAX:
        until = since + (until - since) // 2
    return until


def report_forecast(
    rows: Sequence[LedgerRow],
    jobs: Mapping[str, Job],
    takes: Mapping[str, RunDurations],
    queues: Mapping[str, int],
    since: Instant,
    until: Instant,
    *,
    is_shortened: bool,
) -> Forecast:
    by_job: defaultdict[str, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        if row.key.scheduled_for <= until:
            by_job[row.key.job_id].append(row)
    runs = [row for found in by_job.values() for row in found if row.state is not SKIPPED]
    reports = [_job_forecast(jobs[job_id], takes[job_id], by_job[job_id], until) for job_id in sorted(by_job)]
    by_queue: defaultdict[str, list[LedgerRow]] = defaultdict(list)
    for row in runs:
        by_queue[jobs[row.key.job_id].queue or ""].append(row)
    return Forecast(
        since=to_datetime(since),
        until=to_datetime(until),
        is_shortened=is_shortened,
        hours=_hours(runs, since, until),
        jobs=tuple(sorted(reports, key=_trouble)),
        queues=tuple(_queue_forecast(queue, limit, by_queue[queue], until) for queue, limit in sorted(queues.items())),
    )


def _trouble(job: JobForecast) -> tuple[int, float, int, str]:
    """The sort key: the most skips first, then the longest wait, then the most late ends."""
    return -sum(job.skipped.values()), -job.longest_wait_seconds, -job.late_ends, job.job


def _job_forecast(job: Job, takes: RunDurations, rows: Sequence[LedgerRow], until: Instant) -> JobForecast:
    skipped: Counter[SkipReason] = Counter()
    for row in rows:
        if row.state is SKIPPED and row.reason is not None:
            skipped[row.reason] += row.occurrences
    runs = [row for row in rows if row.state is not SKIPPED]
    waits = [_wait_us(row, until) for row in runs]
    schedules = compile_all(job.schedules)
    return JobForecast(
        job=job.id,
        runs=sum(row.started_at is not None for row in runs),
        skipped=dict(skipped),
        waited=sum(wait > WAIT_US for wait in waits),
        longest_wait_seconds=max(waits, default=0) / SECOND,
        late_ends=sum(
            (following := next_of(schedules, row.key.scheduled_for)) is not None and _ends_at(row, until) > following
            for row in runs
            if row.started_at is not None
        ),
        typical_seconds=median(takes.seconds),
        duration_source=takes.source,
    )


def _queue_forecast(queue: str, limit: int, rows: Sequence[LedgerRow], until: Instant) -> QueueForecast:
    waits = [_wait_us(row, until) for row in rows]
    levels = _levels(_active(rows, until), 0, until)
    return QueueForecast(
        queue=queue,
        limit=limit,
        busiest=max(levels.values(), default=0),
        waited=sum(wait > WAIT_US for wait in waits),
        longest_wait_seconds=max(waits, default=0) / SECOND,
    )


def _hours(runs: Sequence[LedgerRow], since: Instant, until: Instant) -> tuple[HourForecast, ...]:
    first = since // HOUR
    starts = Counter(row.started_at // HOUR for row in runs if row.started_at is not None)
    active = _levels(_active(runs, until), since, until)
    waiting = _levels(
        [
            _Span(starts_at_of(row), starts_at_of(row) + wait)
            for row in runs
            if (wait := _wait_us(row, until)) > WAIT_US
        ],
        since,
        until,
    )
    return tuple(
        HourForecast(to_datetime(hour * HOUR), starts[hour], active.get(hour, 0), waiting.get(hour, 0))
        for hour in range(first, -(-until // HOUR))
    )


def _levels(spans: Iterable[_Span], since: Instant, until: Instant) -> dict[int, int]:
    """By hour, the most spans at once; an hour without a change has the level that it began with."""
    edges = sorted(edge for span in spans for edge in ((span.start, 1), (span.end, -1)))
    found: dict[int, int] = {}
    level, hour = 0, since // HOUR
    for at, step in edges:
        while hour < at // HOUR:
            found[hour] = max(found.get(hour, 0), level)
            hour += 1
            if at > hour * HOUR:  # what ends with the hour before does not count in this one
                found[hour] = level
        level += step
        found[hour] = max(found.get(hour, 0), level)
    for later in range(hour + 1, -(-until // HOUR)):
        found[later] = level
    return found


def _active(rows: Iterable[LedgerRow], until: Instant) -> list[_Span]:
    return [_Span(row.started_at, _ends_at(row, until)) for row in rows if row.started_at is not None]


def _ends_at(row: LedgerRow, until: Instant) -> Instant:
    return until if row.finished_at is None else row.finished_at


def _wait_us(row: LedgerRow, until: Instant) -> int:
    """How long it waited for something else than its time and its jitter."""
    return max((until if row.started_at is None else row.started_at) - starts_at_of(row), 0)

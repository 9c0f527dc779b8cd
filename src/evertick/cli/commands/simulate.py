"""`evertick simulate`: the coming days, from the job files and measured durations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from evertick.cli import times
from evertick.cli.output import Column, Table, counted, is_terminal, note, output_option, show, show_lines, show_text
from evertick.cli.tables import show_tables
from evertick.cli.target import Target
from evertick.cli.target_options import ledger_options, target_in
from evertick.cli.times import MOMENT
from evertick.model.duration import duration_text

if TYPE_CHECKING:
    from evertick.model.job import Job
    from evertick.operations.forecast_report import RunDurations
    from evertick.operations.protocol import Operations
    from evertick.operations.results.preview import Forecast, HourForecast

MEASURED = 100
"""Past runs of a job whose durations are used."""
JOBS_SHOWN = 20
BARS = " ▁▂▃▄▅▆▇█"


@click.command()
@click.argument("path", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path))
@click.option("--days", type=click.IntRange(1, 92), default=7, show_default=True, help="Length of the period.")
@click.option("--after", type=MOMENT, metavar="TIME", help="Start of the period; default: now.")
@click.option(
    "--takes",
    "given",
    multiple=True,
    metavar="JOB=DURATION",
    help="Duration of a job's runs, such as report=20m; repeatable.",
)
@click.option(
    "--assume",
    default="1m",
    show_default=True,
    metavar="DURATION",
    help="Duration of the runs of a job that has no past runs.",
)
@click.option("--all", "all_jobs", is_flag=True, help="Show every job, not only the first ones.")
@ledger_options
@output_option
def simulate(
    path: Path | None,
    days: int,
    after: int | None,
    given: tuple[str, ...],
    assume: str,
    all_jobs: bool,
    target: Target,
    output: str,
) -> None:
    """Simulate the coming days: load, overlaps, queue waits.

    The scheduler's own loop runs through simulated time. Runs take as long as the last runs of their job in the ledger
    took, and succeed. Nothing is started and nothing is written.

    \b
    Examples:
      evertick simulate jobs
      evertick simulate jobs --days 30 --takes nightly-report=2h
      evertick simulate jobs -o json
    """
    from evertick.forecast import simulate as run_simulation
    from evertick.model.instant import DAY, HOUR
    from evertick.operations.forecast_report import cut_period, report_forecast

    chosen = target_in(path, target)
    with chosen.operations(may_be_new=True) as operations:
        jobs = _active_jobs(operations, chosen.jobs())
        takes = _durations(operations, jobs, given, assume)
    queues = dict(chosen.settings().queues)
    since = times.now() if after is None else after
    asked = since + days * DAY
    until = cut_period(jobs.values(), since, asked)
    with _progress(-(-(until - since) // HOUR)) as advance:
        rows = run_simulation(
            jobs, lambda job_id, number: takes[job_id].draw(number), queues, since, until, lambda _: advance(1)
        )
    found = report_forecast(rows, jobs, takes, queues, since, until, is_shortened=until < asked)
    zone = chosen.settings().timezone
    show(output, found, lambda: _show_forecast(found, zone, None if all_jobs else JOBS_SHOWN), rows=found.jobs)
    _hints(found, zone)


def _active_jobs(operations: Operations, jobs: Mapping[str, Job]) -> dict[str, Job]:
    """Without those that are paused now: nothing is planned for them."""
    from evertick.model.lifecycle import JobStatus

    paused: set[str] = set()
    after: str | None = None
    while True:
        page = operations.list_jobs(statuses=[JobStatus.PAUSED], limit=1_000, after=after)
        paused |= {job.job for job in page.items}
        after = page.next
        if after is None:
            break
    return {job_id: job for job_id, job in jobs.items() if job_id not in paused}


def _durations(
    operations: Operations, jobs: Mapping[str, Job], given: Sequence[str], assume: str
) -> dict[str, RunDurations]:
    from evertick.errors import NotFound
    from evertick.operations.forecast_report import RunDurations

    assumed = RunDurations((_seconds(assume, "--assume"),), "assumed")
    written = dict(_given(one, jobs) for one in given)
    found: dict[str, RunDurations] = {}
    for job_id in jobs:
        if job_id in written:
            found[job_id] = RunDurations((written[job_id],), "given")
            continue
        try:
            points = operations.durations(job_id, MEASURED).items
        except NotFound:  # it has never been scheduled
            points = ()
        measured = tuple(one.duration_seconds for one in points if one.duration_seconds is not None)
        found[job_id] = RunDurations(measured, "measured") if measured else assumed
    return found


def _given(text: str, jobs: Mapping[str, Job]) -> tuple[str, float]:
    from evertick.operations.submission import no_such_job

    job_id, _, duration = text.partition("=")
    if job_id not in jobs:
        raise no_such_job(job_id, jobs)
    return job_id, _seconds(duration, f"--takes {job_id}")


def _seconds(text: str, option: str) -> float:
    from evertick.errors import DurationError
    from evertick.model.duration import parse_duration
    from evertick.model.instant import SECOND

    try:
        return parse_duration(text) / SECOND
    except DurationError as error:
        raise click.UsageError(f"{option}: {error}") from None


@contextmanager
def _progress(hours: int) -> Iterator[Callable[[int], None]]:
    import sys

    with click.progressbar(
        length=hours, label="Simulating", file=sys.stderr, hidden=not is_terminal(sys.stderr)
    ) as progress:
        yield progress.update


def _show_forecast(found: Forecast, zone: str, most: int | None) -> None:
    show_text(f"Runs at once, by hour ({zone})", bold=True)
    show_lines(_plot(found.hours, zone))
    show_text()
    columns = (
        Column("Job", "job", "bold cyan"),
        Column("Runs", lambda job: f"{job.runs:,}", right=True),
        Column("Skipped", lambda job: _counts(job.skipped), "yellow"),
        Column("Waited", lambda job: f"{job.waited:,}" if job.waited else "", right=True),
        Column("Longest wait", lambda job: _span(job.longest_wait_seconds) if job.waited else "", right=True),
        Column("Late ends", lambda job: f"{job.late_ends:,}" if job.late_ends else "", "red", right=True),
        Column("Takes", lambda job: _span(job.typical_seconds), right=True),
        Column("Source", "duration_source", "dim", optional=True),
    )
    tables = [Table(columns, found.jobs[:most])]
    if found.queues:
        tables.append(
            Table(
                (
                    Column("Queue", "queue", "bold cyan"),
                    Column("Limit", "limit", right=True),
                    Column("Busiest", "busiest", right=True),
                    Column("Waited", lambda queue: f"{queue.waited:,}", right=True),
                    Column("Longest wait", lambda queue: _span(queue.longest_wait_seconds), right=True),
                ),
                found.queues,
            )
        )
    show_tables(*tables)


def _plot(hours: Sequence[HourForecast], zone: str) -> Iterator[str]:
    """A line per day, a bar per hour."""
    top = max((hour.busiest for hour in hours), default=0) or 1
    days: defaultdict[date, dict[int, HourForecast]] = defaultdict(dict)
    for hour in hours:
        local = hour.start.astimezone(ZoneInfo(zone))
        known = days[local.date()].get(local.hour)
        if known is None or known.busiest < hour.busiest:  # an hour that comes twice when the clocks go back
            days[local.date()][local.hour] = hour
    yield f"{'':15}" + "".join(f"{hour:<6}" for hour in range(0, 24, 6))
    for day, found in sorted(days.items()):
        bars = "".join(_bar(found[hour].busiest, top) if hour in found else " " for hour in range(24))
        peak = max(found.values(), key=lambda hour: hour.busiest)
        at = peak.start.astimezone(ZoneInfo(zone))
        starts = sum(hour.starts for hour in found.values())
        yield f"{day:%a %Y-%m-%d} {bars}  {counted(starts, 'start')}, at most {peak.busiest:,} at once at {at:%H:00}"


def _bar(value: int, top: int) -> str:
    return BARS[0] if not value else BARS[max(1, round(value / top * (len(BARS) - 1)))]


def _counts(skipped: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items(), key=lambda one: -one[1]))


def _span(seconds: float) -> str:
    return duration_text(round(seconds * 1_000_000))


def _hints(found: Forecast, zone: str) -> None:
    if not found.jobs:
        note("No enabled job is due in that period.")
    assumed = sum(job.duration_source == "assumed" for job in found.jobs)
    if assumed:
        note(f"{counted(assumed, 'job')} without a measured duration; --assume and --takes set it.")
    if found.is_shortened:
        from evertick.model.instant import from_datetime

        end = times.local_text(from_datetime(found.until), zone, seconds=False)
        note(f"The period has too many occurrences and was simulated until {end} only.")

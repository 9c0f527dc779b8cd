"""`evertick upcoming`: what runs next, over all jobs of a folder."""

from __future__ import annotations

from heapq import merge
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from evertick.cli.exits import USAGE
from evertick.cli.output import Column, Row, Table, note, output_option, show
from evertick.cli.times import MOMENT, local_text, offset_text, wait_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evertick.definitions.source import Folder
    from evertick.model.job import Job
    from evertick.model.schedule import ScheduleSpec

ACTIONS = ("start", "stop", "restart")


class Fire(NamedTuple):
    instant: int
    action: str
    job_id: str
    zone: str


@click.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option("--count", "-n", type=click.IntRange(1, 10_000), default=12, show_default=True, help="How many fires.")
@click.option("--until", type=MOMENT, metavar="TIME", help="Only fires up to this time.")
@click.option("--after", type=MOMENT, default="now", metavar="TIME", show_default=True, help="Start from this time.")
@output_option
@click.pass_context
def upcoming(ctx: click.Context, folder: Path, count: int, until: int | None, after: int, output: str) -> None:
    """Show what runs next, over all jobs of a folder.

    Each fire is told in its schedule's own zone and in UTC. The exit code is 2 when a file could not be loaded.

    \b
    Examples:
      evertick upcoming examples
      evertick upcoming jobs --until 2027-01-01T00:00:00Z --count 100 -o json
    """
    from evertick.definitions.source import load_folder
    from evertick.settings import Settings

    found = load_folder(folder, Settings.load(folder))
    jobs = list(found.jobs.values())
    fires = list(islice(_fires(jobs, after, until), count))
    first = {job.id: next(_fires_of(job, after), None) for job in jobs}
    data = {
        "upcoming": [_fire_row(fire, after) for fire in fires],
        "jobs": [_job_row(job, first[job.id]) for job in jobs],
    }
    show(output, data, _tables(folder, data, after), rows=data["upcoming"])
    if not found.files:
        note(f"No job files in '{folder}'. Next: evertick init {folder} writes a first one.")
    elif not fires:
        note("Nothing is due: no enabled job has a fire in that time.")
    else:
        note(f"Next: evertick serve {folder} runs them.")
    _tell_errors(found)
    if found.errors:
        ctx.exit(USAGE)


def _fires(jobs: list[Job], after: int, until: int | None) -> Iterator[Fire]:
    """Every fire of every job in the order of time."""
    enabled = [_fires_of(job, after) for job in jobs if job.enabled]
    return takewhile(lambda fire: until is None or fire.instant <= until, merge(*enabled))


def _fires_of(job: Job, after: int) -> Iterator[Fire]:
    specs = zip(ACTIONS, (job.schedules, job.stops, job.restarts), strict=True)
    return _distinct(merge(*(_fires_of_spec(job, action, spec, after) for action, many in specs for spec in many)))


def _fires_of_spec(job: Job, action: str, spec: ScheduleSpec, after: int) -> Iterator[Fire]:
    from evertick.model.schedule import CronSpec
    from evertick.planning.schedules import compile_schedule

    schedule = compile_schedule(spec)
    zone = spec.timezone if isinstance(spec, CronSpec) else job.timezone
    instant = schedule.next_after(after)
    while instant is not None:
        yield Fire(instant, action, job.id, zone)
        instant = schedule.next_after(instant)


def _distinct(fires: Iterator[Fire]) -> Iterator[Fire]:
    """Two schedules of a job that are due at the same instant are one occurrence."""
    last: tuple[int, str] | None = None
    for fire in fires:
        if (fire.instant, fire.action) != last:
            yield fire
        last = (fire.instant, fire.action)


def _fire_row(fire: Fire, after: int) -> Row:
    from evertick.model.instant import to_text

    return {
        "job": fire.job_id,
        "action": fire.action,
        "scheduled_for": to_text(fire.instant),
        "local": local_text(fire.instant, fire.zone),
        "offset": offset_text(fire.instant, fire.zone),
        "timezone": fire.zone,
        "wait_seconds": (fire.instant - after) / 1_000_000,
    }


def _job_row(job: Job, first: Fire | None) -> Row:
    from evertick.model.instant import to_text

    return {
        "job": job.id,
        "name": job.name,
        "description": job.description,
        "file": job.file,
        "enabled": job.enabled,
        "start": [_spec_row(spec) for spec in job.schedules],
        "stop": [_spec_row(spec) for spec in job.stops],
        "restart": [_spec_row(spec) for spec in job.restarts],
        "after": list(job.after.jobs) if job.after else [],
        "next": to_text(first.instant) if first and job.enabled else None,
        "missed": str(job.policy.missed),
        "overlap": str(job.policy.overlap),
        "max_retries": job.policy.retry.max_retries,
        "steps": [step.name for step in job.steps],
    }


def _spec_row(spec: ScheduleSpec) -> Row:
    from evertick.model.duration import format_duration
    from evertick.model.instant import to_text
    from evertick.model.schedule import AtSpec, CronSpec, EverySpec

    match spec:
        case CronSpec(text, timezone):
            return {"cron": text, "timezone": timezone}
        case EverySpec(period_us):
            return {"every": format_duration(period_us)}
        case AtSpec(instant):
            return {"at": to_text(instant)}


def _tables(folder: Path, data: dict[str, list[Row]], after: int) -> list[Table]:
    next_columns = (
        Column("In", lambda row: wait_text(round(row["wait_seconds"] * 1_000_000)), "green", right=True),
        Column("Job", "job", "bold cyan"),
        Column("What", "action"),
        Column("Local time", "local", "bold"),
        Column("Zone", lambda row: f"{row['timezone']} {row['offset']}"),
        Column("UTC", "scheduled_for", "dim", optional=True),
    )
    job_columns = (
        Column("Job", "job", "bold cyan"),
        Column("Next in", lambda row: _next(row, after), "green", right=True),
        Column("When", _when, wrap=True),
        Column("If missed", lambda row: "skip" if row["missed"] == "none" else f"run {row['missed']}", optional=True),
        Column("If active", "overlap", optional=True),
        Column("Retries", "max_retries", right=True, optional=True),
        Column("What it shows", _about, wrap=True),
    )
    tables = (
        Table(next_columns, data["upcoming"], f"What runs next in {folder}"),
        Table(job_columns, data["jobs"], f"The jobs of {folder}"),
    )
    return [table for table in tables if table.rows]


def _next(row: Row, after: int) -> str:
    from evertick.model.instant import from_text

    return wait_text(from_text(row["next"]) - after) if row["next"] else "-"


def _when(row: Row) -> str:
    """`0 9 * * *, stop 0 18 * * * (Europe/Berlin)`: a zone that all of them share is told once."""
    if not row["enabled"]:
        return "disabled"
    specs = [(action, spec) for action in ACTIONS for spec in row[action]]
    zones = {spec["timezone"] for _action, spec in specs if "timezone" in spec}
    parts = []
    for action, spec in specs:
        kind = next(iter(spec))
        text = spec[kind] if kind == "cron" else f"{kind} {spec[kind]}"
        own = f" ({spec['timezone']})" if len(zones) > 1 and "timezone" in spec else ""
        parts.append(f"{text}{own}" if action == "start" else f"{action} {text}{own}")
    shared = f" ({zones.pop()})" if len(zones) == 1 else ""
    chained = [f"after {', '.join(row['after'])}"] if row["after"] else []
    timed = [", ".join(parts) + shared] if parts else []
    return "; ".join([*timed, *chained]) or "when asked"


def _about(row: Row) -> str:
    return str(row["description"] or row["name"]).strip().partition("\n")[0]


def _tell_errors(found: Folder) -> None:
    for errors in found.errors.values():
        for error in errors:
            note(str(error))
    if found.errors:
        note(f"{len(found.errors)} of {len(found.files)} files left out; the others are not affected.")

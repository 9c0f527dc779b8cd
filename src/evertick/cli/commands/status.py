"""`evertick status`: the status of a job, or of the whole scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evertick.cli import times
from evertick.cli.complete import complete_jobs
from evertick.cli.output import Column, Row, Table, note, output_option, show
from evertick.cli.overview import show_overview
from evertick.cli.run_view import run_tables
from evertick.cli.runs import runs_table
from evertick.cli.target import Target
from evertick.cli.target_options import target_options
from evertick.cli.times import local_text, whole_second_text
from evertick.model.duration import duration_text
from evertick.model.instant import from_datetime

if TYPE_CHECKING:
    from datetime import datetime

    from evertick.operations.results.jobs import JobDetail

WAITING_SHOWN = 10
RUN_MARK = "@"
"""In every run id and in no job id."""


@click.command()
@click.argument("job", metavar="[JOB|RUN_ID]", required=False, shell_complete=complete_jobs)
@click.option("--runs", type=click.IntRange(0, 100), default=5, show_default=True, help="Number of recent runs.")
@target_options
@output_option
def status(job: str | None, runs: int, target: Target, output: str) -> None:
    """Show the status of a job, of a run, or of the whole scheduler.

    For JOB: its schedule, its active and waiting runs, and its recent runs. For RUN_ID, which may be shortened to a
    unique prefix: its steps as a tree. Without either: all running and waiting runs, what is next, and what failed or
    was skipped in the last 24 hours.

    \b
    Examples:
      evertick status
      evertick status report
      evertick status report@2026-03-02T09
      evertick status report --folder jobs -o json
    """
    from evertick.cli.requests import data_with
    from evertick.model.lifecycle import WAITING
    from evertick.operations.protocol import RunQuery

    with target.operations() as operations:
        if job is None:
            show_overview(operations, output)
            return
        if RUN_MARK in job:
            run = operations.run(job)
            show(output, run, list(run_tables(run)), name="run")
            return
        one = operations.job(job)
        waiting = operations.list_runs(RunQuery(job, [WAITING]), WAITING_SHOWN).items if one.waiting else ()
        last = operations.list_runs(RunQuery(job), runs).items if runs else ()
    facts = _facts(one, times.now())
    tables = [
        Table((Column("Field", "what"), Column("Value", "value", "bold", wrap=True)), facts),
        runs_table(one.active_runs, "Active runs"),
        runs_table(waiting, f"Waiting runs ({one.waiting:,})"),
        runs_table(last, "Recent runs"),
    ]
    data = one if output == "table" else data_with(one, runs=last)
    show(output, data, [table for table in tables if table.rows])
    if not one.is_scheduler_running:
        note("No scheduler is running. Next: evertick serve")


def _facts(one: JobDetail, now: int) -> list[Row]:
    zone = one.timezone

    def local_time(moment: datetime | None) -> str | None:
        return None if moment is None else local_text(from_datetime(moment), zone)

    next_at = one.next_at
    facts = {
        "job": one.job,
        "description": one.description.strip().partition("\n")[0],
        "file": one.file,
        "status": one.status,
        "light": f"{one.light}, since the deadline of {local_time(one.late_since)}" if one.late_since else one.light,
        "schedule": ", ".join(one.schedules) or "none (manual runs only)",
        "next run": f"{local_time(next_at)} {zone} (in {duration_text(from_datetime(next_at) - now)})"
        if next_at
        else "-",
        "next start": f"{local_time(one.next_starts_at)} {zone} (jitter)" if one.next_starts_at else None,
        "watermark": whole_second_text(one.watermark, zone) if one.watermark else "not planned yet",
        "last success": local_time(one.last_success_for),
        "paused since": f"{whole_second_text(one.paused_at, zone)} {one.pause_note}".rstrip()
        if one.paused_at
        else None,
        "stale": "the file has an error; the scheduler runs its last valid version" if one.is_stale else None,
        "error": "; ".join(text for text in (one.error, *(found.text for found in one.problems)) if text),
        "active runs": one.active,
        "waiting runs": one.waiting,
    }
    return [{"what": what, "value": value} for what, value in facts.items() if value not in (None, "")]

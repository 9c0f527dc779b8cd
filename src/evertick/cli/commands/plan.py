"""`evertick plan`: what will run until a given time."""

from __future__ import annotations

from pathlib import Path

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import Column, Table, note, output_option, show
from evertick.cli.runs import start_columns
from evertick.cli.target import Target
from evertick.cli.target_options import target_in, target_options
from evertick.model.duration import duration_text


@click.command()
@click.argument("path", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path))
@click.option("--until", required=True, metavar="TIME", help="End of the period, inclusive.")
@click.option(
    "--job",
    "job_ids",
    multiple=True,
    metavar="JOB",
    shell_complete=complete_jobs,
    help="Only this job; repeatable.",
)
@click.option("--limit", "-n", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Maximum number.")
@target_options
@output_option
def plan(path: Path | None, until: str, job_ids: tuple[str, ...], limit: int, target: Target, output: str) -> None:
    """Show what will run until a given time.

    The plan includes occurrences that would be skipped because their job is paused or disabled, or because a calendar
    excludes their day, with the reason.

    \b
    Examples:
      evertick plan --until 2027-01-01T00:00:00Z
      evertick plan jobs --until 2026-12-24T18:00:00+01:00 --job report -o json
    """
    with target_in(path, target).operations(may_be_new=True) as operations:
        found = operations.plan(until, job_ids, limit)
        has_jobs = bool(found.items) or bool(operations.list_jobs(limit=1).items)
    rows = found.items
    columns = (
        Column("In", lambda fire: duration_text(round(fire.wait_seconds * 1_000_000)), "green", right=True),
        Column("Job", "job", "bold cyan"),
        Column("Action", "what"),
        Column("Local time", "local", "bold"),
        *start_columns(rows),
        Column("Zone", "timezone", optional=True),
        Column("UTC", "scheduled_for", "dim", optional=True),
        Column("Detail", "detail", wrap=True, optional=True),
    )
    show(output, found, Table(columns, rows), rows=rows)
    if not rows:
        note("No job is due until then." if has_jobs else "There are no jobs yet. Next: evertick init")
    elif found.has_more:
        note(f"Only the first {limit:,} are shown. Use --limit to show more.")

"""`evertick upcoming`: the next runs of all jobs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.exits import USAGE
from evertick.cli.output import Column, Table, note, output_option, show
from evertick.cli.runs import start_columns
from evertick.cli.target import Target
from evertick.cli.target_options import target_in, target_options
from evertick.cli.times import MOMENT
from evertick.model.duration import duration_text

if TYPE_CHECKING:
    from evertick.operations.results.schedule import Fire, JobUpcoming


@click.command()
@click.argument("path", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path))
@click.option("--job", metavar="JOB", shell_complete=complete_jobs, help="Only this job, with its schedule explained.")
@click.option("--count", "-n", type=click.IntRange(1, 10_000), default=12, show_default=True, help="Number of runs.")
@click.option("--until", metavar="TIME", help="Only runs up to this time.")
@click.option("--all", "excluded", is_flag=True, help="Also occurrences that a calendar excludes, with the day.")
@click.option("--after", type=MOMENT, metavar="TIME", help="Start from this time; default: now.")
@target_options
@output_option
@click.pass_context
def upcoming(
    ctx: click.Context,
    path: Path | None,
    job: str | None,
    count: int,
    until: str | None,
    excluded: bool,
    after: int | None,
    target: Target,
    output: str,
) -> None:
    """Show the next runs of all jobs.

    Each time is shown in the schedule's own time zone and in UTC. Paused and disabled jobs are left out. The exit code
    is 2 when a job file has an error.

    \b
    Examples:
      evertick upcoming examples
      evertick upcoming jobs --until 2027-01-01T00:00:00Z --count 100 -o json
      evertick upcoming jobs --job report --all
    """
    from evertick.operations.results.schedule import Upcoming

    chosen = target_in(path, target)
    if after is not None and chosen.server is not None:
        raise click.UsageError("--after and --server cannot be combined.")
    with chosen.operations(may_be_new=True, at=after) as operations:
        if job is None:
            found: Upcoming | JobUpcoming = operations.upcoming(count, until, excluded=excluded)
        else:
            found = operations.job_upcoming(job, count, until, excluded=excluded)
        jobs = operations.list_jobs(limit=1)
    fires = found.items
    show(output, found, _table(fires), rows=fires)
    if not isinstance(found, Upcoming):
        for sentence in found.meaning:
            note(sentence)
        for change in found.dst_notes:
            note(f"{change.local}: {change.text}")
    total, problems = sum(jobs.statuses.values()), jobs.problems
    name = f" {path}" if path is not None else ""
    if not total and not problems:
        note(f"There are no jobs{f' in {path}' if path else ''} yet. Next: evertick init{name}")
    elif not fires:
        note("No enabled job is due in that period.")
    elif chosen.state is not None and not chosen.state.exists():
        note(f"The scheduler has not run here yet. Next: evertick serve{name}")
    for problem in problems:
        note(problem.text)
    if problems:
        ctx.exit(USAGE)


def _table(fires: Sequence[Fire]) -> Table:
    columns: tuple[Column, ...] = (
        Column("In", lambda fire: duration_text(round(fire.wait_seconds * 1_000_000)), "green", right=True),
        Column("Job", "job", "bold cyan"),
        Column("Action", lambda fire: fire.what if fire.day else fire.action),
        Column("Local time", "local", "bold"),
        *start_columns(fires),
        Column("Zone", lambda fire: f"{fire.timezone} {fire.offset}", optional=True),
        Column("UTC", "scheduled_for", "dim", optional=True),
    )
    if any(fire.detail for fire in fires):
        columns = (*columns, Column("Note", "detail", wrap=True))
    return Table(columns, fires)

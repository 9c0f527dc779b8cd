"""`evertick upcoming`: what runs next."""

from __future__ import annotations

from pathlib import Path

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.exits import USAGE
from evertick.cli.output import Column, Row, Table, note, output_option, show
from evertick.cli.target import Target, place_options
from evertick.cli.times import MOMENT, wait_text


@click.command()
@click.argument("path", metavar="[FOLDER]", required=False, type=click.Path(path_type=Path))
@click.option("--job", metavar="JOB", shell_complete=complete_jobs, help="Only this job, with what its schedule means.")
@click.option("--count", "-n", type=click.IntRange(1, 10_000), default=12, show_default=True, help="How many fires.")
@click.option("--until", metavar="TIME", help="Only fires up to this time.")
@click.option("--after", type=MOMENT, metavar="TIME", help="As if it were that time; default: now.")
@place_options
@output_option
@click.pass_context
def upcoming(
    ctx: click.Context,
    path: Path | None,
    job: str | None,
    count: int,
    until: str | None,
    after: int | None,
    place: Target,
    output: str,
) -> None:
    """Show what runs next, over all jobs of a folder.

    Each fire is told in its schedule's own zone and in UTC; what is paused or disabled is left out. The exit code is 2
    when a file could not be loaded.

    \b
    Examples:
      evertick upcoming examples
      evertick upcoming jobs --until 2027-01-01T00:00:00Z --count 100 -o json
    """
    chosen = place.in_folder(path)
    if after is not None and chosen.server is not None:
        raise click.UsageError("a server tells what is next from now on. Leave --after out.")
    with chosen.operations(may_be_new=True, at=after) as operations:
        found = operations.upcoming(job, count, until)
        jobs = operations.list_jobs(limit=1)
    fires = found["items"]
    show(output, found, _table(fires), rows=fires)
    for sentence in found.get("meaning", ()):
        note(sentence)
    for change in found.get("dst_notes", ()):
        note(f"{change['local']}: {change['text']}")
    total, problems = sum(jobs["statuses"].values()), jobs["problems"]
    name = f" {path}" if path is not None else ""
    if not total and not problems:
        note(f"There are no jobs{f' in {path}' if path else ''}. Next: evertick init{name} writes a first one.")
    elif not fires:
        note("Nothing is due: no enabled job has a fire in that time.")
    elif chosen.state is not None and not chosen.state.exists():
        note(f"Next: evertick serve{name} runs them.")
    for problem in problems:
        note(problem["text"])
    if problems:
        ctx.exit(USAGE)


def _table(fires: list[Row]) -> Table:
    columns = (
        Column("In", lambda row: wait_text(round(row["wait_seconds"] * 1_000_000)), "green", right=True),
        Column("Job", "job", "bold cyan"),
        Column("What", "action"),
        Column("Local time", "local", "bold"),
        Column("Zone", lambda row: f"{row['timezone']} {row['offset']}", optional=True),
        Column("UTC", "scheduled_for", "dim", optional=True),
    )
    return Table(columns, fires)

"""`evertick list`: the jobs, and how they stand."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import click

from evertick.cli import times
from evertick.cli.complete import words
from evertick.cli.output import Column, Row, Table, note, output_option, show
from evertick.cli.runs import state_text
from evertick.cli.target import Target, place_options
from evertick.cli.times import local_text, wait_text
from evertick.model.instant import from_text

PROBLEMS_SHOWN = 5


def _statuses() -> list[str]:
    from evertick.model.lifecycle import JobStatus

    return list(JobStatus)


@click.command(name="list")
@click.argument("search", required=False, default="")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    metavar="STATUS",
    shell_complete=words(_statuses),
    help="Only jobs with this status; may be repeated.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only jobs with this tag; may be repeated.")
@click.option("--all", "with_gone", is_flag=True, help="Also jobs whose definition is gone.")
@place_options
@output_option
def list_(
    search: str, statuses: tuple[str, ...], tags: tuple[str, ...], with_gone: bool, place: Target, output: str
) -> None:
    """List the jobs and how they stand.

    The jobs are those of the folder and those that the ledger knows; SEARCH is looked for in their names, descriptions
    and tags. Without a ledger, the folder alone is shown.

    \b
    Examples:
      evertick list
      evertick list --folder jobs --status error -o name
    """
    from evertick.cli.lazy import unknown
    from evertick.cli.requests import all_pages
    from evertick.model.lifecycle import JobStatus

    for status in statuses:
        if status not in set(JobStatus):
            raise click.UsageError(unknown("status", status, [str(one) for one in JobStatus]))
    with place.operations(may_be_new=True) as operations:
        page = all_pages(
            lambda size, mark: operations.list_jobs(search, tags, statuses, limit=size, after=mark, with_gone=with_gone)
        )
        known = sum(page["statuses"].values())
        is_new = bool(known) and all(job["watermark"] is None for job in page["items"])
        is_idle = is_new and not operations.is_scheduler_running()
    problems = page["problems"]
    wrong = {problem["file"] for problem in problems}
    show(output, page, jobs_table(page["items"], times.now(), wrong), rows=page["items"])
    for problem in problems[:PROBLEMS_SHOWN]:
        note(problem["text"])
    if len(problems) > PROBLEMS_SHOWN:
        note(f"{len(problems) - PROBLEMS_SHOWN:,} more errors. Next: evertick validate")
    if not known and not problems:
        note(f"No job is like '{search}'." if search else "There are no jobs. Next: evertick init writes a first one.")
    elif known and not page["items"]:
        note(f"None of {known:,} jobs stands so.")
    elif is_idle:
        note("No scheduler has run here yet. Next: evertick serve")


def jobs_table(jobs: Sequence[Row], at: int, wrong: Collection[str] = ()) -> Table:
    """`wrong` are the files with an error: what is at work of them is the last good version."""

    def wait(row: Row) -> str:
        return wait_text(from_text(row["next_at"]) - at) if row["next_at"] else "-"

    def next_time(row: Row) -> str:
        return f"{local_text(from_text(row['next_at']), row['timezone'])} {row['timezone']}" if row["next_at"] else "-"

    columns = (
        Column("Job", "job", "bold cyan"),
        Column("Status", lambda row: f"{row['status']}{' (stale)' if row['file'] in wrong else ''}", "state"),
        Column("Next in", wait, "green", right=True),
        Column("Last run", lambda row: state_text(row["last"]) if row["last"] else "-", "state"),
        Column("What it is", lambda row: row["description"].strip().partition("\n")[0], wrap=True, optional=True),
        Column("Next", next_time, optional=True),
        Column("For", lambda row: row["last"]["scheduled_for"] if row["last"] else "", "dim", optional=True),
        Column("Watermark", lambda row: row["watermark"] or "never planned", "dim", optional=True),
    )
    return Table(columns, jobs)

"""`evertick list`: the jobs with their status and next run."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli import times
from evertick.cli.complete import complete_words
from evertick.cli.output import Column, Table, counted, note, output_option, show
from evertick.cli.runs import state_text
from evertick.cli.target import Target
from evertick.cli.target_options import target_options
from evertick.cli.times import local_text, whole_second_text
from evertick.model.duration import duration_text
from evertick.model.instant import from_datetime

if TYPE_CHECKING:
    from evertick.operations.results.jobs import Job

PROBLEMS_SHOWN = 5


@click.command(name="list")
@click.argument("search", required=False, default="")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    metavar="STATUS",
    shell_complete=complete_words("JobStatus"),
    help="Only jobs with this status; repeatable.",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only jobs with this tag; repeatable.")
@click.option("--all", "with_gone", is_flag=True, help="Include deleted jobs that have history.")
@target_options
@output_option
def list_(
    search: str, statuses: tuple[str, ...], tags: tuple[str, ...], with_gone: bool, target: Target, output: str
) -> None:
    """List jobs with their status and next run.

    SEARCH filters by name, description and tag. Before the scheduler has run, the list shows the jobs of the folder.

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
    chosen = [JobStatus(status) for status in statuses]
    with target.operations(may_be_new=True, reads_ahead=True) as operations:
        page = all_pages(
            lambda size, mark: operations.list_jobs(search, tags, chosen, limit=size, after=mark, with_gone=with_gone)
        )
        known = sum(page.statuses.values())
        is_new = bool(known) and all(job.watermark is None for job in page.items)
        is_idle = is_new and not operations.status().is_scheduler_running
    problems = page.problems
    wrong = {problem.file for problem in problems if problem.file is not None}
    show(output, page, jobs_table(page.items, times.now(), wrong), rows=page.items)
    for problem in problems[:PROBLEMS_SHOWN]:
        note(problem.text)
    if len(problems) > PROBLEMS_SHOWN:
        note(f"{counted(len(problems) - PROBLEMS_SHOWN, 'more error')}. Next: evertick validate")
    if not known and not problems:
        note(f"No jobs match '{search}'." if search else "There are no jobs yet. Next: evertick init")
    elif known and not page.items:
        note("No jobs match that status." if statuses else "No jobs match.")
    elif is_idle:
        note("The scheduler has not run here yet. Next: evertick serve")
    if search and not page.items and Path(search).is_dir():
        note(f"'{search}' is a folder. Next: evertick list --folder {shlex.quote(search)}")


def jobs_table(jobs: Sequence[Job], at: int, wrong: Collection[str] = ()) -> Table:
    """`wrong` are the files with an error: the scheduler still runs their last valid version."""

    # Among ten thousand jobs many have the same times: each is written once.
    @cache
    def wait_until(next_at: datetime) -> str:
        return duration_text(from_datetime(next_at) - at)

    @cache
    def due_text(due: datetime, zone: str) -> str:
        return local_text(from_datetime(due), zone)

    planned_text = cache(whole_second_text)

    def wait(job: Job) -> str:
        return wait_until(job.next_at) if job.next_at else "-"

    def next_time(job: Job) -> str:
        return f"{due_text(job.next_at, job.timezone)} {job.timezone}" if job.next_at else "-"

    def last_due(job: Job) -> str:
        return due_text(job.last.scheduled_for, job.timezone) if job.last else ""

    def watermark(job: Job) -> str:
        return planned_text(job.watermark, job.timezone) if job.watermark else "not planned yet"

    columns = (
        Column("Job", "job", "bold cyan"),
        Column("Status", lambda job: f"{job.status}{' (stale)' if job.file in wrong else ''}", lambda job: job.status),
        Column("Light", lambda job: job.light or "-", lambda job: job.light),
        Column("Next in", wait, "green", right=True),
        Column(
            "Last run", lambda job: state_text(job.last) if job.last else "-", lambda job: job.last and job.last.state
        ),
        Column("Description", lambda job: job.description.strip().partition("\n")[0], wrap=True, optional=True),
        Column("Next run", next_time, optional=True),
        Column("Last due", last_due, "dim", optional=True),
        Column("Watermark", watermark, "dim", optional=True),
    )
    return Table(columns, jobs)

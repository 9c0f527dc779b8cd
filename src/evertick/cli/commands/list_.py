"""`evertick list`: the jobs, and how they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from evertick.cli.output import Column, Row, Table, note, output_option, show
from evertick.cli.place import Place, place_options
from evertick.cli.runs import state_text
from evertick.cli.times import local_text, now, wait_text
from evertick.model.instant import from_text

if TYPE_CHECKING:
    from evertick.operations.jobs import JobStanding


@click.command(name="list")
@click.option("--status", "statuses", multiple=True, metavar="STATUS", help="Only jobs that stand so; may be repeated.")
@click.option("--all", "with_gone", is_flag=True, help="Also jobs whose definition is gone.")
@place_options
@output_option
def list_(statuses: tuple[str, ...], with_gone: bool, place: Place, output: str) -> None:
    """List the jobs and how they stand.

    The jobs are those of the folder and those that the ledger knows. Without a ledger, the folder alone is shown.

    \b
    Examples:
      evertick list
      evertick list --folder jobs --status error -o json
    """
    from evertick.errors import DefinitionError
    from evertick.model.lifecycle import JobStatus
    from evertick.operations import list_standings

    for status in statuses:
        if status not in set(JobStatus):
            raise DefinitionError(f"'{status}' is no status of a job.", hint=f"It is one of {', '.join(JobStatus)}.")
    at = now()
    with place.open_if_there() as store:
        found = list_standings(store, place.jobs(), at)
    known = [one for one in found if with_gone or one.retired_at is None]
    chosen = [one for one in known if not statuses or one.status in statuses]
    rows = [standing_data(one) for one in chosen]
    show(output, rows, jobs_table(rows, at))
    if not known:
        note("There are no jobs. Next: evertick init writes a first one.")
    elif not chosen:
        note(f"None of {len(known):,} jobs stands so.")
    if store is None and known:
        note("No scheduler has run here yet. Next: evertick serve")


def standing_data(one: JobStanding) -> dict[str, Any]:
    from evertick.operations import run_data
    from evertick.operations.data import text_or_none

    return {
        "job": one.job_id,
        "status": str(one.status),
        "next": text_or_none(one.next_at),
        "timezone": one.zone,
        "watermark": text_or_none(one.watermark),
        "active": [run_data(row) for row in one.active],
        "waiting": len(one.waiting),
        "last": None if one.last is None else run_data(one.last),
        "last_success_for": text_or_none(one.last_success_at),
        "schedules": [str(spec) for spec in one.specs],
        "paused_at": text_or_none(one.paused_at),
        "pause_note": one.pause_note,
        "error": one.error,
        "retired_at": text_or_none(one.retired_at),
    }


def jobs_table(jobs: Sequence[Row], at: int) -> Table:
    def wait(row: Row) -> str:
        return wait_text(from_text(row["next"]) - at) if row["next"] else "-"

    def next_time(row: Row) -> str:
        return f"{local_text(from_text(row['next']), row['timezone'])} {row['timezone']}" if row["next"] else "-"

    columns = (
        Column("Job", "job", "bold cyan"),
        Column("Status", "status", "state"),
        Column("Next in", wait, "green", right=True),
        Column("Last run", lambda row: state_text(row["last"]) if row["last"] else "-", "state"),
        Column("Next", next_time, optional=True),
        Column("For", lambda row: row["last"]["scheduled_for"] if row["last"] else "", "dim", optional=True),
        Column("Watermark", lambda row: row["watermark"] or "never planned", "dim", optional=True),
    )
    return Table(columns, jobs)

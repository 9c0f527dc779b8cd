"""`evertick plan`: what would fire until a time."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from evertick.cli.output import Column, Table, note, output_option, show
from evertick.cli.place import Place, find_place
from evertick.cli.times import MOMENT, local_text, now, wait_text


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@click.option("--until", type=MOMENT, required=True, metavar="TIME", help="Up to this time, included.")
@click.option("--job", "job_ids", multiple=True, metavar="JOB", help="Only this job; may be repeated.")
@click.option("--limit", "-n", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many.")
@click.option("--store", envvar="EVERTICK_STORE", metavar="URL", help="The ledger, which knows what is paused.")
@output_option
def plan(folder: Path | None, until: int, job_ids: tuple[str, ...], limit: int, store: str | None, output: str) -> None:
    """Show what would fire until a time, over all jobs.

    Occurrences that would be skipped as things are now, because their job is paused or disabled, are told too.

    \b
    Examples:
      evertick plan --until 2027-01-01T00:00:00Z
      evertick plan jobs --until 2026-12-24T18:00:00+01:00 --job report -o json
    """
    from evertick.model.instant import to_text
    from evertick.operations import fires_until, no_such_job

    place: Place = find_place(store, folder or Path())
    at, jobs = now(), place.jobs()
    for job_id in job_ids:
        if job_id not in jobs:
            raise no_such_job(job_id, jobs)
    with place.open_if_there() as ledger:
        records = {record.job_id: record for record in ledger.load().jobs} if ledger else {}
    chosen = {job_id: job for job_id, job in jobs.items() if not job_ids or job_id in job_ids}
    found = list(islice(fires_until(chosen, records, at, until), limit + 1))
    rows = [
        {
            "job": fire.job_id,
            "scheduled_for": to_text(fire.at),
            "local": local_text(fire.at, fire.zone),
            "timezone": fire.zone,
            "what": "run" if fire.held is None else f"skip: {fire.held}",
            "reason": None if fire.held is None else str(fire.held),
            "detail": fire.detail,
            "wait_seconds": (fire.at - at) / 1_000_000,
        }
        for fire in found[:limit]
    ]
    columns = (
        Column("In", lambda row: wait_text(round(row["wait_seconds"] * 1_000_000)), "green", right=True),
        Column("Job", "job", "bold cyan"),
        Column("What", "what"),
        Column("Local time", "local", "bold"),
        Column("Zone", "timezone"),
        Column("UTC", "scheduled_for", "dim", optional=True),
        Column("Detail", "detail", wrap=True, optional=True),
    )
    show(output, rows, Table(columns, rows))
    if not rows:
        note("Nothing is due until then." if jobs else "There are no jobs. Next: evertick init writes a first one.")
    elif len(found) > limit:
        note(f"There is more: these are the first {limit:,}; --limit shows more.")

"""`evertick catchup`: what a start now would catch up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evertick.cli.output import Column, Row, Table, note, output_option, show
from evertick.cli.place import Place, place_options
from evertick.cli.times import local_text, now

if TYPE_CHECKING:
    from evertick.operations.preview import CatchupPreview


@click.command()
@click.argument("job")
@click.option("--dry-run", is_flag=True, help="Show it, and change nothing.")
@click.option(
    "--keep",
    type=click.Choice(["all", "latest", "first", "none"]),
    help="As if this were chosen, instead of the job's own policy (as 'resume --catchup' does).",
)
@place_options
@output_option
def catchup(job: str, dry_run: bool, keep: str | None, place: Place, output: str) -> None:
    """Show what a start now would catch up for a job.

    A scheduler catches up by itself when it starts, and a resume does; this shows what it would decide, from the
    ledger's watermark and the job's policy. To run past occurrences now, there is 'evertick backfill'.

    \b
    Examples:
      evertick catchup --dry-run report
      evertick catchup --dry-run report --keep all -o json
    """
    from evertick.model.instant import to_text
    from evertick.model.policy import Missed
    from evertick.operations import preview_catchup, zone_of

    if not dry_run:
        raise click.UsageError(
            "a scheduler catches up by itself when it starts. Add --dry-run to see what it would do, or run past "
            f"occurrences now: evertick backfill {job} --from TIME --to TIME"
        )
    definition = place.job(job)
    zone = zone_of(definition, definition.schedules)
    with place.open() as store:
        found = preview_catchup(store, definition, now(), Missed(keep) if keep else None)
    rows: list[Row] = [
        {
            "scheduled_for": to_text(fate.at),
            "local": local_text(fate.at, zone),
            "through": None if fate.through is None else to_text(fate.through),
            "occurrences": fate.occurrences,
            "what": "run" if fate.runs else f"skip: {fate.reason}",
            "reason": None if fate.reason is None else str(fate.reason),
            "detail": fate.detail,
        }
        for fate in found.fates
    ]
    data = {
        "job": job,
        "watermark": None if found.watermark is None else to_text(found.watermark),
        "backlog": [key.run_id for key in found.backlog],
        "kept": found.kept,
        "skipped": found.skipped,
        "fates": rows,
    }
    columns = (
        Column("Local time", "local", "bold"),
        Column("What", "what"),
        Column("Count", "occurrences", right=True),
        Column("Through", "through", "dim", optional=True),
        Column("Why", "detail", wrap=True),
    )
    show(output, data, Table(columns, rows), rows=rows, name="scheduled_for")
    _tell(found, zone, job)


def _tell(found: CatchupPreview, zone: str, job: str) -> None:
    if found.watermark is None:
        note("The ledger does not know the job: its first start begins with what is due then, and catches nothing up.")
        return
    since = f"since {local_text(found.watermark, zone)} {zone}"
    if found.paused_at is not None:
        note(f"The job is paused: this is what 'evertick resume {job}' would do.")
    if not found.fates:
        note(f"Nothing was due {since}.")
    else:
        note(f"{found.kept:,} would run and {found.skipped:,} would be skipped, of what was due {since}.")
    if found.backlog:
        note(f"{len(found.backlog):,} wait already, and come first.")

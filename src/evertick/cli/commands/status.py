"""`evertick status`: how one job stands."""

from __future__ import annotations

import click

from evertick.cli.commands.list_ import standing_data
from evertick.cli.output import Column, Table, note, output_option, show
from evertick.cli.place import Place, place_options
from evertick.cli.runs import runs_table
from evertick.cli.times import local_text, now, wait_text


@click.command()
@click.argument("job")
@click.option("--runs", type=click.IntRange(0, 100), default=5, show_default=True, help="How many of the last runs.")
@place_options
@output_option
def status(job: str, runs: int, place: Place, output: str) -> None:
    """Show how a job stands: what runs, what waits, what was.

    \b
    Examples:
      evertick status report
      evertick status report --folder jobs -o json
    """
    from evertick.operations import history, run_data, standing_of

    at = now()
    with place.open() as store:
        one = standing_of(store, job, place.jobs(), at)
        last = history(store, job, limit=runs).rows if runs else ()
        is_live = place.is_anyone_running(store)
    data = {**standing_data(one), "runs": [run_data(row) for row in last], "is_scheduler_running": is_live}
    facts = {
        "job": one.job_id,
        "status": one.status,
        "schedule": ", ".join(map(str, one.specs)) or "when asked",
        "next": "-"
        if one.next_at is None
        else f"{local_text(one.next_at, one.zone)} {one.zone} (in {wait_text(one.next_at - at)})",
        "watermark": "never planned" if one.watermark is None else local_text(one.watermark, one.zone),
        "last success for": one.last_success_at and local_text(one.last_success_at, one.zone),
        "paused since": one.paused_at and f"{local_text(one.paused_at, one.zone)} {one.pause_note}".rstrip(),
        "error": one.error,
        "active": len(one.active),
        "waiting": len(one.waiting),
    }
    rows = [{"what": what, "value": value} for what, value in facts.items() if value not in (None, "")]
    tables = [Table((Column("What", "what"), Column("Value", "value", "bold", wrap=True)), rows)]
    if one.active:
        tables.append(runs_table([run_data(row) for row in one.active], one.zone, "Active"))
    if one.waiting:
        waiting = [run_data(row) for row in one.waiting[:10]]
        tables.append(runs_table(waiting, one.zone, f"Waiting ({len(one.waiting):,})"))
    if last:
        tables.append(runs_table(data["runs"], one.zone, "Last"))
    show(output, data, tables)
    if not is_live:
        note("Nobody is running on this ledger. Next: evertick serve")

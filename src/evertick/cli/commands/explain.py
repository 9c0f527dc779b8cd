"""`evertick explain`: the rules a job runs under."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import Column, Table, output_option, show
from evertick.cli.place import Place, place_options


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@place_options
@output_option
def explain(job: str, place: Place, output: str) -> None:
    """Show the rules a job runs under, and where each was written.

    \b
    Example:
      evertick explain report --folder jobs
    """
    place.require_folder()
    with place.desk(may_be_new=True) as desk:
        rules = desk.explain(job)
    columns = (
        Column("Rule", "name", "cyan"),
        Column("Value", "value", "bold", wrap=True),
        Column("From", "origin", wrap=True),
    )
    show(output, rules, Table(columns, rules), name="name")

"""`evertick explain`: the rules a job runs under, and what it was when a run was launched."""

from __future__ import annotations

from typing import Any, Final

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import Column, Table, note, output_option, show, show_lines
from evertick.cli.target import Target, place_options

_MARKS: Final = {"both": " ", "before": "-", "after": "+"}


@click.command()
@click.argument("job", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@click.option("--attempt", type=click.IntRange(1), help="Of a run: which attempt; the newest, unless it is said.")
@place_options
@output_option
def explain(job: str, attempt: int | None, place: Target, output: str) -> None:
    """Show the rules a job runs under, and where each was written.

    Of a run: what its job was when it was launched. Where that is another than today's, lines that were there then are
    marked with '-', lines that are there now with '+'. Values of the environment are not kept.

    \b
    Examples:
      evertick explain report --folder jobs
      evertick explain report@2026-03-02T09:00:00Z
    """
    if "@" in job:
        with place.operations() as operations:
            found = operations.run_definition(job, attempt)
        show(output, found, lambda: _tell(found), name=lambda one: one["digest"])
        return
    if attempt is not None:
        raise click.UsageError("--attempt is for a run. Write its id: report@2026-03-02T09:00:00Z")
    place.require_folder()
    with place.operations(may_be_new=True) as operations:
        rules = operations.explain(job)
    columns = (
        Column("Rule", "name", "cyan"),
        Column("Value", "value", "bold", wrap=True),
        Column("From", "origin", wrap=True),
    )
    show(output, rules, Table(columns, rules), name="name")


def _tell(found: dict[str, Any]) -> None:
    is_other = found["is_current"] is False
    marked = [f"{_MARKS[one['side']]} {one['text']}" for one in found["changes"]]
    show_lines(marked if is_other else found["text"].splitlines())
    if is_other:
        note(f"'{found['job']}' has changed since: '-' is what attempt {found['attempt']} ran, '+' is what it is now.")
    elif found["is_current"] is None:
        note(f"'{found['job']}' is no longer defined.")

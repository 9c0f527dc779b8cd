"""`evertick explain`: the rules of a job, or its definition when a run started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import Column, Table, note, output_option, show, show_lines
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from evertick.operations.results.runs import RunDefinition

_MARKS: Final = {"both": " ", "before": "-", "after": "+"}


@click.command()
@click.argument("job", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@click.option("--attempt", type=click.IntRange(1), help="For a run: which attempt; default: the last.")
@target_options
@output_option
def explain(job: str, attempt: int | None, target: Target, output: str) -> None:
    """Show the rules of a job and where each is set.

    For a run, show the job's definition when the run started. If the job has changed since, lines of the old definition
    are marked with '-' and lines of the current one with '+'. Values of environment variables are not recorded.

    \b
    Examples:
      evertick explain report --folder jobs
      evertick explain report@2026-03-02T09:00:00Z
    """
    if "@" in job:
        with target.operations() as operations:
            found = operations.run_definition(job, attempt)
        show(output, found, lambda: _show_definition(found), name="digest")
        return
    if attempt is not None:
        raise click.UsageError("--attempt needs a run id, such as report@2026-03-02T09:00:00Z.")
    target.require_folder()
    with target.operations(may_be_new=True) as operations:
        rules = operations.explain(job)
    columns = (
        Column("Rule", "name", "cyan"),
        Column("Value", "value", "bold", wrap=True),
        Column("Set in", "origin", wrap=True),
    )
    show(output, rules, Table(columns, rules), name="name")


def _show_definition(found: RunDefinition) -> None:
    is_other = found.is_current is False
    marked = [f"{_MARKS[one.side]} {one.text}" for one in found.changes]
    show_lines(marked if is_other else found.text.splitlines())
    if is_other:
        note(f"The job '{found.job}' has changed: '-' is what attempt {found.attempt} ran, '+' is the job now.")
    elif found.is_current is None:
        note(f"The job '{found.job}' no longer exists.")

"""`evertick resume`: resume a paused job."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import output_option, show, show_text
from evertick.cli.target import Target, target_options


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option(
    "--catchup",
    "keep",
    type=click.Choice(["all", "latest", "first", "none"]),
    help="Which occurrences of the pause to run; default: the job's catch-up rule.",
)
@target_options
@output_option
def resume(job: str, keep: str | None, target: Target, output: str) -> None:
    """Resume a paused job.

    The job's catch-up rule decides which occurrences of the pause run, as after downtime; --catchup overrides it.
    'evertick catchup --dry-run JOB' previews it.

    \b
    Examples:
      evertick resume report
      evertick resume report --catchup latest
    """
    from evertick.cli.requests import ask
    from evertick.model.policy import Missed

    with target.operations() as operations:
        chosen = Missed(keep) if keep else None
        asked = ask(lambda request, wait: operations.resume(job, chosen, request_id=request, wait_seconds=wait))
    told = asked.request
    if asked.is_answered:
        # The answers of older schedulers lack the field.
        was_paused = (asked.answer or {}).get("resumed", True)
        told = f"Resumed {job}." if was_paused else f"{job} is not paused."
    show(output, asked, lambda: show_text(told))

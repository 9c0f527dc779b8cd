"""`evertick resume`: a paused job is planned again."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import output_option, show, show_text
from evertick.cli.target import Target, place_options


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option(
    "--catchup",
    "keep",
    type=click.Choice(["all", "latest", "first", "none"]),
    help="Which occurrences of the pause to run; default: as the job's policy says.",
)
@place_options
@output_option
def resume(job: str, keep: str | None, place: Target, output: str) -> None:
    """Plan a paused job again.

    What was due during the pause is settled by the job's policy, like downtime, or as --catchup says. 'evertick
    catchup --dry-run JOB' shows it before.

    \b
    Examples:
      evertick resume report
      evertick resume report --catchup latest
    """
    from evertick.cli.requests import ask

    with place.operations() as operations:
        asked = ask(lambda request, wait: operations.resume(job, keep, request_id=request, wait_seconds=wait))
    told = asked["request"]
    if asked["is_answered"]:
        # Answers of older schedulers, and of one that a newer request overtook, do not say.
        was_paused = asked["answer"].get("resumed", True)
        told = f"{job} is planned again" if was_paused else f"{job} is not paused; nothing was changed"
    show(output, asked, lambda: show_text(told))

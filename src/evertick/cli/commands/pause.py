"""`evertick pause`: pause a job."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import note, output_option, show, show_text
from evertick.cli.target import Target, target_options


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option("--note", "reason", default="", metavar="TEXT", help="Reason, shown with the job.")
@target_options
@output_option
def pause(job: str, reason: str, target: Target, output: str) -> None:
    """Pause a job.

    A paused job starts no scheduled runs until it is resumed. Active runs continue, and manual runs still start. On
    resume, the job's catch-up rule decides about the occurrences of the pause.

    \b
    Example:
      evertick pause report --note "the database moves"
    """
    from evertick.cli.requests import ask
    from evertick.model.instant import to_text

    with target.operations() as operations:
        asked = ask(lambda request, wait: operations.pause(job, reason, request_id=request, wait_seconds=wait))
    at = (asked.answer or {}).get("paused_at")
    paused = f"{job} is paused since {to_text(at)}." if isinstance(at, int) else None
    show(output, asked, lambda: show_text(paused or asked.request))
    if paused:
        note(f"Next: evertick resume {job}")

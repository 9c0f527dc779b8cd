"""`evertick cancel`: cancel a run, or all unfinished runs of a job."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import note, output_option, show, show_lines
from evertick.cli.target import Target, target_options


@click.command()
@click.argument("job_or_run", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@target_options
@output_option
def cancel(job_or_run: str, target: Target, output: str) -> None:
    """Cancel a run, or all unfinished runs of a job.

    RUN_ID may be shortened to a unique prefix. A run that has not started is cancelled at once; a running one receives
    SIGTERM, and SIGKILL after 5 seconds (setting local.kill_after). The command prints the ids of the cancelled runs.
    A run that has ended cannot be cancelled (exit code 6).

    \b
    Examples:
      evertick cancel report
      evertick cancel report@2026-03-02T09:00:00Z
    """
    from evertick.cli.requests import ask, runs_of

    with target.operations() as operations:
        asked = ask(lambda request, wait: operations.cancel(job_or_run, request_id=request, wait_seconds=wait))
    ended = runs_of(asked) if asked.is_answered else [asked.request]
    if output == "name":
        show_lines(ended)
    else:
        show(output, asked, lambda: show_lines(ended))
    if not ended:
        note(f"The job '{asked.job}' has no unfinished runs.")

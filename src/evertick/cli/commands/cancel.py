"""`evertick cancel`: end what has not ended."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import note, output_option, show, show_lines
from evertick.cli.target import Target, place_options


@click.command()
@click.argument("target", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@place_options
@output_option
def cancel(target: str, place: Target, output: str) -> None:
    """Cancel a run, or every run of a job that has not ended.

    A beginning of an id stands for the one run that has it. What has not started ends at once; what runs is asked to
    end, and killed when it does not. The ids of the runs are on stdout. A run that has ended cannot be cancelled (exit
    code 6).

    \b
    Examples:
      evertick cancel report
      evertick cancel report@2026-03-02T09:00:00Z
    """
    from evertick.cli.requests import ask

    with place.operations() as operations:
        asked = ask(lambda request, wait: operations.cancel(target, request_id=request, wait_seconds=wait))
    ended = asked["answer"]["runs"] if asked["is_answered"] else [asked["request"]]
    if output == "name":
        show_lines(ended)
    else:
        show(output, asked, lambda: show_lines(ended))
    if not ended:
        note(f"Nothing of '{asked['job']}' is open.")

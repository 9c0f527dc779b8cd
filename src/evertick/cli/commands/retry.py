"""`evertick retry`: run again what a run was for."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import output_option
from evertick.cli.target import Target, place_options


@click.command()
@click.argument("run_id", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@click.option("--wait", is_flag=True, help="Wait until it has ended; its result is the exit code: 0 or 1.")
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="With --wait: how long (exit code 124).")
@click.option("--from-failed", is_flag=True, help="Keep the steps that succeeded, and their outputs; run the others.")
@place_options
@output_option
@click.pass_context
def retry(
    ctx: click.Context, run_id: str, wait: bool, timeout: float | None, from_failed: bool, place: Target, output: str
) -> None:
    """Run again what a run was for.

    It is a new run with the trigger 'retry', the same scheduled time and the same parameters; the old one stays as it
    is. A job stands for its newest run that has started, and a beginning of an id for the one run that has it. A run
    that has not ended cannot be retried (exit code 6). Nor can one be taken up with --from-failed in which nothing
    failed, or of which a step that succeeded was changed since.

    \b
    Examples:
      evertick retry report --wait
      evertick retry report@2026-03-02T09:00:00Z --from-failed
    """
    from evertick.cli.requests import ask_for_run

    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait.")
    with place.operations() as operations:
        code = ask_for_run(
            operations,
            lambda request, patience: operations.retry(run_id, from_failed, request_id=request, wait_seconds=patience),
            wait=wait,
            patience=timeout,
            output=output,
        )
    ctx.exit(code)

"""`evertick retry`: re-run a past run."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import output_option
from evertick.cli.target import Target, target_options


@click.command()
@click.argument("run_id", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@click.option("--wait", is_flag=True, help="Wait for the run to end; exit with 0 if it succeeds, else 1.")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="With --wait: stop waiting after this time (exit code 124); the run continues.",
)
@click.option("--from-failed", is_flag=True, help="Keep the steps that succeeded, with their outputs; run the others.")
@target_options
@output_option
@click.pass_context
def retry(
    ctx: click.Context, run_id: str, wait: bool, timeout: float | None, from_failed: bool, target: Target, output: str
) -> None:
    """Re-run a past run.

    The new run has the trigger 'retry', the same scheduled time and the same parameters. JOB means its newest started
    run; RUN_ID may be shortened to a unique prefix. An unfinished run cannot be retried (exit code 6). --from-failed is
    refused if no step failed, or if a step that succeeded has been edited since.

    \b
    Examples:
      evertick retry report --wait
      evertick retry report@2026-03-02T09:00:00Z --from-failed
    """
    from evertick.cli.requests import ask_for_run

    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait.")
    with target.operations() as operations:
        code = ask_for_run(
            operations,
            lambda request, patience: operations.retry(run_id, from_failed, request_id=request, wait_seconds=patience),
            wait=wait,
            patience=timeout,
            output=output,
        )
    ctx.exit(code)

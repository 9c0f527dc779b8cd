"""`evertick trigger`: run a job now."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import output_option
from evertick.cli.target import Target, target_options


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option("--param", "-p", "params", multiple=True, metavar="NAME=VALUE", help="A parameter; repeatable.")
@click.option("--wait", is_flag=True, help="Wait for the run to end; exit with 0 if it succeeds, else 1.")
@click.option(
    "--timeout",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="With --wait: stop waiting after this time (exit code 124); the run continues.",
)
@target_options
@output_option
@click.pass_context
def trigger(
    ctx: click.Context,
    job: str,
    params: tuple[str, ...],
    wait: bool,
    timeout: float | None,
    target: Target,
    output: str,
) -> None:
    """Run a job now.

    The job's overlap rule applies: while the job is active, the new run may wait or be skipped. Parameters are checked
    against the job's definition.

    \b
    Examples:
      evertick trigger report
      evertick trigger export --param FORMAT=json --wait --timeout 600
    """
    from evertick.cli.requests import ask_for_run, params_of

    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait.")
    given = params_of(params)
    with target.operations() as operations:
        code = ask_for_run(
            operations,
            lambda request, patience: operations.trigger(job, given, request_id=request, wait_seconds=patience),
            wait=wait,
            patience=timeout,
            output=output,
        )
    ctx.exit(code)

"""`evertick trigger`: run a job now."""

from __future__ import annotations

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import output_option
from evertick.cli.target import Target, place_options


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option("--param", "-p", "params", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated.")
@click.option("--wait", is_flag=True, help="Wait until it has ended; its result is the exit code: 0 or 1.")
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="With --wait: how long (exit code 124).")
@place_options
@output_option
@click.pass_context
def trigger(
    ctx: click.Context,
    job: str,
    params: tuple[str, ...],
    wait: bool,
    timeout: float | None,
    place: Target,
    output: str,
) -> None:
    """Run a job now.

    The run meets the job's overlap rule like any other: it may wait or be skipped when the job is active. Parameters
    are checked against the job's own where its folder is known.

    \b
    Examples:
      evertick trigger report
      evertick trigger export --param FORMAT=json --wait --timeout 600
    """
    from evertick.cli.requests import ask_for_run, params_of

    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait.")
    given = params_of(params)
    with place.operations() as operations:
        code = ask_for_run(
            operations,
            lambda request, patience: operations.trigger(job, given, request_id=request, wait_seconds=patience),
            wait=wait,
            patience=timeout,
            output=output,
        )
    ctx.exit(code)

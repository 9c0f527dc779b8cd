"""evertick trigger, retry, cancel, pause, resume: requests to the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.output import note, output_option, show, show_lines, show_text
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

Command = TypeVar("Command", bound=Callable[..., object])


def wait_options(command: Command) -> Command:
    """Give a command --wait and --timeout."""
    timeout = click.option(
        "--timeout",
        type=click.FloatRange(0),
        metavar="SECONDS",
        help="With --wait: stop waiting after this time (exit code 124); the run continues.",
    )
    wait = click.option("--wait", is_flag=True, help="Wait for the run to end; exit with 0 if it succeeds, else 1.")
    return wait(timeout(command))


def check_wait(wait: bool, timeout: float | None) -> None:
    if timeout is not None and not wait:
        raise click.UsageError("--timeout needs --wait.")


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option("--param", "-p", "params", multiple=True, metavar="NAME=VALUE", help="A parameter; repeatable.")
@wait_options
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

    check_wait(wait, timeout)
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


@click.command()
@click.argument("run_id", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@wait_options
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

    check_wait(wait, timeout)
    with target.operations() as operations:
        code = ask_for_run(
            operations,
            lambda request, patience: operations.retry(run_id, from_failed, request_id=request, wait_seconds=patience),
            wait=wait,
            patience=timeout,
            output=output,
        )
    ctx.exit(code)


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
    from evertick.model.instant import from_datetime, to_text

    with target.operations() as operations:
        asked = ask(lambda request, wait: operations.pause(job, reason, request_id=request, wait_seconds=wait))
    at = asked.answer.paused_at if asked.answer else None
    paused = f"{job} has been paused since {to_text(from_datetime(at))}." if at else None
    show(output, asked, lambda: show_text(paused or asked.request))
    if paused:
        note(f"Next: evertick resume {job}")


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
    if asked.answer:
        told = f"{job} is not paused." if asked.answer.is_resumed is False else f"Resumed {job}."
    show(output, asked, lambda: show_text(told))

"""`evertick backfill`: run past occurrences of a job."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.exits import FAILED, OK, TIMEOUT
from evertick.cli.output import Column, Table, counted, note, output_option, show, show_text
from evertick.cli.tables import is_terminal
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.requests import Backfill, ExcludedRange

POLL_SECONDS = 0.5


@click.command()
@click.argument("job", shell_complete=complete_jobs)
@click.option("--from", "start", metavar="TIME", help="Start of the range, inclusive.")
@click.option("--to", "end", metavar="TIME", help="End of the range, exclusive.")
@click.option("--dry-run", is_flag=True, help="Show what would run; change nothing.")
@click.option(
    "--only-missing/--all",
    "only_missing",
    default=True,
    show_default=True,
    help="Leave out occurrences that have succeeded or are still running.",
)
@click.option("--overlap", default="wait", show_default=True, metavar="RULE", help="Overlap rule: wait or parallel(n).")
@click.option("--rate", type=click.FloatRange(0, 86_400), default=0.0, metavar="SECONDS", help="Delay between starts.")
@click.option("--wait/--no-wait", "wait", default=None, help="Wait for all runs; default: wait on a terminal.")
@click.option("--cancel", "cancelled", metavar="REQUEST", help="Cancel the remaining runs of this backfill.")
@target_options
@output_option
@click.pass_context
def backfill(
    ctx: click.Context,
    job: str,
    start: str | None,
    end: str | None,
    dry_run: bool,
    only_missing: bool,
    overlap: str,
    rate: float,
    wait: bool | None,
    cancelled: str | None,
    target: Target,
    output: str,
) -> None:
    """Run past occurrences of a job in a time range.

    The occurrences come from the job's current schedule. Times without an offset are in the job's time zone. The runs
    neither skip nor delay the job's scheduled runs; they start one after another unless --overlap says otherwise.
    Ctrl-C ends the wait, not the backfill.

    \b
    Examples:
      evertick backfill report --from 2026-03-01 --to 2026-03-02 --dry-run
      evertick backfill report --from 2026-03-01 --to 2026-04-01 --overlap "parallel(2)" --rate 5
      evertick backfill report --cancel cli-0f3a9c21d4e5
    """
    from evertick.cli.requests import ask

    if cancelled is not None:
        _cancel(target, job, cancelled, output)
        return
    if start is None or end is None:
        raise click.UsageError("A backfill needs --from and --to.")
    first, last = start, end
    with target.operations() as operations:
        asked = ask(
            lambda request, patience: operations.backfill(
                job, first, last, only_missing, overlap, rate, dry_run, request_id=request, wait_seconds=patience
            )
        )
        if asked.request is None:
            _show(asked, output, is_dry=dry_run)
            return
        request = asked.request
        show(output, asked, lambda: show_text(request), rows=[asked], name="request")
        chosen, total = counted(asked.chosen, "run"), counted(asked.total or 0, "occurrence")
        note(f"{chosen} for {total}. Cancel: evertick backfill {job} --cancel {request}")
        if asked.is_answered and (is_terminal(sys.stderr) if wait is None else wait):
            ctx.exit(watch(operations, job, request))
        if wait:
            ctx.exit(TIMEOUT)


def _show(asked: Backfill, output: str, *, is_dry: bool) -> None:
    rows = asked.candidates or ()
    columns = (
        Column("Local time", "local", "bold"),
        Column("Action", lambda candidate: "run" if candidate.is_chosen else "skip"),
        Column("In the ledger", "why", wrap=True),
        Column("UTC", "scheduled_for", "dim", optional=True),
    )
    show(output, asked, Table(columns, rows), rows=rows, name="scheduled_for")
    if asked.excluded is not None:
        note(_excluded_text(asked.job, asked.excluded, asked.timezone or "UTC"))
    elif not rows:
        note("The job has no occurrences in that range.")
    elif is_dry:
        note(f"{asked.chosen:,} of {counted(asked.total or 0, 'occurrence')} would run.")
    else:
        note("All occurrences in that range have succeeded or are still running. Use --all to run them again.")


def _excluded_text(job: str, excluded: ExcludedRange, zone: str) -> str:
    from evertick.model.instant import from_datetime
    from evertick.operations.time_text import moment_text

    is_one = len(excluded.calendars) == 1
    names = f"{'calendar' if is_one else 'calendars'} {', '.join(excluded.calendars)}"
    count = excluded.occurrences
    occurrences = "the only occurrence" if count == 1 else f"all {count:,} occurrences"
    if excluded.moved_to is not None:
        verb, due = "moves" if is_one else "move", moment_text(from_datetime(excluded.moved_to), zone)
        first = "" if count == 1 else ", the first"
        return f"The {names} {verb} {occurrences} in that range{first} to {due}. Choose a range with that time."
    verb = "excludes" if is_one else "exclude"
    next_step = f"Correct the {names}, or run the job now: evertick trigger {job}"
    return f"The {names} {verb} {occurrences} in that range. {next_step}"


def _cancel(target: Target, job: str, request: str, output: str) -> None:
    from evertick.cli.requests import ask

    with target.operations() as operations:
        asked = ask(
            lambda own, patience: operations.cancel_backfill(job, request, request_id=own, wait_seconds=patience)
        )
    runs = asked.cancelled
    result = f"Cancelled {counted(runs, 'run')} of {request}." if runs else f"All runs of {request} have already ended."
    show(output, asked, lambda: show_text(result), name=lambda _: request)


def watch(operations: Operations, job: str, request: str) -> int:
    """Show the progress until the backfill ends; the exit code is 0 when all runs succeeded."""
    from evertick.cli.requests import interruptible
    from evertick.model.lifecycle import SUCCEEDED

    with interruptible(f"The backfill continues. Cancel: evertick backfill {job} --cancel {request}"):
        progress = operations.backfill_progress(job, request)
        is_hidden = not is_terminal(sys.stderr)
        with click.progressbar(length=progress.total, label="backfill", file=sys.stderr, hidden=is_hidden) as bar:
            told = 0
            while True:
                bar.update(progress.ended - told)
                told = progress.ended
                if progress.is_over:
                    break
                time.sleep(POLL_SECONDS)
                progress = operations.backfill_progress(job, request)
    states = progress.states
    note(", ".join(f"{count:,} {state}" for state, count in sorted(states.items())) + ".")
    return OK if states.get(SUCCEEDED, 0) == progress.total else FAILED

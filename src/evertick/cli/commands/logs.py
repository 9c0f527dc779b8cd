"""`evertick logs`: the output of a run."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from evertick.cli.complete import complete_jobs
from evertick.cli.live_view import Display, LiveDisplay, PlainDisplay
from evertick.cli.log_lines import MergedRun, StampedRun, all_merged
from evertick.cli.output import counted, is_terminal, note, output_option, show
from evertick.cli.run_follower import Follower, RecordedRun
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.runs import LogFile, RunDetail

POLL_SECONDS = 0.2


@click.command()
@click.argument("run_id", metavar="JOB|RUN_ID", shell_complete=complete_jobs)
@click.option("--step", metavar="NAME", help="Only this step.")
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="Only this attempt; default: the last.")
@click.option(
    "--follow", "-f", is_flag=True, help="Print new output until the run ends; on a terminal, with the steps below it."
)
@click.option("--timestamps", "-t", is_flag=True, help="Print the time (UTC) before each line.")
@click.option("--all-steps", is_flag=True, help="Print the lines of all steps in order of time, each after its step.")
@target_options
@output_option
def logs(
    run_id: str,
    step: str | None,
    attempt: int | None,
    follow: bool,
    timestamps: bool,
    all_steps: bool,
    target: Target,
    output: str,
) -> None:
    """Show the output of a run.

    The output of the steps goes to stdout, a heading for each step to stderr. JOB means its newest started run; RUN_ID
    may be shortened to a unique prefix. A log that is not on this machine is fetched from the node or the fleet member
    that has it. Times are those at which Evertick received a line, exact to 0.1 s; after long output, to 1 s.

    \b
    Examples:
      evertick logs report
      evertick logs report@2026-03-02T09 --step build --follow
      evertick logs report --all-steps --timestamps
    """
    from evertick.cli.requests import interruptible
    from evertick.errors import ExecutorUnavailable, NotFound
    from evertick.model.lifecycle import TERMINAL

    if all_steps and step is not None:
        raise click.UsageError("--all-steps and --step cannot be combined.")
    if follow and output != "table":
        raise click.UsageError(f"--follow cannot be combined with -o {output}.")
    with target.operations() as operations:
        run = operations.run(run_id)
        known = operations.list_logs(run.run)
        is_here = target.server is not None or target.ledger_file() is None or target.logs_if_there() is not None
        if not is_here and not known and not run.absent_logs:
            raise NotFound(
                "the logs are with the scheduler that ran the job. Name its folder with --folder, or use --server."
            )
        chosen = [one for one in known if step in (None, one.step)]
        if step is not None and not chosen and not follow:
            names = tuple(dict.fromkeys(one.step for one in known))
            raise NotFound(f"the run {run.run} has no log of a step '{step}'.", names[:3])
        attempts = max((run.attempt, *(one.attempt for one in known)))
        if attempt is not None and attempt > attempts and not follow:
            had = counted(attempts, "attempt") if attempts else "no attempts yet"
            raise NotFound(f"the run {run.run} has no attempt {attempt}; it has {had}.")
        if output != "table":
            wanted = [one for one in chosen if attempt in (None, one.attempt)]
            absent = _absent(run, attempt)
            if absent and not wanted:
                raise ExecutorUnavailable(" ".join(absent))
            if all_steps:
                last = attempt or max((one.attempt for one in wanted), default=run.attempt)
                lines = [line._asdict() for line in all_merged(operations, run.run, last)]
                show(output, lines, (), name="step")
                return
            documents = [_with_text(operations, run.run, one, has_times=timestamps) for one in wanted]
            show(output, documents, (), name="step")
            return
        last = max((one.attempt for one in chosen), default=run.attempt)
        display: Display = PlainDisplay(output_on_stderr=False, has_headings=not all_steps, tells_ends=False)
        if follow and not all_steps and is_terminal() and is_terminal(sys.stderr):
            display = LiveDisplay(run.job, len(run.depends), is_output_beside=True)
        recorded = RecordedRun(operations, run.run)
        if all_steps:
            recorded = MergedRun(operations, run.run, has_times=timestamps)
        elif timestamps:
            recorded = StampedRun(operations, run.run)
        follower = Follower(recorded, display, step=step, attempt=attempt if follow else attempt or last)
        with interruptible("The run continues."):
            while follower.look().state not in TERMINAL and follow:
                time.sleep(POLL_SECONDS)
        follower.close()
    absent = _absent(recorded.detail or run, attempt)
    if absent and not follower.has_told:
        raise ExecutorUnavailable(" ".join(absent))
    for text in absent:
        note(text)
    if not follower.has_told and not run.occurrences > 1:
        note(f"The run has printed nothing. Next: evertick why {run.run}")


def _absent(run: RunDetail, attempt: int | None) -> list[str]:
    """Which logs cannot be read now, and why."""
    return [one.text for one in run.absent_logs if attempt in (None, one.attempt)]


def _with_text(operations: Operations, run_id: str, log: LogFile, *, has_times: bool) -> dict[str, object]:
    from evertick.cli.requests import data_with

    data, offset = b"", 0
    while (chunk := operations.log_bytes(run_id, log.attempt, log.step, offset)).data:
        data, offset = data + chunk.data, chunk.next_offset
    text = data.decode("utf-8", "replace")
    if not has_times:
        return data_with(log, text=text)
    return data_with(log, text=text, times=operations.log_times(run_id, log.attempt, log.step))

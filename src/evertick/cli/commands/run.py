"""`evertick run`: run a job once, in the foreground."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.complete import complete_jobs_and_files
from evertick.cli.exits import INTERRUPTED, TIMEOUT
from evertick.cli.live_view import open_display
from evertick.cli.output import note, output_option, show
from evertick.cli.requests import ask, data_with, new_id, params_of, show_result, whoami
from evertick.cli.run_follower import Follower, Log, Progress, RecordedRun
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evertick.cli.live_view import Display
    from evertick.model.job import Job
    from evertick.once import Once
    from evertick.operations.protocol import Operations

LOOK_SECONDS = 0.2


@click.command()
@click.argument("job_or_file", metavar="FILE|JOB", shell_complete=complete_jobs_and_files)
@click.option("--param", "-p", "params", multiple=True, metavar="NAME=VALUE", help="A parameter; repeatable.")
@click.option(
    "--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Cancel the run after this time (exit code 124)."
)
@click.option("--alone", is_flag=True, help="Run it in this process even if a scheduler is running.")
@target_options
@output_option
@click.pass_context
def run(
    ctx: click.Context,
    job_or_file: str,
    params: tuple[str, ...],
    timeout: float | None,
    alone: bool,
    target: Target,
    output: str,
) -> None:
    """Run a job once, in the foreground.

    The job's output goes to stdout, the progress of its steps to stderr. The exit code is 0 if the run succeeds, else
    1. Ctrl-C cancels the run.

    If a scheduler is running on the folder, it runs the job: the run is in the history, and the job's overlap rule
    applies. Otherwise, and for a FILE, the job runs in this process and leaves no history.

    With -o json, yaml, csv or name, the finished run is printed to stdout and the job's output to stderr.

    \b
    Examples:
      evertick run report.yaml
      evertick run export --folder jobs -p FORMAT=json
    """
    given = params_of(params)
    if alone and target.server is not None:
        raise click.UsageError("--alone and --server cannot be combined.")
    if not alone and not _is_file(job_or_file):
        with target.operations(may_be_new=True) as operations:
            if target.server is not None or operations.status().is_scheduler_running:
                ctx.exit(_through(operations, job_or_file, given, timeout, output))
    ctx.exit(_alone(job_or_file, given, timeout, target, output))


def _is_file(job_or_file: str) -> bool:
    from evertick.errors import NotFound

    path = Path(job_or_file)
    if not path.is_file() and path.suffix in (".yaml", ".yml"):
        raise NotFound(f"the file '{job_or_file}' does not exist. Name a job file or a job.")
    if path.is_dir() and "/" in job_or_file:
        raise NotFound(f"'{job_or_file}' is a folder. Name a job file, or a job and its --folder.")
    return path.is_file()


# --- by its scheduler


def _through(operations: Operations, job: str, params: dict[str, str], timeout: float | None, output: str) -> int:
    from evertick.model.lifecycle import TERMINAL

    definition = operations.job(job).definition
    steps = len(definition.steps) if definition is not None else 0
    asked = ask(lambda request, wait: operations.trigger(job, params, request_id=request, wait_seconds=wait))
    if asked.run is None or not asked.is_answered:
        show(output, asked, lambda: None, name="request")
        return TIMEOUT
    run_id = asked.run
    display = open_display(job, steps, output_on_stderr=output != "table")
    follower = Follower(RecordedRun(operations, run_id), display)
    deadline = None if timeout is None else time.monotonic() + timeout
    code: int | None = None
    try:
        while True:
            try:
                run = follower.look()
                if run.state in TERMINAL:
                    break
                time.sleep(LOOK_SECONDS)
                is_late = deadline is not None and time.monotonic() >= deadline
            except KeyboardInterrupt:
                if code is not None:
                    raise
                code = _end(operations, run_id, INTERRUPTED, "Interrupted")
                continue
            if is_late and code is None:
                code = _end(operations, run_id, TIMEOUT, f"Timed out after {timeout:g}s")
    finally:
        follower.close()
    show(output, run, lambda: None, name="run")
    return show_result(run) if code is None else code


def _end(operations: Operations, run_id: str, code: int, words: str) -> int:
    from evertick.errors import Conflict

    note(f"{words}. Cancelling the run ...")
    with suppress(Conflict):  # the run has just ended
        operations.cancel(run_id, request_id=new_id())
    return code


# --- in this process


def _alone(job_or_file: str, params: dict[str, str], timeout: float | None, target: Target, output: str) -> int:
    from evertick.once import Once, own_state_folder
    from evertick.operations.submission import params_text
    from evertick.settings import Settings
    from evertick.wiring import environ_of

    job, others = _find(job_or_file, target)
    path = Path(job_or_file)
    settings = Settings.load(path.parent) if path.is_file() else target.settings()
    text = params_text(job, params)
    with own_state_folder() as state:
        one = Once(job, others, state, text, whoami(), environ_of(settings))
        display = open_display(job.id, len(job.steps), output_on_stderr=output != "table")
        code = asyncio.run(_carry_out(one, display, timeout))
    run, steps = _progress_of(one)
    show(output, data_with(run, steps=steps), lambda: None, name="run")
    return show_result(run, is_kept=False) if code is None else code


def _progress_of(one: Once) -> Progress:
    from evertick.model.steps import read_steps
    from evertick.operations.ledger_rows import run_summary, step_of

    return Progress(run_summary(one.row), [step_of(step) for step in read_steps(one.row.steps)])


def _find(job_or_file: str, target: Target) -> tuple[Job, Mapping[str, Job]]:
    from evertick.definitions.source import load_files, load_folder
    from evertick.model.work import SubJob
    from evertick.settings import Settings

    path = Path(job_or_file)
    if not path.is_file():
        return target.job(job_or_file), target.jobs()
    found = load_files({path: None}, Settings.from_environment(), is_whole=False)
    for errors in found.errors.values():
        for error in errors[1:]:
            note(str(error))
        raise errors[0]
    (job,) = found.jobs.values()
    # Steps that are jobs are looked up where a scheduler would find them: in the same folder.
    if any(isinstance(step.kind, SubJob) for step in job.steps):
        return job, load_folder(path.parent, Settings.load(path.parent)).jobs
    return job, found.jobs


async def _carry_out(one: Once, display: Display, timeout: float | None) -> int | None:
    """The exit code of a timeout or an interrupt; None when the run ended by itself."""
    code: int | None = None

    def end(reason: int, words: str) -> None:
        nonlocal code
        if code is None:
            code = reason
            note(f"{words}. Cancelling the run ...")
            one.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, INTERRUPTED, "Interrupted")
    if timeout is not None:
        loop.call_later(timeout, end, TIMEOUT, f"Timed out after {timeout:g}s")
    follower = Follower(_OwnRun(one), display)
    try:
        await one.run(follower.look)
    finally:
        follower.close()
    return code


class _OwnRun:
    """A run of this process."""

    def __init__(self, one: Once) -> None:
        self._one = one

    def look(self) -> Progress:
        return _progress_of(self._one)

    def logs(self) -> list[Log]:
        from evertick.operations.ledger_rows import as_begun

        row = self._one.row
        return [Log(log.attempt, log.step) for log in as_begun(row, self._one.logs.list_logs(row.key))]

    def depends(self) -> dict[str, tuple[str, ...]]:
        return {step.name: tuple(step.depends) for step in self._one.job.steps}

    def again_at(self) -> int | None:
        return self._one.row.retry_at

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        chunk = self._one.logs.read_log(self._one.row.key, log.attempt, log.step, offset)
        return chunk.data, chunk.next_offset

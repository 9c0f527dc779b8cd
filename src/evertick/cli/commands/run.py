"""`evertick run`: a job once, in the foreground."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evertick.cli.asking import params_of, tell_result, whoami
from evertick.cli.exits import INTERRUPTED, TIMEOUT
from evertick.cli.following import Follower, Log
from evertick.cli.live import open_display
from evertick.cli.output import note, output_option, show
from evertick.cli.place import Place, place_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from evertick.cli.live import Display
    from evertick.model.job import Job
    from evertick.once import Once


@click.command()
@click.argument("target", metavar="FILE|JOB")
@click.option("--param", "-p", "params", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated.")
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="End it after so long (exit code 124).")
@place_options
@output_option
@click.pass_context
def run(
    ctx: click.Context, target: str, params: tuple[str, ...], timeout: float | None, place: Place, output: str
) -> None:
    """Run a job once, in the foreground.

    Its output is on stdout as it comes, how far its steps are on stderr, and its result is the exit code: 0 or 1.
    Ctrl-C ends the run in order. Nothing needs to be running, and no schedule takes part: the run has a ledger of
    its own that goes with it, so it is in no history. 'evertick trigger' asks a scheduler instead.

    With -o json and the like, the run is on stdout when it has ended, and its output on stderr.

    \b
    Examples:
      evertick run report.yaml
      evertick run export --folder jobs -p FORMAT=json
    """
    from evertick.once import Once, own_state_folder
    from evertick.operations import params_text, run_data

    job, others = _find(target, place)
    text = params_text(job, params_of(params))
    with own_state_folder() as state:
        one = Once(job, others, state, text, whoami())
        display = open_display(job.id, len(job.steps), output_on_stderr=output != "table")
        code = asyncio.run(_carry_out(one, display, timeout))
    row = one.row
    show(output, run_data(row), lambda: None, name="run")
    ctx.exit(tell_result(run_data(row), is_kept=False) if code is None else code)


def _find(target: str, place: Place) -> tuple[Job, Mapping[str, Job]]:
    from evertick.definitions.source import load_files
    from evertick.errors import NotFound
    from evertick.settings import Settings

    path = Path(target)
    if not path.is_file():
        if path.suffix in (".yaml", ".yml"):
            raise NotFound(f"there is no file '{target}'. Write the path of a job file, or the id of a job.")
        return place.job(target), place.jobs()
    found = load_files({path: None}, Settings.from_environment(), is_whole=False)
    for errors in found.errors.values():
        for error in errors[1:]:
            note(str(error))
        raise errors[0]
    (job,) = found.jobs.values()
    return job, found.jobs


async def _carry_out(one: Once, display: Display, timeout: float | None) -> int | None:
    """Its exit code where something else than its own end decides it."""
    code: int | None = None

    def end(reason: int, words: str) -> None:
        nonlocal code
        if code is None:
            code = reason
            note(f"{words}: the run is asked to end, and killed when it does not.")
            one.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, INTERRUPTED, "interrupted")
    if timeout is not None:
        loop.call_later(timeout, end, TIMEOUT, f"not done after {timeout:g} s")
    follower = Follower(_Here(one), display, [step.name for step in one.job.steps])
    try:
        await one.run(lambda: follower.look())
    finally:
        follower.close()
    return code


class _Here:
    """A run of this process."""

    def __init__(self, one: Once) -> None:
        self._one = one

    def data(self) -> dict[str, Any]:
        from evertick.operations import run_data

        return run_data(self._one.row)

    def logs(self) -> list[Log]:
        return [Log(log.attempt, log.step) for log in self._one.logs.list_logs(self._one.row.key)]

    def read(self, log: Log, offset: int) -> tuple[bytes, int]:
        chunk = self._one.logs.read_log(self._one.row.key, log.attempt, log.step, offset)
        return chunk.data, chunk.next_offset

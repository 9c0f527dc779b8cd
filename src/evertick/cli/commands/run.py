"""`evertick run`: a job once, in the foreground."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.asking import params_of, tell_result, whoami
from evertick.cli.exits import INTERRUPTED, TIMEOUT
from evertick.cli.live import Step, open_display
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
    follower = _Follower(one, display)
    try:
        await one.run(follower.look)
    finally:
        display.close(follower.steps())
    return code


class _Follower:
    """Brings what is new to the display."""

    def __init__(self, one: Once, display: Display) -> None:
        self._one, self._display = one, display
        self._offsets: dict[tuple[int, str], int] = {}
        self._running: set[str] = set()

    def look(self) -> None:
        logs, key = self._one.logs, self._one.row.key
        self._running = set()
        for log in logs.list_logs(key):
            place = (log.attempt, log.step)
            if not log.is_complete:
                self._running.add(log.step)
            while (chunk := logs.read_log(key, log.attempt, log.step, self._offsets.get(place, 0))).data:
                self._offsets[place] = chunk.next_offset
                self._display.write(log.step, log.attempt, chunk.data)
        self._display.show(self.steps())

    def steps(self) -> list[Step]:
        return [
            Step(
                seen.name,
                "running" if seen.state == "planned" and seen.name in self._running else seen.state,
                seen.seconds,
                seen.exit_code,
                seen.detail,
            )
            for seen in self._one.steps.values()
        ]

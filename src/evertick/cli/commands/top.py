"""`evertick top`: the jobs on a terminal, worst first, with keys to act on them."""

from __future__ import annotations

import shutil
import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from evertick.cli.output import output_option
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from evertick.cli.top.snapshot import Snapshot
    from evertick.operations.protocol import Operations

ONCE_LANES = 200
ONCE_WIDTH = 120
COLLECTED_AFTER = (50_000, 20, 50)
"""Columns of one frame where the output is no terminal."""


@click.command()
@click.option("--once", is_flag=True, help="Print one frame as text and exit.")
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3_600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Refresh interval.",
)
@target_options
@output_option
def top(once: bool, every: float, target: Target, output: str) -> None:
    """Watch all jobs on a terminal, and act on them.

    Jobs that need attention come first, each with a strip of its last and next hours; below them are running steps,
    waiting runs, queues and lanes. Keys run, pause, resume, cancel and retry the chosen job, explain it, and read its
    log; ? lists them. An action asks before it is sent. If the server does not answer, the page says since when it is
    stale, and recovers by itself. -o json prints one frame as JSON.

    \b
    Examples:
      evertick top
      evertick top --once
      evertick top --server https://evertick.example -o json
    """
    from evertick.cli.tables import is_terminal

    if once or output != "table":
        _show_once(target, output)
        return
    if not is_terminal() or not sys.stdin.isatty():
        raise click.UsageError("The page needs a terminal. Use --once for one frame as text, or -o json for a program.")
    from evertick.cli.top.app import run_page
    from evertick.long_lived import tune_collector
    from evertick.operations.deferred import import_all_of

    import_all_of("evertick.operations")
    tune_collector(COLLECTED_AFTER)

    def opener() -> AbstractContextManager[Operations]:
        # Job files may have changed since the last time.
        return replace(target, _definitions=[]).operations()

    run_page(opener, every)


def _show_once(target: Target, output: str) -> None:
    from evertick.cli.output import show
    from evertick.cli.requests import data_with
    from evertick.cli.tables import is_terminal
    from evertick.cli.times import now
    from evertick.cli.top.app import first_question
    from evertick.cli.top.snapshot import read_snapshot

    width = shutil.get_terminal_size().columns if is_terminal() else ONCE_WIDTH
    with target.operations() as operations:
        found = read_snapshot(operations, first_question(width, now(), lanes=ONCE_LANES))
    document = data_with(
        found.overview,
        attention=found.attention,
        timeline=found.timeline,
        queues=found.queues,
        executors=found.executors,
        steps={run: one.steps for run, one in found.steps.items()},
    )
    show(output, document, lambda: _print(found, width), rows=found.timeline.lanes, name="job")


def _print(found: Snapshot, width: int) -> None:
    from evertick.cli.tables import has_colour
    from evertick.cli.top.frame import once
    from evertick.cli.top.styled import ansi, fitted, plain

    for line in once(found, width):
        shown = fitted(line, width)
        click.echo(ansi(shown, has_colour=True) if has_colour() else plain(shown))

"""`evertick top`: watch running, waiting, upcoming and failed runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from evertick.cli.output import output_option
from evertick.cli.overview import ROWS_MAX, lines_of, show_overview, tables_of
from evertick.cli.tables import is_terminal, rich_table
from evertick.cli.target import Target, target_options

if TYPE_CHECKING:
    from rich.console import Group

    from evertick.operations.protocol import Operations
    from evertick.operations.results.schedule import Overview


@click.command()
@click.option("--once", is_flag=True, help="Print once and exit; the default without a terminal.")
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
    """Watch running, waiting, upcoming and failed runs.

    The screen refreshes until Ctrl-C. Totals are for the last 24 hours.

    \b
    Examples:
      evertick top
      evertick top --once -o json
    """
    with target.operations() as operations:
        if once or output != "table" or not is_terminal():
            show_overview(operations, output)
            return
        _watch(operations, every)


def _watch(operations: Operations, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from evertick.errors import EvertickError

    console = Console(highlight=False)
    trouble = ""
    found = operations.overview()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(_drawn(found, console.width, console.height, trouble), refresh=True)
                time.sleep(every)
                try:
                    found, trouble = operations.overview(), ""
                except EvertickError as error:
                    # Keep the last screen, with the error above it.
                    trouble = str(error)
        except KeyboardInterrupt:
            return


def _drawn(found: Overview, width: int, height: int, trouble: str) -> Group:
    from rich.console import Group
    from rich.text import Text

    head, *lines = lines_of(found)
    parts: list[Any] = [Text(head, style="bold"), *(Text(line, style="dim") for line in lines)]
    if trouble:
        parts.append(Text(trouble, style="bold red"))
    tables = tables_of(found, ROWS_MAX)
    room = max((height - len(parts) - 1) // max(len(tables), 1) - 4, 1)
    for table in tables_of(found, room):
        parts += [Text(""), Text(table.title, style="bold"), rich_table(table, width)]
    return Group(*parts)

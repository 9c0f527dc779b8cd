"""`evertick top`: how everything stands, live."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from evertick.cli.output import Column, Row, Table, note, output_option, show
from evertick.cli.place import Place, place_options
from evertick.cli.runs import state_text, took_text
from evertick.cli.tables import is_terminal, plain_table, rich_table
from evertick.cli.times import local_text, wait_text
from evertick.model.instant import from_text

if TYPE_CHECKING:
    from evertick.operations.desk import Desk

ROWS_MAX = 8
"""Of each table; a screen has room for a few."""


@click.command()
@click.option("--once", is_flag=True, help="Show it once, for scripts; also where there is no terminal.")
@click.option(
    "--every", type=click.FloatRange(0.2, 3_600), default=2.0, show_default=True, metavar="SECONDS", help="How often."
)
@place_options
@output_option
def top(once: bool, every: float, place: Place, output: str) -> None:
    """Show live what runs, waits, is next and went wrong.

    The last day is counted; Ctrl-C ends it. With --once, and where there is no terminal, it is shown once.

    \b
    Examples:
      evertick top
      evertick top --once -o json
    """
    with place.desk() as desk:
        if once or output != "table" or not is_terminal():
            found = desk.overview()
            show(output, found, lambda: _print(found), rows=found["running"], name="run")
            if not found["scheduler"]["alive"]:
                note("Nobody is running on this ledger. Next: evertick serve")
            return
        _watch(desk, every)


def _print(found: dict[str, Any]) -> None:
    click.echo("\n\n".join(["\n".join(_lines(found)), *(plain_table(table) for table in _tables(found, ROWS_MAX))]))


def _watch(desk: Desk, every: float) -> None:
    from rich.console import Console
    from rich.live import Live

    from evertick.errors import EvertickError

    console = Console(highlight=False)
    trouble = ""
    found = desk.overview()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(_drawn(found, console.width, console.height, trouble), refresh=True)
                time.sleep(every)
                try:
                    found, trouble = desk.overview(), ""
                except EvertickError as error:
                    # What was is still worth seeing; whoever watches is told that it is old.
                    trouble = str(error)
        except KeyboardInterrupt:
            return


def _drawn(found: dict[str, Any], width: int, height: int, trouble: str) -> Any:
    from rich.console import Group
    from rich.text import Text

    head, *lines = _lines(found)
    parts: list[Any] = [Text(head, style="bold"), *(Text(line, style="dim") for line in lines)]
    if trouble:
        parts.append(Text(trouble, style="bold red"))
    tables = _tables(found, ROWS_MAX)
    room = max((height - len(parts) - 1) // max(len(tables), 1) - 4, 1)
    for table in _tables(found, room):
        parts += [Text(""), Text(table.title, style="bold"), rich_table(table, width)]
    return Group(*parts)


def _lines(found: dict[str, Any]) -> list[str]:
    scheduler, jobs, day = found["scheduler"], found["jobs"], found["day"]
    status = scheduler.get("status") or {}
    told = [f"{number:,} {word}" for word, number in jobs.items() if word != "total" and number]
    if not scheduler["alive"]:
        who = "nobody is running on this ledger"
    elif status.get("node"):
        up = f", up {wait_text(round(status['uptime_seconds'] * 1_000_000))}" if "uptime_seconds" in status else ""
        who = f"node {status['node']}{up}"
    else:
        who = "a scheduler is running"
    lag = scheduler.get("lag_seconds")
    late = found["lateness"]
    times = [f"{name} {_seconds(late.get(name))}" for name in ("p50", "p99") if late.get(name) is not None]
    counted = ", ".join(
        f"{day[word]:,} {word}" for word in ("succeeded", "failed", "timed_out", "lost") if day.get(word)
    )
    skips = ", ".join(f"{number:,} {reason}" for reason, number in day["skips"].items())
    lines = [
        f"evertick  {found['now'][:19].replace('T', ' ')} UTC   {who}",
        f"jobs: {jobs['total']:,}" + (f" ({', '.join(told)})" if told else ""),
        f"last day: {counted or 'nothing ran'}{f'; skipped: {skips}' if skips else ''}",
    ]
    if times or lag is not None:
        behind = f"; planning {_seconds(lag)} behind" if lag is not None else ""
        lines.append(f"lateness: {', '.join(times) or 'not known'}{behind}")
    return lines


def _tables(found: dict[str, Any], room: int) -> list[Table]:
    now = from_text(found["now"])

    def since(row: Row) -> str:
        return wait_text(now - from_text(row["started_at"])) if row["started_at"] else ""

    def due(row: Row) -> str:
        return local_text(from_text(row["scheduled_for"]), row["timezone"])

    run = Column("Run", "run", "cyan", wrap=True, optional=True)
    job = Column("Job", "job", "bold cyan")
    running = (job, Column("State", state_text, "state"), Column("For", since, "green", right=True), _steps(), run)
    waiting = (job, Column("Due", due), Column("Waits for", "detail", wrap=True), run)
    ahead = (
        job,
        Column("In", lambda row: wait_text(max(from_text(row["scheduled_for"]) - now, 0)), "green", right=True),
    )
    wrong = (job, Column("Due", due), Column("State", state_text, "state"), Column("Took", took_text, right=True), run)
    tables = [
        _table(running, found["running"], "Running", found.get("running_count"), room),
        _table(waiting, found["waiting"], "Waiting", found.get("waiting_count"), room),
        _table((*ahead, Column("Local time", due)), found["next"], "Next", None, room),
        _table(wrong, found["failed"], "Failed in the last day", None, room),
        _table((job, Column("Due", due), Column("What", state_text, "state")), found["missed"], "Skipped", None, room),
    ]
    return [table for table in tables if table.rows]


def _wait(row: Row, now: int) -> str:
    return wait_text(max(from_text(row["scheduled_for"]) - now, 0))


def _steps() -> Column:
    def text(row: Row) -> str:
        names = [step["name"] for step in row.get("steps") or () if step["state"] == "running"]
        return ", ".join(names)

    return Column("Step", text, wrap=True, optional=True)


def _table(columns: tuple[Column, ...], rows: Sequence[Row], title: str, count: int | None, room: int) -> Table:
    known = len(rows) if count is None else count
    return Table(columns, rows[:room], f"{title} ({known:,})" if known > room or count is not None else title)


def _seconds(value: float | None) -> str:
    if value is None:
        return "?"
    return f"{value * 1_000:.0f} ms" if value < 1 else f"{value:.1f} s"

"""The overview of a scheduler: running, waiting, upcoming, failed and skipped runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from evertick.cli.output import Column, Row, Table, note, show
from evertick.cli.runs import state_text, took_text
from evertick.cli.tables import plain_table
from evertick.cli.times import duration_text, local_text
from evertick.model.instant import from_text

if TYPE_CHECKING:
    from evertick.operations.plain import PlainOperations

ROWS_MAX = 8
"""Rows per table."""


def show_overview(operations: PlainOperations, output: str) -> None:
    """Print the overview once."""
    found = operations.overview()
    show(output, found, lambda: _print(found), rows=found["running"], name="run")
    if not found["scheduler"]["alive"]:
        note("No scheduler is running. Next: evertick serve")


def _print(found: dict[str, Any]) -> None:
    click.echo("\n\n".join(["\n".join(lines_of(found)), *(plain_table(table) for table in tables_of(found, ROWS_MAX))]))


def lines_of(found: dict[str, Any]) -> list[str]:
    """The scheduler, the number of jobs, and the totals of the last 24 hours."""
    scheduler, jobs, day = found["scheduler"], found["jobs"], found["day"]
    status = scheduler.get("status") or {}
    told = [f"{number:,} {word}" for word, number in jobs.items() if word != "total" and number]
    if not scheduler["alive"]:
        who = "no scheduler is running"
    elif status.get("node"):
        up = f", up {duration_text(round(status['uptime_seconds'] * 1_000_000))}" if "uptime_seconds" in status else ""
        who = f"node {status['node']}{up}"
    else:
        who = "a scheduler is running"
    lag = scheduler.get("lag_seconds")
    late = found["lateness"]
    times = [f"{name} {_seconds(late[name])}" for name in ("p50", "p99") if late.get(name) is not None]
    counted = ", ".join(
        f"{day[word]:,} {word}" for word in ("succeeded", "failed", "timed_out", "lost", "cancelled") if day.get(word)
    )
    rate = day.get("success_rate")
    share = "" if rate is None or rate == 1 else f" ({math.floor(rate * 1_000) / 10:.1f}% success)"
    skips = ", ".join(f"{number:,} {reason}" for reason, number in day["skips"].items())
    lines = [
        f"evertick  {found['now'][:19].replace('T', ' ')} UTC   {who}",
        f"jobs: {jobs['total']:,}" + (f" ({', '.join(told)})" if told else ""),
        f"last 24 hours: {counted or 'no runs'}{share}{f'; skipped: {skips}' if skips else ''}",
    ]
    if times or lag is not None:
        behind = f"; planning lags by {_seconds(lag)}" if lag is not None else ""
        lines.append(f"start delay: {', '.join(times) or 'unknown'}{behind}")
    return lines


def tables_of(found: dict[str, Any], room: int) -> list[Table]:
    """Running, waiting, next, failed and skipped runs, with at most `room` rows each."""
    now = from_text(found["now"])

    def since(row: Row) -> str:
        return duration_text(now - from_text(row["started_at"])) if row["started_at"] else ""

    def due(row: Row) -> str:
        return local_text(from_text(row["scheduled_for"]), row["timezone"])

    run = Column("Run", "run", "cyan", wrap=True, optional=True)
    job = Column("Job", "job", "bold cyan")
    running = (job, Column("State", state_text, "state"), Column("For", since, "green", right=True), _steps(), run)
    waiting = (job, Column("Due", due), Column("Waits for", _waits, wrap=True), run)
    ahead = (
        job,
        *([Column("Action", "action")] if any(row.get("action") != "start" for row in found["next"]) else ()),
        Column("In", lambda row: duration_text(from_text(row["scheduled_for"]) - now), "green", right=True),
    )
    wrong = (job, Column("Due", due), Column("State", state_text, "state"), Column("Took", took_text, right=True), run)
    skipped = (job, Column("Due", due), Column("State", state_text, "state"))
    tables = [
        _table(running, found["running"], "Running", found.get("running_count"), room),
        _table(waiting, found["waiting"], "Waiting", found.get("waiting_count"), room),
        _table((*ahead, Column("Local time", due)), found["next"], "Next", None, room),
        _table(wrong, found["failed"], "Failed in the last 24 hours", None, room),
        _table(skipped, found["missed"], "Skipped in the last 24 hours", None, room),
    ]
    return [table for table in tables if table.rows]


def _steps() -> Column:
    return Column("Step", lambda row: ", ".join(row["running_steps"]), wrap=True, optional=True)


def _waits(row: Row) -> str:
    """The last of the run's waits; without one, the executor's detail."""
    if not row["waits"]:
        return str(row["detail"]) or "its start"
    wait = row["waits"][-1]
    match wait["kind"]:
        case "queue":
            return f"queue {wait['name']}: {_some(wait['runs'])}" if wait["runs"] else f"queue {wait['name']}"
        case "after":
            return f"success of {', '.join(wait['jobs'])}"
        case "executor":
            return f"{wait['name']}: {wait['detail']}"
        case "overlap":
            return _some(wait["runs"])
        case "rate":
            return "the backfill's rate"
        case _:
            return f"the job, which is {wait['name']}"


def _some(runs: Sequence[str]) -> str:
    more = f" and {len(runs) - 2} more" if len(runs) > 2 else ""
    return f"{', '.join(runs[:2])}{more}"


def _table(columns: tuple[Column, ...], rows: Sequence[Row], title: str, count: int | None, room: int) -> Table:
    known, more = (len(rows), " or more") if count is None else (count, "")
    if known > room:
        title = f"{title} ({room} of {known:,}{more})"
    elif count is not None:
        title = f"{title} ({known:,})"
    return Table(columns, rows[:room], title)


def _seconds(value: float) -> str:
    return duration_text(round(value * 1_000_000))

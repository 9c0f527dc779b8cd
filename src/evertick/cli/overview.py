"""The overview of a scheduler: running, waiting, upcoming, failed and skipped runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from evertick.cli.output import Column, Table, note, show
from evertick.cli.runs import due_text, start_columns, state_text, took_text
from evertick.cli.tables import plain_table, state_of
from evertick.cli.times import local_text
from evertick.model.duration import duration_text
from evertick.model.facts import WaitKind
from evertick.model.instant import from_datetime

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.runs import Run, Wait
    from evertick.operations.results.schedule import Fire, Overview

ROWS_MAX = 8
LAG_SHOWN_SECONDS = 1.0
"""Rows per table."""


def show_overview(operations: Operations, output: str) -> None:
    """Print the overview once."""
    found = operations.overview()
    show(output, found, lambda: _print(found), rows=found.running, name="run")
    if not found.scheduler.alive:
        note("No scheduler is running. Next: evertick serve")


def _print(found: Overview) -> None:
    click.echo("\n\n".join(["\n".join(lines_of(found)), *(plain_table(table) for table in tables_of(found, ROWS_MAX))]))


def lines_of(found: Overview) -> list[str]:
    """The scheduler, the number of jobs, and the totals of the last 24 hours."""
    jobs, day, late, lag = found.jobs, found.day, found.lateness, found.scheduler.lag_seconds
    if not found.scheduler.alive:
        who = "no scheduler is running"
    else:
        who = f"node {found.node}" if found.node else "a scheduler is running"
    statuses = (
        ("idle", jobs.idle),
        ("running", jobs.running),
        ("paused", jobs.paused),
        ("error", jobs.error),
        ("disabled", jobs.disabled),
        ("finished", jobs.finished),
    )
    outcomes = (
        ("succeeded", day.succeeded),
        ("failed", day.failed),
        ("timed_out", day.timed_out),
        ("lost", day.lost),
        ("cancelled", day.cancelled),
    )
    told, counted, skips = map(_counts, (statuses, outcomes, day.skips.items()))
    times = [f"{name} {_seconds(value)}" for name, value in (("p50", late.p50), ("p99", late.p99)) if value is not None]
    rate = day.success_rate
    share = "" if rate is None or rate == 1 else f" ({math.floor(rate * 1_000) / 10:.1f}% success)"
    lines = [
        f"evertick  {found.now:%Y-%m-%d %H:%M:%S} UTC   {who}",
        f"jobs: {jobs.total:,}" + (f" ({told})" if told else ""),
        f"last 24 hours: {counted or 'no runs'}{share}{f'; skipped: {skips}' if skips else ''}",
    ]
    if times or lag is not None:
        behind = f"; planning lags by {_seconds(lag)}" if lag is not None and lag >= LAG_SHOWN_SECONDS else ""
        lines.append(f"start delay: {', '.join(times) or 'unknown'}{behind}")
    return lines


def _counts(counted: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{number:,} {word}" for word, number in counted if number)


def tables_of(found: Overview, room: int) -> list[Table]:
    """Running, waiting, next, failed and skipped runs, with at most `room` rows each."""
    now = from_datetime(found.now)

    def since(run: Run) -> str:
        return duration_text(now - from_datetime(run.started_at)) if run.started_at else ""

    def wait(fire: Fire) -> str:
        return duration_text(from_datetime(fire.starts_at or fire.scheduled_for) - now)

    def fire_time(fire: Fire) -> str:
        return local_text(from_datetime(fire.scheduled_for), fire.timezone)

    run = Column("Run", "run", "cyan", wrap=True, optional=True)
    job = Column("Job", "job", "bold cyan")
    running = (job, Column("State", state_text, state_of), Column("For", since, "green", right=True), _steps(), run)
    due, state = Column("Due", due_text), Column("State", state_text, state_of)
    waiting = (job, due, Column("Waits for", _waits, wrap=True), run)
    ahead = (
        job,
        *([Column("Action", "action")] if any(fire.action != "start" for fire in found.next) else ()),
        Column("In", wait, "green", right=True),
        Column("Local time", fire_time),
        *start_columns(found.next),
    )
    failed = (job, due, state, Column("Took", took_text, right=True), run)
    tables = [
        _table(running, found.running, "Running", found.running_count, room),
        _table(waiting, found.waiting, "Waiting", found.waiting_count, room),
        _table(ahead, found.next, "Next", None, room),
        _table(failed, found.failed, "Failed in the last 24 hours", None, room),
        _table((job, due, state), found.missed, "Skipped in the last 24 hours", None, room),
    ]
    return [table for table in tables if table.rows]


def _steps() -> Column:
    return Column("Step", lambda run: ", ".join(run.running_steps), wrap=True, optional=True)


def _waits(run: Run) -> str:
    """The last of the run's waits; without one, the executor's detail."""
    return wait_text(run.waits[-1]) if run.waits else run.detail or "its start"


def wait_text(wait: Wait) -> str:
    """What a run waits for, after the words `waits for`."""
    match wait.kind:
        case WaitKind.QUEUE:
            return f"queue {wait.name}: {_some(wait.runs)}" if wait.runs else f"queue {wait.name}"
        case WaitKind.AFTER:
            return f"success of {', '.join(wait.jobs)}"
        case WaitKind.EXECUTOR:
            return f"{wait.name}: {wait.detail}"
        case WaitKind.OVERLAP:
            return _some(wait.runs)
        case WaitKind.RATE:
            return "the backfill's rate"
        case _:
            return f"the job, which is {wait.name}"


def _some(runs: Sequence[str]) -> str:
    more = f" and {len(runs) - 2} more" if len(runs) > 2 else ""
    return f"{', '.join(runs[:2])}{more}"


def _table(columns: tuple[Column, ...], rows: Sequence[object], title: str, count: int | None, room: int) -> Table:
    known, at_least = (len(rows), "at least ") if count is None else (count, "")
    if known > room:
        title = f"{title} ({room} of {at_least}{known:,})"
    elif count is not None:
        title = f"{title} ({known:,})"
    return Table(columns, rows[:room], title)


def _seconds(value: float) -> str:
    return duration_text(round(value * 1_000_000))

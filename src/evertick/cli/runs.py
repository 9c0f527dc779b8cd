"""The table of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evertick.cli.output import Column, Table
from evertick.cli.tables import state_of
from evertick.cli.times import local_text
from evertick.model.duration import duration_text
from evertick.model.instant import from_datetime

if TYPE_CHECKING:
    from evertick.operations.results.runs import Run, RunSummary
    from evertick.operations.results.schedule import Fire


def runs_table(runs: Sequence[Run], title: str = "") -> Table:
    """A run's id has its due time in UTC; the column Due has it in the job's time zone."""

    columns = (
        Column("Run", "run", "cyan", wrap=True),
        Column("State", state_text, state_of),
        Column("Trigger", "trigger"),
        Column("Took", took_text, right=True),
        Column("Due", due_text, optional=True),
        Column("Attempt", lambda run: run.attempt or "", right=True, optional=True),
        Column("Exit", "exit_code", right=True, optional=True),
        Column("Detail", "detail", wrap=True, optional=True),
    )
    return Table(columns, runs, title)


def due_text(run: Run) -> str:
    return local_text(from_datetime(run.scheduled_for), run.timezone)


def state_text(run: RunSummary) -> str:
    """`skipped: missed (12)`: the state, the skip reason, and the number of occurrences of a gap."""
    text = f"{run.state}: {run.reason}" if run.reason else str(run.state)
    return f"{text} ({run.occurrences:,})" if run.occurrences > 1 else text


def took_text(run: RunSummary) -> str:
    return "" if run.duration_seconds is None else duration_text(round(run.duration_seconds * 1_000_000))


def start_columns(fires: Sequence[Fire]) -> tuple[Column, ...]:
    """When the runs of coming occurrences start, if jitter delays any of them."""
    return (
        (Column("Starts", lambda fire: fire.local_start or "", "bold"),)
        if any(fire.starts_at for fire in fires)
        else ()
    )

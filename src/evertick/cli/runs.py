"""The table of runs."""

from __future__ import annotations

from collections.abc import Sequence

from evertick.cli.output import Column, Row, Table
from evertick.cli.times import duration_text, local_text
from evertick.model.instant import from_text


def runs_table(runs: Sequence[Row], title: str = "") -> Table:
    """A run's id has its due time in UTC; the column Due has it in the job's time zone."""

    def due(run: Row) -> str:
        return local_text(from_text(run["scheduled_for"]), run["timezone"])

    columns = (
        Column("Run", "run", "cyan", wrap=True),
        Column("State", state_text, "state"),
        Column("Trigger", "trigger"),
        Column("Took", took_text, right=True),
        Column("Due", due, optional=True),
        Column("Attempt", lambda row: row["attempt"] or "", right=True, optional=True),
        Column("Exit", "exit_code", right=True, optional=True),
        Column("Detail", "detail", wrap=True, optional=True),
    )
    return Table(columns, runs, title)


def state_text(row: Row) -> str:
    """`skipped: missed (12)`: the state, the skip reason, and the number of occurrences of a gap."""
    text = f"{row['state']}: {row['reason']}" if row["reason"] else str(row["state"])
    return f"{text} ({row['occurrences']:,})" if row["occurrences"] > 1 else text


def took_text(row: Row) -> str:
    return "" if row["duration_seconds"] is None else duration_text(round(row["duration_seconds"] * 1_000_000))

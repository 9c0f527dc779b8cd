"""How runs are shown in tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evertick.cli.output import Column, Row, Table
from evertick.cli.times import local_text

if TYPE_CHECKING:
    from evertick.model.run import LedgerRow

STATE_STYLE = "bold"


def runs_table(rows: Iterable[LedgerRow], zone: str | None = None, title: str = "") -> Table:
    """Newest first, as given; due times on the clocks of a zone where one is named, else in UTC."""
    from evertick.operations import run_data

    shown = [{**run_data(row), "due": local_text(row.key.scheduled_for, zone) if zone else None} for row in rows]
    columns = (
        Column("Due", lambda row: row["due"] or row["scheduled_for"], "bold"),
        Column("State", state_text, STATE_STYLE),
        Column("Trigger", "trigger"),
        Column("Took", _took, right=True),
        Column("Try", lambda row: row["attempt"] or "", right=True, optional=True),
        Column("Exit", "exit_code", right=True, optional=True),
        Column("Run", "run", "cyan"),
        Column("Detail", "detail", wrap=True, optional=True),
    )
    return Table(columns, shown, title)


def state_text(row: Row) -> str:
    """`skipped: missed (12)`: the state, the reason of a skip, and how many occurrences a gap has."""
    text = f"{row['state']}: {row['reason']}" if row["reason"] else str(row["state"])
    return f"{text} ({row['occurrences']:,})" if row["occurrences"] > 1 else text


def _took(row: Row) -> str:
    from evertick.operations import span_text

    return "" if row["duration_seconds"] is None else span_text(max(round(row["duration_seconds"] * 1_000_000), 0))

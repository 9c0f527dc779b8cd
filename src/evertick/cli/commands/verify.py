"""`evertick verify`: whether the ledger holds every occurrence of every job, once."""

from __future__ import annotations

from typing import Any

import click

from evertick.cli.exits import FAILED
from evertick.cli.output import Column, Row, Table, note, output_option, show, show_text
from evertick.cli.tables import show_tables
from evertick.cli.target import Target, place_options

SHOWN_MAX = 20
"""Findings that a person is shown; a program gets all of them."""


@click.command()
@place_options
@output_option
@click.pass_context
def verify(ctx: click.Context, place: Target, output: str) -> None:
    """Prove that no occurrence was lost, none decided twice, and none is stuck.

    Every occurrence of every job is computed anew from the schedules that were in force, and looked up in the ledger.
    An entry is stuck when it is overdue, waits for nothing that can be named, and does not move.
    The exit code is 0 when the ledger is sound, 1 when it is not, and 5 when it cannot be read.

    \b
    Examples:
      evertick verify --folder jobs
      evertick verify --store postgresql://evertick@db/evertick -o json
    """
    from evertick.errors import SchedulerLockError, StoreUnavailable

    try:
        with place.operations() as operations:
            report = operations.verify()
    except SchedulerLockError as error:
        # Files are read by one process at a time; that says nothing about what is in them.
        raise StoreUnavailable(str(error)) from error
    findings = report["findings"]

    def tell() -> None:
        show_tables(Table((Column("What", "what"), Column("Count", "count", "bold", right=True)), _counts(report)))
        for finding in findings[:SHOWN_MAX]:
            show_text(finding["text"])
        if len(findings) > SHOWN_MAX:
            note(f"... and {len(findings) - SHOWN_MAX:,} more; -o json lists all of them.")

    show(output, report, tell, rows=findings, name="job")
    if report["is_sound"]:
        note("Sound: every occurrence up to the watermarks is in the ledger, once.")
        return
    if report["stuck"] == len(findings):
        note("Not sound: entries are stuck. The scheduler takes them up again by itself; if they stay, restart it.")
    else:
        note("Not sound: keep a copy of this ledger before anything else writes to it.")
    ctx.exit(FAILED)


def _counts(report: dict[str, Any]) -> list[Row]:
    counts = [
        ("occurrences", report["occurrences"]),
        ("runs", report["runs"]),
        *((f"skipped: {reason}", count) for reason, count in report["skips"].items()),
        ("gaps", report["gaps"]),
        ("lost", report["lost"]),
        ("decided twice", report["duplicates"]),
        ("gaps that count wrong", report["miscounted"]),
        ("lines of no schedule", report["strays"]),
        ("stuck", report["stuck"]),
    ]
    return [{"what": what, "count": f"{count:,}"} for what, count in counts]

"""`evertick verify`: check that the ledger holds every occurrence of every job exactly once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evertick.cli.exits import FAILED
from evertick.cli.output import Column, Row, Table, note, output_option, show, show_text
from evertick.cli.tables import show_tables
from evertick.cli.target import Target
from evertick.cli.target_options import target_options

if TYPE_CHECKING:
    from evertick.operations.results.system import Verification

SHOWN_MAX = 20
"""Findings in the table; JSON has all of them."""


@click.command()
@target_options
@output_option
@click.pass_context
def verify(ctx: click.Context, target: Target, output: str) -> None:
    """Check that no occurrence is lost, duplicated or stuck.

    The command recomputes every occurrence from the schedules that were in force and looks it up in the ledger. An
    entry is stuck when it is overdue and waits for nothing. It also compares the hourly counts, from which the
    overview and the calendar are drawn, with the entries. The exit code is 0 when the ledger is consistent, 1 when it
    is not and 5 when it cannot be read.

    \b
    Examples:
      evertick verify --folder jobs
      evertick verify --store postgresql://evertick@db/evertick -o json
    """
    from evertick.errors import SchedulerLockError, StoreUnavailable

    try:
        with target.operations() as operations:
            report = operations.verify()
    except SchedulerLockError as error:
        # Only one process at a time can read a ledger of files; that says nothing about its consistency.
        raise StoreUnavailable(str(error)) from error
    findings = report.findings

    def show_findings() -> None:
        show_tables(Table((Column("Entries", "what"), Column("Count", "count", "bold", right=True)), _counts(report)))
        for finding in findings[:SHOWN_MAX]:
            show_text(finding.text)
        if len(findings) > SHOWN_MAX:
            note(f"... and {len(findings) - SHOWN_MAX:,} more. Use -o json to list all.")

    show(output, report, show_findings, rows=findings, name="job")
    if report.is_sound:
        note("The ledger is consistent: it holds every occurrence up to the watermarks exactly once.")
        return
    if report.stuck == len(findings):
        note("Some entries are stuck. The scheduler retries them within minutes; if they stay stuck, restart it.")
    elif report.wrong_counts == len(findings):
        note(
            "No occurrence is lost; only counts are wrong. Run `evertick db recount` to rebuild them from the entries."
        )
    else:
        note("The ledger is inconsistent. Copy it before anything else writes to it, and report this as a bug.")
    ctx.exit(FAILED)


def _counts(report: Verification) -> list[Row]:
    counts = [
        ("occurrences", report.occurrences),
        ("runs", report.runs),
        *((f"skipped: {reason}", count) for reason, count in report.skips.items()),
        ("gaps", report.gaps),
        ("lost", report.lost),
        ("duplicated", report.duplicates),
        ("gaps with a wrong count", report.miscounted),
        ("not in any schedule", report.strays),
        ("stuck", report.stuck),
        ("wrong hourly counts", report.wrong_counts),
    ]
    return [{"what": what, "count": f"{count:,}"} for what, count in counts]

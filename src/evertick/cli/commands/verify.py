"""`evertick verify`: whether the ledger holds every occurrence of every job, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from evertick.cli.exits import FAILED
from evertick.cli.output import Column, Row, Table, note, output_option, show, show_text
from evertick.cli.tables import show_tables

if TYPE_CHECKING:
    from evertick.planning.verify import Report

SHOWN_MAX = 20
"""Findings that a person is shown; a program gets all of them."""


@click.command()
@click.option(
    "--store",
    "url",
    required=True,
    envvar="EVERTICK_STORE",
    metavar="URL",
    help="The ledger, for example sqlite:///evertick.db; default: EVERTICK_STORE.",
)
@output_option
@click.pass_context
def verify(ctx: click.Context, url: str, output: str) -> None:
    """Prove that no occurrence was lost and none decided twice.

    Every occurrence of every job is computed anew from the schedules that were in force, and looked up in the ledger.
    The exit code is 0 when the ledger is sound, 1 when it is not, and 5 when it cannot be read.

    \b
    Examples:
      evertick verify --store sqlite:///evertick.db
      evertick verify --store postgresql://evertick@db/evertick -o json
    """
    report = _look(url)
    findings = _findings(report)

    def tell() -> None:
        show_tables(Table((Column("What", "what"), Column("Count", "count", "bold", right=True)), _counts(report)))
        for finding in findings[:SHOWN_MAX]:
            show_text(finding["text"])
        if len(findings) > SHOWN_MAX:
            note(f"... and {len(findings) - SHOWN_MAX:,} more; -o json lists all of them.")

    show(output, _data(report, findings), tell, rows=findings, name="job")
    note(_verdict(report))
    if not report.is_sound:
        ctx.exit(FAILED)


def _look(url: str) -> Report:
    """What the ledger of a URL holds."""
    from evertick import operations
    from evertick.errors import SchedulerLockError, StoreUnavailable
    from evertick.service import open_store  # type: ignore[attr-defined]

    _require(url)
    try:
        store = open_store(url)
    except SchedulerLockError as error:
        # Files are read by one process at a time; that says nothing about what is in them.
        raise StoreUnavailable(str(error)) from error
    try:
        report = operations.verify(store)
        # A scheduler at work may write between two reads: what is wrong at a second look is wrong.
        return report if report.is_sound else operations.verify(store)
    finally:
        store.close()


def _require(url: str) -> None:
    """A ledger on this machine must be there: to look at one is not to make one."""
    from evertick.errors import StoreUnavailable
    from evertick.service import lock_path  # type: ignore[attr-defined]

    lock = lock_path(url)
    if lock is None:
        return
    # The lock lies inside a folder of files, and beside a SQLite file under its name.
    place = lock.with_name(lock.name.removesuffix(".lock")) if url.lower().startswith("sqlite") else lock.parent
    if not place.exists():
        raise StoreUnavailable(f"there is no ledger at '{place}'. Write the URL that the scheduler was given.")


def _counts(report: Report) -> list[Row]:
    counts = [
        ("occurrences", report.occurrences),
        ("runs", report.runs),
        *((f"skipped: {reason}", count) for reason, count in report.skips.items()),
        ("gaps", report.gaps),
        ("lost", sum(lost.occurrences for lost in report.lost)),
        ("decided twice", len(report.duplicates)),
        ("gaps that count wrong", len(report.miscounted)),
        ("lines of no schedule", len(report.strays)),
    ]
    return [{"what": what, "count": f"{count:,}"} for what, count in counts]


def _findings(report: Report) -> list[dict[str, str]]:
    """Everything that is wrong, in words; what was lost first."""
    sentences = (
        ("duplicate", report.duplicates, "another line speaks of this occurrence already"),
        ("miscounted", report.miscounted, "the gap that begins here says another number of occurrences than there are"),
        ("stray", report.strays, "no schedule of the job was ever due then"),
    )
    lost = [{"kind": "lost", "job": one.job_id, "text": f"lost: {one}"} for one in report.lost]
    return lost + [
        {"kind": kind, "job": key.job_id, "text": f"{kind}: {key.run_id}: {sentence}"}
        for kind, keys, sentence in sentences
        for key in keys
    ]


def _data(report: Report, findings: list[dict[str, str]]) -> dict[str, object]:
    return {
        "is_sound": report.is_sound,
        "occurrences": report.occurrences,
        "runs": report.runs,
        "skips": dict(report.skips),
        "gaps": report.gaps,
        "lost": sum(lost.occurrences for lost in report.lost),
        "duplicates": len(report.duplicates),
        "miscounted": len(report.miscounted),
        "strays": len(report.strays),
        "findings": findings,
    }


def _verdict(report: Report) -> str:
    if report.is_sound:
        return "Sound: every occurrence up to the watermarks is in the ledger, once."
    return "Not sound: keep a copy of this ledger before anything else writes to it."

"""The table of fleet members: state, load, resources, last seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evertick.cli.output import Column, Table, note, show

if TYPE_CHECKING:
    from evertick.model.member import Member


def show_members(output: str, members: list[Member]) -> None:
    rows = [_row(member) for member in members]
    columns = (
        Column("Name", "name", "bold"),
        Column("State", "state"),
        Column("Running", lambda row: f"{row['running']} of {row['slots']}" if row["slots"] else str(row["running"])),
        Column("Labels", lambda row: " ".join(f"{name}={value}" for name, value in row["labels"].items())),
        Column("Resources", lambda row: _resources_column(row), optional=True),
        Column("CPU", lambda row: f"{row['cpu_percent']:.0f}%", right=True, optional=True),
        Column("Version", "version", "dim", optional=True),
        Column("Last seen", lambda row: "now" if row["state"] != "away" else _ago(row["seen_at"]), "dim"),
    )
    show(output, rows, Table(columns, rows), name="name")
    for row in rows:
        if row["state"] == "lease-too-long":
            note(
                f"{row['name']} receives no runs: its lease ({row['lease_seconds']:g}s) is longer than fleet.lease. "
                "Restart it with a shorter --lease, or raise fleet.lease in the schedulers' settings."
            )
    if not rows:
        note("The fleet has no members. Next: evertick fleet join URL --name ex-a")


def _ago(seen_at: str | None) -> str:
    from evertick.cli.times import now
    from evertick.model.duration import duration_text
    from evertick.model.instant import from_text

    return "never" if seen_at is None else f"{duration_text(now() - from_text(seen_at))} ago"


def _resources_column(row: Mapping[str, Any]) -> str:
    used = row["used"]
    return " ".join(f"{name}={f'{used[name]}/' if name in used else ''}{text}" for name, text in row["offers"].items())


def _row(member: Member) -> dict[str, object]:
    from evertick.model.instant import to_text
    from evertick.model.resources import amount_text

    return {
        "name": member.name,
        "state": "away" if not member.is_healthy else "ready" if member.is_open else str(member.closed or "cordoned"),
        "lease_seconds": member.lease_us / 1_000_000,
        "running": member.running,
        "slots": member.slots,
        "labels": dict(member.labels),
        "offers": {name: amount_text(name, amount) for name, amount in member.offers},
        "used": {name: amount_text(name, amount) for name, amount in member.used},
        "cpu_percent": member.cpu_percent,
        "memory_bytes": member.memory_bytes,
        "version": member.version,
        "address": member.address,
        "seen_at": to_text(member.seen_at) if member.seen_at else None,
    }

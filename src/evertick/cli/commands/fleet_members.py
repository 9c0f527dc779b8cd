"""`evertick fleet list`, `cordon`, `uncordon`, `drain`, `remove` and `forget`: the members of a fleet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar

import click

from evertick.cli.output import Column, Table, counted, note, output_option, show, show_text

if TYPE_CHECKING:
    from evertick.model.member import Member
    from evertick.settings.parts import FleetSettings

Command = TypeVar("Command", bound=Callable[..., object])

URL_VARIABLE: Final = "EVERTICK_FLEET_URL"
_ADDRESS: Final = re.compile(r"\w+://")
url_argument = click.argument("url", metavar="[URL]")

certs_option = click.option(
    "--certs",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="EVERTICK_FLEET_CERTS",
    metavar="FOLDER",
    help="Folder with ca.pem, cert.pem and key.pem; also set by EVERTICK_FLEET_CERTS.",
)


class FleetCommand(click.Command):
    """A command whose first argument is the fleet's URL, by default from the environment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Only a word that begins with a scheme is the URL; a label may contain one.
        if not any(_ADDRESS.match(word) or word in ("-h", "--help") for word in args):
            known = os.environ.get(URL_VARIABLE, "")
            if not known:
                example = "tls://127.0.0.1:8786"
                reason = f"Missing the URL of the fleet. Write it first, for example {example}, or set {URL_VARIABLE}."
                raise click.UsageError(reason, ctx)
            args = [known, *args]
        return super().parse_args(ctx, args)


def about_member(command: Command) -> Command:
    """Give a command the arguments URL and MEMBER, and the options of every command about a fleet."""
    for add in (output_option, certs_option, click.argument("member"), url_argument):
        command = add(command)
    return command


@click.command("list", cls=FleetCommand)
@url_argument
@certs_option
@output_option
def list_(url: str, certs: Path | None, output: str) -> None:
    """List the members of a fleet with their state, load and resources.

    A member that is away stays in the list for a week.

    \b
    Example:
      evertick fleet list tls://127.0.0.1:8786
    """
    from evertick.executors.fleet.admin import list_members

    show_members(output, list_members(_settings(url, certs)))


@click.command(cls=FleetCommand)
@about_member
def cordon(url: str, member: str, certs: Path | None, output: str) -> None:
    """Send no new runs to a member; its active runs continue.

    \b
    Example:
      evertick fleet cordon tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet.admin import set_cordon

    show_members(output, [set_cordon(_settings(url, certs), member, is_closed=True)])


@click.command(cls=FleetCommand)
@about_member
def uncordon(url: str, member: str, certs: Path | None, output: str) -> None:
    """Send new runs to a cordoned or drained member again.

    \b
    Example:
      evertick fleet uncordon tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet.admin import set_cordon

    show_members(output, [set_cordon(_settings(url, certs), member, is_closed=False)])


@click.command(cls=FleetCommand)
@click.option("--timeout", default=3600.0, show_default=True, help="Maximum number of seconds to wait.")
@about_member
def drain(url: str, member: str, timeout: float, certs: Path | None, output: str) -> None:
    """Send no new runs to a member and wait until its active runs have ended.

    \b
    Example:
      evertick fleet drain tls://127.0.0.1:8786 ex-a && evertick fleet remove tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet import admin

    def said(seen: Member) -> None:
        if seen.running:
            note(f"{seen.name} has {counted(seen.running, 'active attempt')}. Waiting ...")

    show_members(output, [admin.drain(_settings(url, certs), member, timeout, said)])


@click.command(cls=FleetCommand)
@click.option("--force", is_flag=True, help="Remove it even if it has active runs; these are lost.")
@about_member
def remove(url: str, member: str, force: bool, certs: Path | None, output: str) -> None:
    """Remove a member for good: its process stops and does not restart.

    \b
    Example:
      evertick fleet remove tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet import admin

    admin.remove(_settings(url, certs), member, by_force=force)
    show(output, {"member": member}, lambda: show_text(member), name="member")


@click.command(cls=FleetCommand)
@about_member
def forget(url: str, member: str, certs: Path | None, output: str) -> None:
    """Remove an absent member from the list and free its name.

    Use it for a machine that will not come back. Its certificate stays valid; revoke it with 'evertick fleet certs
    revoke'. If the machine does come back before another one uses its name, it is a member again.

    \b
    Example:
      evertick fleet forget tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet import admin

    admin.forget(_settings(url, certs), member)
    show(output, {"member": member}, lambda: show_text(member), name="member")


def _settings(url: str, certs: Path | None) -> FleetSettings:
    from evertick.errors import SettingsError
    from evertick.executors.fleet.settings import Certificates, fleet_at, need_dask
    from evertick.settings import Settings

    need_dask()
    try:
        settings = Settings.load(Path()).fleet  # whether a member's own lease is too long is judged by it
    except SettingsError:
        settings = None
    if certs is None and url.startswith("tls://"):
        return fleet_at(url, Certificates.of_this_machine(), settings)
    return fleet_at(url, Certificates.in_folder(certs) if certs else None, settings)


class MemberRow(TypedDict):
    """A member as programs read it; the table has a part of it."""

    name: str
    state: str
    lease_seconds: float
    running: int
    slots: int
    labels: dict[str, str]
    offers: dict[str, str]
    used: dict[str, str]
    cpu_percent: float
    memory_bytes: int
    version: str
    address: str
    seen_at: str | None


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


def _resources_column(row: MemberRow) -> str:
    used = row["used"]
    return " ".join(f"{name}={f'{used[name]}/' if name in used else ''}{text}" for name, text in row["offers"].items())


def _row(member: Member) -> MemberRow:
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

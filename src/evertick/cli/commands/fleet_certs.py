"""`evertick fleet certs` and `evertick fleet token`: certificates of a fleet, and tokens to join it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli import times
from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Table, note, output_option, show, show_text

if TYPE_CHECKING:
    from evertick.executors.fleet.authority import Authority

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="EVERTICK_FLEET_FOLDER",
    metavar="FOLDER",
    help="State folder of the hub; default: ~/.evertick-fleet; also set by EVERTICK_FLEET_FOLDER.",
)
role_option = click.option(
    "--role",
    type=click.Choice(["member", "scheduler"]),
    default="member",
    show_default=True,
    help="A member runs jobs; a scheduler sends runs to all members.",
)


@click.command()
@role_option
@click.option("--name", default="", help="Name of the machine; default: the machine chooses one when it joins.")
@click.option(
    "--hours",
    default=24.0,
    show_default=True,
    type=click.FloatRange(0.01, 24 * 365),
    help="How long the token is valid.",
)
@folder_option
@output_option
def token(role: str, name: str, hours: float, folder: Path | None, output: str) -> None:
    """Create a token and print the command with which a machine joins the fleet.

    Run it on the hub's machine. A token can be used once.

    \b
    Examples:
      evertick fleet token
      evertick fleet token --role scheduler --name node-2 -o name
    """
    authority = _authority(folder)
    from evertick.executors.fleet.hub_folder import hub_address_in, reachable_url
    from evertick.executors.fleet.identity import Role
    from evertick.model.instant import HOUR

    address = hub_address_in(authority.folder)
    text = authority.invite(address.join_port, Role(role), name, int(hours * HOUR))
    command = join_command(reachable_url(address.url), text, Role(role), name)
    show(output, {"token": text, "command": command}, lambda: show_text(command), name="token")


def join_command(url: str, token: str, role: str, name: str = "") -> str:
    if role == "scheduler":
        return f"evertick fleet certs request {url} certs --name {name or 'NAME'} --token {token}"
    return f"evertick fleet join {url} --name {name or 'NAME'} --token {token}"


@click.group(cls=SuggestingGroup)
def certs() -> None:
    """List, issue, rotate and revoke certificates of a fleet.

    \b
    Examples:
      evertick fleet certs list
      evertick fleet certs revoke ex-a
    """


@certs.command("list")
@folder_option
@output_option
def list_(folder: Path | None, output: str) -> None:
    """List the certificates that the fleet's authority has signed.

    \b
    Example:
      evertick fleet certs list
    """
    from evertick.model.instant import to_text

    now = time.time_ns() // 1_000
    rows = [
        {
            "name": one.name,
            "role": str(one.role),
            "state": _state(now, one.expires_at, one.revoked_at),
            "issued_at": to_text(one.issued_at),
            "expires_at": to_text(one.expires_at),
            "revoked_at": to_text(one.revoked_at) if one.revoked_at else None,
            "serial": one.serial,
        }
        for one in _authority(folder).list_certificates()
    ]
    columns = (
        Column("Name", "name", "bold"),
        Column("Role", "role"),
        Column("State", "state"),
        Column("Expires (UTC)", lambda row: times.utc_text(row["expires_at"])),
        Column("Serial", "serial", "dim", optional=True),
    )
    show(output, rows, Table(columns, rows), name="name")


@certs.command()
@click.argument("name")
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
@role_option
@folder_option
@output_option
def issue(name: str, target: Path, role: str, folder: Path | None, output: str) -> None:
    """Create a certificate and its key in the folder TARGET, to copy to another machine.

    If that machine can reach the hub, use a token instead: then the key never leaves the machine.

    \b
    Example:
      evertick fleet certs issue ex-a certs/ex-a
    """
    authority = _authority(folder)
    from evertick.executors.fleet.certs import hub_address_of
    from evertick.executors.fleet.identity import Role

    address = hub_address_of(authority.folder / "hub")
    if address is not None:
        from evertick.executors.fleet.hub_folder import reachable_url

        address = address._replace(url=reachable_url(address.url))
    authority.issue(target, Role(role), name, address=address)
    show(output, {"name": name, "folder": str(target)}, lambda: show_text(str(target)), name="folder")


@certs.command()
@click.argument("url")
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
@click.option("--name", required=True, help="Name in the certificate.")
@click.option(
    "--token", "token_text", required=True, envvar="EVERTICK_FLEET_TOKEN", help="From 'evertick fleet token'."
)
@output_option
def request(url: str, target: Path, name: str, token_text: str, output: str) -> None:
    """Exchange a token for a certificate in the folder TARGET, for a scheduler on another machine.

    \b
    Example:
      evertick fleet certs request tls://10.0.0.1:8786 certs --name node-2 --token TOKEN
    """
    from evertick.executors.fleet.settings import need_cryptography

    need_cryptography()
    from evertick.executors.fleet.enrolment import enrol

    enrol(url, token_text, name, target)
    show(output, {"name": name, "folder": str(target)}, lambda: show_text(str(target)), name="folder")


@certs.command()
@click.argument("target", type=click.Path(path_type=Path, file_okay=False, exists=True))
@output_option
def rotate(target: Path, output: str) -> None:
    """Replace the key and the certificate in the folder TARGET.

    The hub must be running. The old certificate stays valid for an hour. Members rotate theirs by themselves.

    \b
    Example:
      evertick fleet certs rotate ~/.evertick-ex-a/certs
    """
    from evertick.executors.fleet.settings import need_cryptography

    need_cryptography()
    from evertick.executors.fleet.enrolment import renew

    renew(target)
    show(output, {"folder": str(target)}, lambda: show_text(str(target)), name="folder")


@certs.command("rotate-authority")
@click.option("--finish", is_flag=True, help="Second step: sign with the new authority.")
@click.option("--force", is_flag=True, help="With --finish: do not wait for machines that do not trust it yet.")
@folder_option
@output_option
def rotate_authority(finish: bool, force: bool, folder: Path | None, output: str) -> None:
    """Replace the fleet's certificate authority, without downtime.

    The first call creates the new authority; within two minutes all machines trust it too. With --finish, the new
    authority signs from then on, and all running machines renew their certificates by themselves. The old authority is
    removed when its last certificate has expired.

    \b
    Examples:
      evertick fleet certs rotate-authority
      evertick fleet certs rotate-authority --finish
    """
    authority = _authority(folder)
    if force and not finish:
        raise click.UsageError("--force needs --finish.")
    if finish:
        authority.finish_rotation(is_forced=force)
        show(output, {"step": "finished"}, lambda: show_text("The new authority signs from now on."), name="step")
        return
    fingerprint = authority.begin_rotation()
    told = {"step": "begun", "fingerprint": fingerprint}
    show(output, told, lambda: show_text(f"New authority: {fingerprint}"), name="fingerprint")
    note("Next, in two minutes: evertick fleet certs rotate-authority --finish")


@certs.command()
@click.argument("which", metavar="NAME")
@folder_option
@output_option
def revoke(which: str, folder: Path | None, output: str) -> None:
    """Revoke a certificate by name or serial number.

    The hub closes its connections within two seconds and frees the name.

    \b
    Example:
      evertick fleet certs revoke ex-a
    """
    rows = [{"name": one.name, "role": str(one.role), "serial": one.serial} for one in _authority(folder).revoke(which)]
    columns = (Column("Name", "name", "bold"), Column("Role", "role"), Column("Serial", "serial", "dim"))
    show(output, rows, Table(columns, rows), name="serial")
    if any(row["role"] == "hub" for row in rows):
        note("This was the hub's own certificate. Restart the hub to create a new one.")


def _authority(folder: Path | None) -> Authority:
    from evertick.errors import NotFound
    from evertick.executors.fleet.registry import default_folder
    from evertick.executors.fleet.settings import need_cryptography

    need_cryptography()
    from evertick.executors.fleet.authority import Authority

    authority = Authority(folder or default_folder())
    if not authority.exists:
        raise NotFound(f"'{authority.folder}' has no fleet. Name its --folder, or run 'evertick fleet start'.")
    return authority


def _state(now: int, expires_at: int, revoked_at: int) -> str:
    if expires_at <= now:
        return "expired"
    if 0 < revoked_at <= now:
        return "revoked"
    return "replaced" if revoked_at else "valid"

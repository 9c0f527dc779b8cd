"""`evertick token`: who may use the API."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Table, note, output_option, show, show_text
from evertick.cli.target import find_place

if TYPE_CHECKING:
    from evertick.operations.tokens import Tokens

ROLES = ("viewer", "operator", "editor", "admin")

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=".",
    metavar="PATH",
    help="The folder that is served; default: the present one.",
)


@click.group(cls=SuggestingGroup)
def token() -> None:
    """Say who may use the API: make, list and revoke tokens.

    A token has a role: a viewer looks, an operator also triggers, cancels, pauses and backfills, an editor also changes
    definitions where the settings allow it, an admin also manages tokens. Only a hash of it is kept. Whoever may write
    to the folder may do this; a server that runs takes the change at once.

    \b
    Example:
      evertick token create grafana --role viewer
    """


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What its holder may do.")
@click.option("--expires", metavar="TIME", help="When it is worth nothing any more; default: never.")
@folder_option
@output_option
def create(name: str, role: str, expires: str | None, folder: Path, output: str) -> None:
    """Make a token. It is shown this once.

    \b
    Examples:
      evertick token create grafana --role viewer
      evertick token create deploy --role operator --expires 2027-01-01 -o name > deploy.token
    """
    from evertick.cli.requests import whoami
    from evertick.operations.time_text import read_moment
    from evertick.operations.tokens import read_role

    until = None if expires is None else read_moment(expires, "UTC")
    made, text = _tokens(folder).create(name, read_role(role), by=whoami(), expires_at=until)
    show(output, {**made.data(), "token": text}, lambda: show_text(text), name="token")
    note("Keep it: it cannot be shown again. Next: EVERTICK_TOKEN=... evertick list --server URL")


@token.command("list")
@folder_option
@output_option
def list_(folder: Path, output: str) -> None:
    """List the tokens: names, roles, and since when. What proves them is not kept.

    \b
    Example:
      evertick token list --folder jobs
    """
    rows = [one.data() for one in _tokens(folder).list()]
    columns = (
        Column("Name", "name", "bold cyan"),
        Column("Role", "role", "bold"),
        Column("Made", "created_at"),
        Column("By", "created_by", optional=True),
        Column("Until", lambda row: row["expires_at"] or "it is revoked"),
        Column("Id", "id", "dim", optional=True),
    )
    show(output, rows, Table(columns, rows), name="name")
    if not rows:
        note("There are no tokens. The first is made when a server starts. Next: evertick serve")


@token.command()
@click.argument("name", metavar="NAME|ID")
@folder_option
@output_option
def revoke(name: str, folder: Path, output: str) -> None:
    """Make a token, and the sessions begun with it, worth nothing at once.

    \b
    Example:
      evertick token revoke grafana
    """
    gone = _tokens(folder).revoke(name)
    show(output, gone.data(), lambda: show_text(f"{gone.name} is revoked"), name="name")


@token.command("show")
@folder_option
@output_option
def show_(folder: Path, output: str) -> None:
    """Show the first token of a folder, which its owner's commands use. It is an admin's.

    \b
    Example:
      evertick token show --folder jobs
    """
    from evertick.errors import NotFound

    tokens = _tokens(folder)
    text = tokens.first()
    if text is None:
        raise NotFound(
            "the first token is not kept here: no server has run in this folder, or it was revoked. "
            "Next: evertick token create NAME --role admin"
        )
    token = tokens.check(text)
    show(output, {"name": token.name if token else "", "token": text}, lambda: show_text(text), name="token")


def _tokens(folder: Path) -> Tokens:
    from evertick.errors import NotFound
    from evertick.operations.tokens import Tokens

    place = find_place(None, folder)
    state = place.require_state()
    if not state.is_dir():
        raise NotFound(f"no scheduler has run in '{folder}'. Next: evertick serve {folder}, or name another --folder.")
    return Tokens(state)

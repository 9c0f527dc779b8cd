"""`evertick token`: create, list and revoke API tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli import times
from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Table, note, output_option, show, show_text
from evertick.cli.target_options import find_target

if TYPE_CHECKING:
    from evertick.operations.results.access import TokenState
    from evertick.operations.tokens import Tokens

ROLES = ("viewer", "operator", "editor", "admin")

folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    default=".",
    metavar="PATH",
    help="Folder of job files; default: the current one.",
)


@click.group(cls=SuggestingGroup)
def token() -> None:
    """Create, list and revoke API tokens.

    A token has a role. A viewer reads; an operator also triggers, cancels, pauses and backfills; an editor also edits
    job files where the settings permit it; an admin also manages tokens. Evertick stores only a hash of a token. These
    commands need write access to the folder; a running server applies the change at once.

    \b
    Example:
      evertick token create grafana --role viewer
    """


@token.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True, help="What the token permits.")
@click.option("--expires", metavar="TIME", help="When the token expires; default: never.")
@folder_option
@output_option
def create(name: str, role: str, expires: str | None, folder: Path, output: str) -> None:
    """Create a token and print it.

    The token is printed only once.

    \b
    Examples:
      evertick token create grafana --role viewer
      evertick token create deploy --role operator --expires 2027-01-01 -o name > deploy.token
    """
    from evertick.cli.requests import whoami
    from evertick.operations.time_text import read_moment
    from evertick.operations.tokens import read_role

    until = None if expires is None else read_moment(expires, "UTC", now=times.now(), is_ahead=True)
    made, text = _tokens(folder).create(name, read_role(role), by=whoami(), expires_at=until)
    show(output, made.shown_with(text), lambda: show_text(text), name="token")
    note("Store it now: it cannot be shown again. Next: EVERTICK_TOKEN=... evertick list --server URL")


@token.command("list")
@folder_option
@output_option
def list_(folder: Path, output: str) -> None:
    """List the tokens with their roles; the tokens themselves are not stored.

    \b
    Example:
      evertick token list --folder jobs
    """
    rows = [one.state for one in _tokens(folder).list()]
    columns = (
        Column("Name", "name", "bold cyan"),
        Column("Role", "role", "bold"),
        Column("Created (UTC)", lambda token: times.whole_second_text(token.created_at, "UTC")),
        Column("Created by", "created_by", optional=True),
        Column("Expires (UTC)", _expiry),
        Column("Id", "id", "dim", optional=True),
    )
    show(output, rows, Table(columns, rows), name="name")
    if not rows:
        note("There are no tokens yet. The first server start creates one. Next: evertick serve")


def _expiry(shown: TokenState) -> str:
    return "never" if shown.expires_at is None else times.whole_second_text(shown.expires_at, "UTC")


@token.command()
@click.argument("name", metavar="NAME|ID")
@folder_option
@output_option
def revoke(name: str, folder: Path, output: str) -> None:
    """Revoke a token and end its sessions at once.

    \b
    Example:
      evertick token revoke grafana
    """
    gone = _tokens(folder).revoke(name)
    show(output, gone.state, lambda: show_text(f"Revoked {gone.name}."), name="name")


@token.command("show")
@folder_option
@output_option
def show_(folder: Path, output: str) -> None:
    """Print the folder's first token, an admin's, which local commands use.

    \b
    Example:
      evertick token show --folder jobs
    """
    from evertick.errors import NotFound

    tokens = _tokens(folder)
    text = tokens.first()
    if text is None:
        raise NotFound(
            "this folder has no first token: no server has run here, or the token was revoked. "
            "Next: evertick token create NAME --role admin"
        )
    token = tokens.check(text)
    show(output, {"name": token.name if token else "", "token": text}, lambda: show_text(text), name="token")


def _tokens(folder: Path) -> Tokens:
    from evertick.errors import NotFound
    from evertick.operations.tokens import Tokens

    target = find_target(None, folder)
    state = target.require_state()
    if not state.is_dir():
        raise NotFound(f"no scheduler has run in '{folder}'. Next: evertick serve {folder}, or name another --folder.")
    return Tokens(state)

"""`evertick db`: look after the ledger's database."""

from __future__ import annotations

import time

import click

from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Table, output_option, show, show_text
from evertick.cli.target import Target, ledger_options


@click.group(cls=SuggestingGroup)
def db() -> None:
    """Look after the ledger's database: migrate, check, back up.

    The exit code is 0 when all is well, 2 when the command is wrong, 5 when the ledger is away or damaged.

    \b
    Example:
      evertick db check --store sqlite:///evertick.db
    """


@db.command()
@ledger_options
@output_option
def migrate(place: Target, output: str) -> None:
    """Bring the database to this version's schema, making it where there is none.

    Evertick does so by itself when it starts; this is for those who want to see it done first.

    \b
    Example:
      evertick db migrate --store postgresql://evertick@db.example/evertick
    """
    from evertick.stores.sql import admin

    said = admin.migrate(place.require_url())
    show(output, {"migrated": said}, lambda: show_text(said), name="migrated")


@db.command()
@ledger_options
@output_option
def check(place: Target, output: str) -> None:
    """Check the database: whole, readable, of the right version, backed up.

    \b
    Example:
      evertick db check --store sqlite:///evertick.db -o json
    """
    from evertick.stores.sql import admin

    findings = admin.check(place.require_url())
    rows = [finding._asdict() for finding in findings]
    columns = (
        Column("Check", lambda row: "ok" if row["is_fine"] else "warn", "state"),
        Column("Finding", "text", wrap=True),
    )
    show(output, rows, Table(columns, rows), name="text")


@db.command()
@ledger_options
@output_option
def backup(place: Target, output: str) -> None:
    """Copy a SQLite ledger beside itself, while Evertick may be running.

    Evertick does so by itself once a day. Servers have tools of their own; the message names them.

    \b
    Example:
      evertick db backup --store sqlite:///evertick.db
    """
    from evertick.stores.sql import admin

    copy = str(admin.backup(place.require_url(), time.time_ns() // 1_000))
    show(output, {"file": copy}, lambda: show_text(copy), name="file")

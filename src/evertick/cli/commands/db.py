"""`evertick db`: migrate, check, back up and recount the ledger's database."""

from __future__ import annotations

import time
from collections.abc import Mapping

import click

from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Table, output_option, show, show_text
from evertick.cli.target import Target, ledger_options


@click.group(cls=SuggestingGroup)
def db() -> None:
    """Migrate, check and back up the ledger's database.

    The exit code is 0 on success, 2 when the command line is invalid, 5 when the ledger is unreachable or damaged.

    \b
    Example:
      evertick db check --store sqlite:///evertick.db
    """


@db.command()
@ledger_options
@output_option
def migrate(target: Target, output: str) -> None:
    """Create the database's schema, or migrate it to this version.

    The scheduler does this when it starts. Use the command to migrate in a separate step.

    \b
    Example:
      evertick db migrate --store postgresql://evertick@db.example/evertick
    """
    from evertick.stores.sql import admin

    said = admin.migrate(target.require_url())
    show(output, {"migrated": said}, lambda: show_text(said), name="migrated")


@db.command()
@ledger_options
@output_option
def check(target: Target, output: str) -> None:
    """Check the database: integrity, schema version and backups.

    \b
    Example:
      evertick db check --store sqlite:///evertick.db -o json
    """
    from evertick.stores.sql import admin

    findings = admin.check(target.require_url())
    rows = [finding._asdict() for finding in findings]
    columns = (
        Column("Check", lambda row: "ok" if row["is_fine"] else "warn", "state"),
        Column("Finding", _finding_text, wrap=True),
    )
    show(output, rows, Table(columns, rows), name="text")


@db.command()
@ledger_options
@output_option
def backup(target: Target, output: str) -> None:
    """Back up a SQLite ledger, also while the scheduler is running.

    The copy is written next to the ledger. The scheduler makes one every day. PostgreSQL and MariaDB have their own
    backup tools; the message names them.

    \b
    Example:
      evertick db backup --store sqlite:///evertick.db
    """
    from evertick.stores.sql import admin

    copy = str(admin.backup(target.require_url(), time.time_ns() // 1_000))
    show(output, {"file": copy}, lambda: show_text(copy), name="file")


@db.command()
@ledger_options
@output_option
def recount(target: Target, output: str) -> None:
    """Rebuild the counts by hour from the ledger's entries.

    The overview and the calendar read these counts. They are written together with the entries, so this is needed only
    if `evertick verify` reports wrong counts, for example after entries were edited by hand. On MariaDB and MySQL stop
    the schedulers first; elsewhere the command can run beside them.

    \b
    Example:
      evertick db recount --store sqlite:///evertick.db
    """
    from evertick.stores.sql import admin

    said = admin.recount(target.require_url())
    show(output, {"recounted": said}, lambda: show_text(said), name="recounted")


def _finding_text(row: Mapping[str, str]) -> str:
    return f"{row['text']}. Next: {row['next_step']}" if row["next_step"] else row["text"]

"""`evertick db`: migrate, check, back up, restore, copy and recount the ledger's database."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click

from evertick.cli import times
from evertick.cli.exits import FAILED
from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import Column, Row, Table, counted, is_terminal, note, output_option, show, show_text
from evertick.cli.target import Target
from evertick.cli.target_options import ledger_options


@click.group(cls=SuggestingGroup)
def db() -> None:
    """Migrate, check, back up, restore and copy the ledger's database.

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
    from evertick.stores.sql import ledger_check

    findings = ledger_check.check(target.require_url())
    rows = [finding._asdict() for finding in findings]

    def level(row: Row) -> str:
        return "ok" if row["is_fine"] else "warn"

    columns = (
        Column("Check", level, level),
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
    """Rebuild the hourly counts from the ledger's entries.

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


@db.command()
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The backup to restore; default: the newest.",
)
@ledger_options
@output_option
def restore(source: Path | None, target: Target, output: str) -> None:
    """Replace a SQLite ledger with a backup, while no scheduler is running.

    The backup is checked first. The previous ledger is kept beside the new one. Afterwards the catch-up rule of each
    job decides about everything that was due since the backup.

    \b
    Examples:
      evertick db restore --folder jobs
      evertick db restore --folder jobs --from jobs/.evertick/ledger.db.backups/20260302T030000Z.db
    """
    from evertick.stores.sql import admin

    done = admin.restore(target.require_url(), source, times.now())
    show(
        output,
        {"backup": str(done.backup), "aside": None if done.aside is None else str(done.aside)},
        lambda: show_text(f"Restored {done.backup}."),
        name="backup",
    )
    if done.aside is not None:
        note(f"The previous ledger is {done.aside}.")
    note("Next: evertick verify, then start the scheduler.")


@db.command()
@click.argument("source", metavar="FROM")
@click.argument("destination", metavar="TO")
@output_option
@click.pass_context
def copy(ctx: click.Context, source: str, destination: str, output: str) -> None:
    """Copy a ledger into an empty database, such as SQLite to PostgreSQL.

    FROM and TO are URLs of ledgers. Stop all schedulers on both. The copy is one transaction: it is complete, or
    nothing is written. At the end, the copy is verified.

    \b
    Example:
      evertick db copy sqlite:///jobs/.evertick/ledger.db postgresql://evertick@db.example/evertick
    """
    from evertick.operations.verification import verify_store
    from evertick.stores import open_store
    from evertick.stores.sql import admin

    with _progress() as report:
        rows = admin.copy(source, destination, times.now(), report)
    store = open_store(destination)
    try:
        found = verify_store(store)
    finally:
        store.close()
    data = {"tables": dict(rows), "is_sound": found.is_sound, "occurrences": found.occurrences}
    show(output, data, lambda: show_text(f"Copied {counted(sum(rows.values()), 'row')}."), name="is_sound")
    if not found.is_sound:
        note("The copy is complete, but its verification found problems. Next: evertick verify --store TO")
        ctx.exit(FAILED)
    checked = counted(found.occurrences, "occurrence")
    note(f"Verified {checked}. Next: set 'store' in evertick.toml, then start the scheduler.")


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A progress bar on a terminal."""
    with click.progressbar(
        length=1, label="Copying", file=sys.stderr, hidden=not is_terminal(sys.stderr), show_pos=True
    ) as progress:

        def report(done: int, total: int) -> None:
            progress.length = total
            progress.update(done - progress.pos)

        yield report


def _finding_text(row: Mapping[str, str]) -> str:
    return f"{row['text']}. Next: {row['next_step']}" if row["next_step"] else row["text"]

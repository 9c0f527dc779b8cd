"""Migrates a database to the current schema: numbered steps, forward only, each one repeatable.

The tables are declared once, in `schema.py`, and the first step creates them as they are declared today. To change a
released schema, change `schema.py` and add a step to `STEPS` that brings the released tables to it. A step may find its
work done: in a new database by the first step, or in part by a node that crashed, because MySQL commits after every
table. `SchemaEditor` therefore looks before it changes. The caller holds the store's migration lock.

Nodes are replaced one after another, so the version before works on the schema of the next one for a while, and may be
started there again. It can where a step only adds: what the old statements name stays as it was, and what they do not
name has a default. A step that does more, or after which the ledger holds words that the version before cannot read
(a state, a trigger, a reason), is *breaking*: no older version opens the ledger behind it, and it is not taken while
one runs. Each version of the schema says in the database itself which is the oldest that it serves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import sqlalchemy as sa

from evertick.errors import SchemaTooNew
from evertick.stores.sql import hour_counts
from evertick.stores.sql.schema import (
    BLACKOUTS,
    DIALECTS_BY_END,
    DIALECTS_WITH_PARTIAL,
    JOBS,
    METADATA,
    PARTIAL,
    RUNS,
    VERSIONS,
    runs_by_end,
)

if TYPE_CHECKING:
    from alembic.operations import Operations


DIALECTS_OF_MYSQL: Final = frozenset({"mysql", "mariadb"})


class SchemaEditor:
    """The operations of a migration step: Alembic's, skipped for objects that exist."""

    def __init__(self, connection: sa.Connection) -> None:
        self.dialect: Final = connection.dialect
        self._connection = connection

    @cached_property
    def operations(self) -> Operations:
        # Loaded only to change a table: a new ledger is created without it, in a quarter of the time.
        from alembic.migration import MigrationContext
        from alembic.operations import Operations

        return Operations(MigrationContext.configure(self._connection))

    def add_table(self, table: sa.Table) -> None:
        """Create a table with its indexes, or add the columns and indexes that it lacks."""
        copy = table.to_metadata(sa.MetaData())
        indexes = sorted(copy.indexes, key=lambda index: str(index.name))
        if self.dialect.name in DIALECTS_WITH_PARTIAL:
            for index in indexes:
                if str(index.name) in PARTIAL:
                    index.kwargs[f"{self.dialect.name}_where"] = PARTIAL[str(index.name)]
        if not self._look().has_table(table.name):
            if self.dialect.name in DIALECTS_OF_MYSQL:
                copy.kwargs.update(self._mysql_options())
            copy.create(self._connection)
            return
        for column in table.columns:
            self.add_column(table.name, column)
        for index in indexes:
            index.create(self._connection, checkfirst=True)

    def add_column(self, table: str, column: sa.Column[Any]) -> None:
        """Add a column; one that is there and holds shorter texts is widened."""
        found = {known["name"]: known["type"] for known in self._look().get_columns(table)}
        if column.name not in found:
            self.operations.add_column(table, column._copy())
            return
        lengths = [_length(found[column.name]), _length(column.type.dialect_impl(self.dialect))]
        if 0 < lengths[0] < lengths[1]:
            self.operations.alter_column(
                table,
                column.name,
                type_=column.type,
                existing_nullable=column.nullable,
                existing_server_default=column.server_default,
            )

    def recount(self) -> None:
        """Rebuild the hourly counts from the entries."""
        hour_counts.recount(self._connection)

    def _look(self) -> sa.Inspector:
        return sa.inspect(self._connection)  # a new one each time: an inspector caches what it has seen

    def _mysql_options(self) -> dict[str, str]:
        """Byte-wise comparison without padding; the two servers name that collation differently."""
        is_mariadb = getattr(self.dialect, "is_mariadb", False)
        collation = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
        return {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": collation}


def _length(kind: sa.types.TypeEngine[Any]) -> int:
    """The maximum length of a column; 0: no limit."""
    return (kind.length or 0) if isinstance(kind, sa.String) else 0


class Step(NamedTuple):
    apply: Callable[[SchemaEditor], None]
    is_breaking: bool = False
    """Whether the previous version cannot use the schema after this step."""


def create_ledger(editor: SchemaEditor) -> None:
    """The tables of `schema.py`."""
    # A column that the database computes when it is read. PostgreSQL has none that an index may be on, and an index on
    # the state itself would make each step of each run dearer there; its statistics know which states are rare.
    runs = runs_by_end() if editor.dialect.name in DIALECTS_BY_END else RUNS
    for table in METADATA.sorted_tables:
        editor.add_table(runs if table is RUNS else table)
    # A ledger that is older than the hourly counts has entries that were not counted.
    editor.recount()


def add_deadlines(editor: SchemaEditor) -> None:
    """How far the deadlines of a job are settled, and since when it is late."""
    editor.add_column(JOBS.name, JOBS.c.deadlines_through)
    editor.add_column(JOBS.name, JOBS.c.late_since)


def add_blackouts(editor: SchemaEditor) -> None:
    """The blackouts that were added at run time."""
    editor.add_table(BLACKOUTS)


FIRST: Final = 13
"""The version that the first step makes. Versions 1 to 12 were never released; the first step upgrades them too."""

STEPS: tuple[Step, ...] = (Step(create_ledger, is_breaking=True), Step(add_deadlines), Step(add_blackouts))
"""Step n makes version `FIRST` + n. A step that was released is never edited; another one is added."""


def newest() -> int:
    """The schema version of this Evertick."""
    return FIRST + len(STEPS) - 1


class Schema(NamedTuple):
    """The schema version of a database, and the versions that can use it."""

    version: int = 0
    """0: there are none."""
    made_by: str = ""
    """The Evertick version that applied the last step."""
    serves: int = 0
    """The oldest version of the schema whose statements work on this one."""

    @property
    def is_too_new(self) -> bool:
        return self.version > newest() and self.serves > newest()


def read_schema(connection: sa.Connection) -> Schema:
    """What a database has."""
    look = sa.inspect(connection)
    if not look.has_table(VERSIONS.name):
        return Schema()
    # The first versions of all, which were not released, had no such column.
    has_serves = any(column["name"] == "serves" for column in look.get_columns(VERSIONS.name))
    serves = VERSIONS.c.serves if has_serves else sa.null()
    columns = (VERSIONS.c.version, VERSIONS.c.evertick, serves)
    row = connection.execute(sa.select(*columns).order_by(VERSIONS.c.version.desc()).limit(1)).first()
    # A schema that does not say which versions it serves serves its own only.
    return Schema() if row is None else Schema(row[0], row[1], row[2] or row[0])


def refuse_newer(found: Schema, place: str) -> None:
    """Refuse a database that only newer versions can use: this version may misread its columns."""
    if found.is_too_new:
        from importlib.metadata import version

        raise SchemaTooNew(
            f"{place} has schema version {found.version}, written by Evertick {found.made_by}. Its readers must know "
            f"version {found.serves}; this is Evertick {version('evertick')}, which knows versions up to {newest()}. "
            f"Install Evertick {found.made_by} or newer: pip install 'evertick>={found.made_by}'"
        )


def is_breaking(found: int) -> bool:
    """Whether a step from this version to the newest breaks older versions."""
    return 0 < found < oldest_served()


def oldest_served() -> int:
    """The oldest version whose statements work on the newest: nothing was broken since."""
    return max(number for number, step in enumerate(STEPS, FIRST) if step.is_breaking)


def upgrade(connection: sa.Connection, place: str) -> int:
    """Apply the missing steps; returns how many."""
    found = read_schema(connection)
    refuse_newer(found, place)
    missing = [(number, step) for number, step in enumerate(STEPS, FIRST) if number > found.version]
    if not missing:
        return 0
    from importlib.metadata import version

    editor = SchemaEditor(connection)
    for number, step in missing:
        step.apply(editor)
        taken = {"version": number, "evertick": version("evertick"), "serves": number}
        connection.execute(sa.insert(VERSIONS).values(taken))
    latest = sa.update(VERSIONS).where(VERSIONS.c.version == newest())
    connection.execute(latest.values(serves=oldest_served()))
    return len(missing)

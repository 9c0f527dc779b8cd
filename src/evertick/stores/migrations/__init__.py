"""How a database becomes one that this Evertick can use: numbered steps, forward only, each one re-runnable.

A step may find its own work half done, because MySQL commits after every table: it looks before it makes. Several
nodes may start at once: the caller holds the store's migration lock.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import sqlalchemy as sa

from evertick.errors import SchemaTooNew
from evertick.stores.migrations import (
    step_001_ledger,
    step_002_steps,
    step_003_skip_next,
    step_004_places,
    step_006_ends,
)

if TYPE_CHECKING:
    from evertick.stores.migrations.making import Making

STEPS: Final[tuple[Callable[[Making], None], ...]] = (
    step_001_ledger.apply,
    step_002_steps.apply,
    step_003_skip_next.apply,
    step_004_places.apply,
    step_006_ends.apply,
)
"""Step n makes version n. A step that was released is never edited; another one is added."""

NEWEST: Final = len(STEPS)


def _columns() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("version", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("evertick", sa.String(32), nullable=False),
    )


_VERSIONS: Final = sa.Table("evertick_schema", sa.MetaData(), *_columns())


def read_version(connection: sa.Connection) -> tuple[int, str]:
    """The version a database has, and the Evertick that made it; 0 for an empty one."""
    if not sa.inspect(connection).has_table(_VERSIONS.name):
        return 0, ""
    newest = sa.select(_VERSIONS.c.version, _VERSIONS.c.evertick).order_by(_VERSIONS.c.version.desc()).limit(1)
    row = connection.execute(newest).first()
    return (int(row.version), str(row.evertick)) if row else (0, "")


def refuse_newer(found: int, made_by: str, place: str) -> None:
    """A database that a newer Evertick has changed is not touched: this one may not know what its columns mean."""
    if found > NEWEST:
        raise SchemaTooNew(
            f"{place} has schema version {found}, made by Evertick {made_by}; this is Evertick {version('evertick')}, "
            f"which knows versions up to {NEWEST}. Install Evertick {made_by} or newer: "
            f"pip install 'evertick>={made_by}'"
        )


def upgrade(connection: sa.Connection, place: str) -> int:
    """Take the steps that are missing; answers how many there were."""
    found, made_by = read_version(connection)
    refuse_newer(found, made_by, place)
    if found == NEWEST:
        return 0
    from evertick.stores.migrations.making import Making  # Alembic is loaded only where there is work for it

    making = Making(connection)
    making.table(_VERSIONS.name, *_columns())
    for number in range(found + 1, NEWEST + 1):
        STEPS[number - 1](making)
        connection.execute(sa.insert(_VERSIONS).values(version=number, evertick=version("evertick")))
    return NEWEST - found

"""How a database becomes one that this Evertick can use: numbered steps, forward only, each one re-runnable.

A step may find its own work half done, because MySQL commits after every table: it looks before it makes. Several
nodes may start at once: the caller holds the store's migration lock.

Nodes are replaced one after another, so the version before works on the schema of the next one for a while, and may be
started there again. It can where a step only adds: what the old statements name stays as it was, and what they do not
name need not be said. A step that does more, or after which the ledger holds words that the version before cannot read
(a state, a trigger, a reason), is *breaking*: no older version opens the ledger behind it, and it is not taken while
one runs. Each version of the schema says in the database itself which is the oldest that it serves.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, NamedTuple

import sqlalchemy as sa

from evertick.errors import SchemaTooNew
from evertick.stores.sql.migrations import (
    step_001_ledger,
    step_002_steps,
    step_003_skip_next,
    step_004_places,
    step_005_serves,
    step_006_ends,
    step_007_definitions,
    step_008_triggers,
    step_009_facts,
    step_010_asked,
)

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making


class Step(NamedTuple):
    apply: Callable[[Making], None]
    is_breaking: bool = False
    """Whether the version before cannot go on behind it."""


STEPS: Final[tuple[Step, ...]] = (
    Step(step_001_ledger.apply, is_breaking=True),
    Step(step_002_steps.apply),
    Step(step_003_skip_next.apply),
    Step(step_004_places.apply),
    Step(step_005_serves.apply),
    Step(step_006_ends.apply),
    Step(step_007_definitions.apply),
    Step(step_008_triggers.apply),
    Step(step_009_facts.apply),
    Step(step_010_asked.apply),
)
"""Step n makes version n. A step that was released is never edited; another one is added."""

NEWEST: Final = len(STEPS)


class Schema(NamedTuple):
    """What a database says of its tables."""

    version: int = 0
    """0: there are none."""
    made_by: str = ""
    """The Evertick that took the last step."""
    serves: int = 0
    """The oldest version of the schema whose statements work on this one."""

    @property
    def is_too_new(self) -> bool:
        return self.version > NEWEST and self.serves > NEWEST


_VERSIONS: Final = sa.table("evertick_schema", sa.column("version"), sa.column("evertick"), sa.column("serves"))


def read_schema(connection: sa.Connection) -> Schema:
    """What a database has."""
    look = sa.inspect(connection)
    if not look.has_table(_VERSIONS.name):
        return Schema()
    has_serves = any(column["name"] == "serves" for column in look.get_columns(_VERSIONS.name))
    columns = [_VERSIONS.c.version, _VERSIONS.c.evertick, *([_VERSIONS.c.serves] if has_serves else [])]
    row = connection.execute(sa.select(*columns).order_by(_VERSIONS.c.version.desc()).limit(1)).first()
    if row is None:
        return Schema()
    # What does not say whom it serves serves its own version only.
    return Schema(int(row[0]), str(row[1]), int((row[2] if has_serves else None) or row[0]))


def refuse_newer(found: Schema, place: str) -> None:
    """A database that serves newer versions only is not touched: this one may not know what its columns mean."""
    if found.is_too_new:
        raise SchemaTooNew(
            f"{place} has schema version {found.version}, made by Evertick {found.made_by}, which serves versions from "
            f"{found.serves} on; this is Evertick {version('evertick')}, which knows versions up to {NEWEST}. "
            f"Install Evertick {found.made_by} or newer: pip install 'evertick>={found.made_by}'"
        )


def is_breaking(found: int) -> bool:
    """Whether the way from this version to the newest is one that older versions cannot go on behind."""
    return 0 < found < oldest_served(NEWEST)


def oldest_served(number: int) -> int:
    """The oldest version whose statements work on this one: nothing was broken since."""
    return max((at for at, step in enumerate(STEPS[:number], 1) if step.is_breaking), default=number)


def make_versions(making: Making) -> None:
    """Where the steps that were taken are noted, as it is before the first of them."""
    making.table(
        _VERSIONS.name,
        sa.Column("version", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("evertick", sa.String(32), nullable=False),
    )


def upgrade(connection: sa.Connection, place: str) -> int:
    """Take the steps that are missing; answers how many there were."""
    found = read_schema(connection)
    refuse_newer(found, place)
    if found.version >= NEWEST:
        return 0
    from evertick.stores.sql.migrations.making import Making  # Alembic is loaded only where there is work for it

    making = Making(connection)
    make_versions(making)
    for number in range(found.version + 1, NEWEST + 1):
        STEPS[number - 1].apply(making)
        connection.execute(sa.insert(_VERSIONS).values(version=number, evertick=version("evertick")))
    newest = sa.update(_VERSIONS).where(_VERSIONS.c.version == NEWEST)
    connection.execute(newest.values(serves=oldest_served(NEWEST)))
    return NEWEST - found.version

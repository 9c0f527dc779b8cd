"""Step 7: what each job was when a run of it was launched, and what became of a run's earlier attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making

_KEY = sa.String(255).with_variant(sa.Text(collation="C"), "postgresql").with_variant(sa.Text(), "sqlite")
_WORD = sa.String(32).with_variant(sa.Text(), "postgresql").with_variant(sa.Text(), "sqlite")
_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
_INSTANT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def apply(making: Making) -> None:
    making.table(
        "evertick_definitions",
        sa.Column("job_id", _KEY, primary_key=True),
        sa.Column("digest", _WORD, primary_key=True),
        sa.Column("since", _INSTANT, nullable=False),
        sa.Column("text", _TEXT, nullable=False),
        sqlite_with_rowid=False,
    )
    # Without a default: then no database has to touch the lines that are there, however many.
    making.column("evertick_jobs", sa.Column("definition", _WORD, nullable=True))
    making.column("evertick_runs", sa.Column("definition", _WORD, nullable=True))
    making.column("evertick_runs", sa.Column("earlier", _TEXT, nullable=True))

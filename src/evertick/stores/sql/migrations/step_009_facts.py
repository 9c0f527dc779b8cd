"""Step 9: what a run rests on, as fields: its parents, what it waited for, and what was in its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making

_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def apply(making: Making) -> None:
    # Without a default: then no database has to touch the lines that are there, however many.
    making.column("evertick_runs", sa.Column("facts", _TEXT, nullable=True))

"""Step 3: how many of a job's coming occurrences a broken constraint has taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making


def apply(making: Making) -> None:
    column = sa.Column("skip_next", sa.SmallInteger(), nullable=False, server_default=sa.text("0"))
    making.column("evertick_jobs", column)

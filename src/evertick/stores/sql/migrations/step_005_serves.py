"""Step 5: which older versions may go on with a schema, so that nodes of two versions can share a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making


def apply(making: Making) -> None:
    making.column("evertick_schema", sa.Column("serves", sa.Integer(), nullable=True))

"""Step 10: when the newest pause or resume of a job was submitted, so that an older one is not carried out after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making


_INSTANT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def apply(making: Making) -> None:
    making.column("evertick_jobs", sa.Column("asked_at", _INSTANT, nullable=True))

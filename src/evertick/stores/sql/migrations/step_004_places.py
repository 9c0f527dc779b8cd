"""Step 4: room for the places of a broadcast, which names every member of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making

_PLACES = 4_000


def apply(making: Making) -> None:
    making.wider("evertick_runs", "executor", sa.String(_PLACES))

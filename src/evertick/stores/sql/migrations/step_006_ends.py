"""Step 6: a way to the few runs that did not end well, among the many that did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making

_WORD = sa.String(32).with_variant(sa.Text(), "sqlite")


def apply(making: Making) -> None:
    # A column that the database works out itself: code from before this step writes lines that are found here too,
    # and no line has to be touched. PostgreSQL would have to write the whole table anew, and an index on the state
    # itself would make each step of each run dearer there; its statistics know which states are rare.
    if making.has_virtual_columns:
        making.column("evertick_runs", sa.Column("ended_as", _WORD, sa.Computed(_ENDED_AS, persisted=False)))
        columns = ["ended_as", "scheduled_for", "job_id", "origin"]
        making.index("evertick_runs_by_end", "evertick_runs", columns, where="ended_as IS NOT NULL")


_ENDED_AS = "CASE WHEN is_open = 0 AND state <> 'succeeded' THEN state END"

"""Step 8: a way to the runs that the schedule alone did not bring about: caught up, asked for, retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making


def apply(making: Making) -> None:
    # Partial where the database can: then the many runs of the schedule cost nothing here.
    columns = ["trigger_kind", "scheduled_for", "job_id", "origin"]
    making.index("evertick_runs_by_trigger", "evertick_runs", columns, where="trigger_kind <> 'scheduler'")

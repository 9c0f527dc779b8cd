"""Is each deadline that passed without a success reported, and once?"""

from __future__ import annotations

from collections.abc import Mapping

from evertick.model.blackout import blackout_at
from evertick.model.instant import Instant, to_text
from evertick.model.job import Job
from evertick.model.ledger import JobRecord
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.planning.deadlines import EXCUSED, passed_deadlines
from evertick.planning.schedules import compile_all
from evertick.testing.invariants import Violation


class DeadlineReports:
    """What was reported in a world, and what should have been."""

    def __init__(self, rows: Mapping[RunKey, LedgerRow]) -> None:
        self._rows = rows
        self._reported: dict[tuple[str, str], str] = {}
        """By job and occurrence, the node that did."""

    def reported(self, node: str, job_id: str, scheduled_for: str) -> None:
        other = self._reported.get((job_id, scheduled_for))
        if other is not None:
            raise Violation(f"{node} reports the missed deadline of {job_id} for {scheduled_for} after {other} did")
        self._reported[job_id, scheduled_for] = node

    def unsettled(self, job: Job, record: JobRecord | None, until: Instant) -> str | None:
        """A deadline that has passed and is neither met, excused nor reported."""
        expected = job.policy.expectation
        is_held = record is None or record.paused_at is not None or not job.enabled or record.error
        if expected is None or record is None or is_held:
            return None
        rows = (row for row in self._rows.values() if row.key.job_id == job.id)
        own = [row for row in rows if row.trigger is not Trigger.ITEM]
        successes = (row.key.scheduled_for for row in own if row.state is SUCCEEDED)
        settled = max((record.deadlines_through, *successes))
        excused = {row.key.scheduled_for for row in own if row.reason in EXCUSED and not row.key.origin}
        for passed in passed_deadlines(compile_all(job.schedules), expected, settled, until):
            if passed.scheduled_for not in excused and blackout_at(job.blackouts, passed.scheduled_for) is None:
                return f"the deadline of {job.id} for {to_text(passed.scheduled_for)} is not settled"
        return None

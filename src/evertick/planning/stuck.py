"""Which open entries of the ledger are overdue, wait for nothing that can be named, and do not move?

It judges by the ledger and the definitions alone, so it answers for every node; what it cannot know, such as which
members of a fleet are free, counts as something to wait for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from evertick.model.facts import read_facts
from evertick.model.instant import MINUTE, Instant
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, bucket_of
from evertick.model.lifecycle import ACTIVE, LAUNCHING, PLANNED, RETRYING, RUNNING
from evertick.model.run import LedgerRow, RunKey

STUCK_US: Final = 10 * MINUTE
"""An entry that has not moved for this long, while its bucket was planned, is stuck."""


def stuck_entries(
    open_runs: Iterable[LedgerRow],
    jobs: Iterable[JobRecord],
    floors: Mapping[int, Instant],
    definitions: Mapping[str, Job],
    now: Instant,
) -> tuple[RunKey, ...]:
    """Keys of the stuck entries, oldest first."""
    records = {record.job_id: record for record in jobs}
    rows_of: defaultdict[str, list[LedgerRow]] = defaultdict(list)
    for row in open_runs:
        rows_of[row.key.job_id].append(row)
    return tuple(
        sorted(
            (
                row.key
                for job_id, rows in rows_of.items()
                for row in rows
                if is_stuck(row, rows, records.get(job_id), floors, definitions.get(job_id), now)
            ),
            key=lambda key: (key.scheduled_for, key),
        )
    )


def is_stuck(
    row: LedgerRow,
    rows: Iterable[LedgerRow],
    record: JobRecord | None,
    floors: Mapping[int, Instant],
    job: Job | None,
    now: Instant,
) -> bool:
    """Whether an open entry is; `rows` are all open ones of its job."""
    # Without a running scheduler the floor does not move, and everything waits for one.
    worked_until = min(now, floors.get(bucket_of(row.key.job_id), 0))
    if record is None or record.held or _moves_at(row) > worked_until - STUCK_US:
        return False
    if row.state is PLANNED:
        return True
    if row.state is LAUNCHING:
        return row.executor.startswith("local")
    if row.state is RUNNING or job is None or job.queue or job.routing.is_remote:
        return False
    if job.after is not None and not row.key.origin:
        return False
    busy = (LAUNCHING, RUNNING) if row.state is RETRYING else ACTIVE
    return not any(other.state in busy for other in rows if other.key != row.key)


def _moves_at(row: LedgerRow) -> Instant:
    """When it should have moved, or did so last."""
    due = row.decided_at if row.key.origin else read_facts(row.facts).starts_at or row.key.scheduled_for
    return max(due, row.changed_at, row.retry_at or 0)

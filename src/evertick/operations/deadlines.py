"""What people are shown of a job's deadlines: its light, and whether an occurrence met its own."""

from __future__ import annotations

from evertick.model.duration import duration_text
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import JobRecord
from evertick.model.lifecycle import SUCCEEDED, Light
from evertick.model.run import LedgerRow
from evertick.operations.figures import BAD
from evertick.operations.jobs import is_held
from evertick.operations.rules import origin_of
from evertick.operations.time_text import time_text
from evertick.planning.deadlines import EXCUSED, deadline_of, light_of
from evertick.planning.schedules import compile_all
from evertick.store import RunFilter, Store


def light(job: Job | None, record: JobRecord | None, last: LedgerRow | None, *, is_under_way: bool) -> Light | None:
    """The light of a job; None: it is held, or nothing of it has ended yet."""
    is_late = record is not None and record.late_since is not None
    if (last is None and not is_late) or is_held(job, record):
        return None
    has_failed = last is not None and last.state in BAD
    return light_of(has_failed=has_failed, is_late=is_late, is_under_way=is_under_way)


def deadline_sentences(
    store: Store, job: Job | None, at: Instant, row: LedgerRow | None, zone: str, now: Instant
) -> list[str]:
    """Whether an occurrence met its deadline, or by when it must; nothing for one that has none."""
    expected = job.policy.expectation if job is not None else None
    if job is None or expected is None or (row is not None and (row.key.origin or row.reason in EXCUSED)):
        return []
    deadline = deadline_of(compile_all(job.schedules), expected, at)
    if deadline is None:
        return []
    field = "expect_by" if expected.by else "expect_within"
    by, origin = time_text(deadline, zone, at), origin_of(job, field)
    first = _first_success(store, job.id, at)
    finished_at = first.finished_at if first is not None else None
    if first is None or finished_at is None:
        if now <= deadline:
            return [f"it must succeed by {by}, in {duration_text(deadline - now)} ({origin})"]
        return [f"past its deadline: it has not succeeded by {by} ({origin})"]
    own = "" if first.key == (job.id, at, "") else f", by {first.key.run_id}"
    if finished_at <= deadline:
        return [f"in time: the deadline was {by} ({origin}){own}"]
    late = duration_text(finished_at - deadline)
    return [f"past its deadline: it succeeded {late} after {by} ({origin}){own}"]


def _first_success(store: Store, job_id: str, since: Instant) -> LedgerRow | None:
    """Of the runs for that time or later, the first in that order; a later one counts for it too."""
    where = RunFilter(job_ids=[job_id], states=[SUCCEEDED], since=since, oldest_first=True)
    return next(iter(store.query(where, limit=1).rows), None)

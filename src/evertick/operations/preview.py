"""What would happen: the catch-up that a start now would make, and what fires until a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from evertick.model.blackout import Blackout, blackout_at
from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, bucket_of
from evertick.model.lifecycle import PLANNED, WAITING, SkipReason
from evertick.model.policy import Missed
from evertick.model.run import Change, Entry, RunKey
from evertick.operations.jobs import watermark_of
from evertick.planning.planner import JobView, Plan, plan
from evertick.store import Store


class PreviewedOutcome(NamedTuple):
    """What would become of an occurrence, or of a stretch of them."""

    at: Instant
    runs: bool
    detail: str
    reason: SkipReason | None = None
    through: Instant | None = None
    occurrences: int = 1


@dataclass(frozen=True, slots=True)
class CatchupPreview:
    watermark: Instant | None
    """None: the ledger does not know the job, and its first start catches nothing up."""
    fates: tuple[PreviewedOutcome, ...] = ()
    backlog: tuple[RunKey, ...] = ()
    """Runs that wait already; they come first."""
    paused_at: Instant | None = None
    """While it is paused a start changes nothing: this is what `resume` would do."""
    blackout: Blackout | None = None
    """During a blackout neither does: this is what its end will do, unless it ends earlier."""

    @property
    def kept(self) -> int:
        return sum(fate.runs for fate in self.fates)

    @property
    def skipped(self) -> int:
        return sum(fate.occurrences for fate in self.fates if not fate.runs)


def preview_catchup(store: Store, job: Job, now: Instant, keep: Missed | None = None) -> CatchupPreview:
    """Plan the job as a scheduler that starts now would, or as the end of its blackout will, and write nothing."""
    bucket = bucket_of(job.id)
    snapshot = store.load([bucket])
    record = next((record for record in snapshot.jobs if record.job_id == job.id), None)
    watermark = watermark_of(record, snapshot.floors)
    if record is None or watermark is None:
        return CatchupPreview(None)
    rows = [row for row in snapshot.open_runs if row.key.job_id == job.id]
    waiting = tuple(row.key for row in rows if row.state is WAITING)
    planned = tuple(row.key.scheduled_for for row in rows if row.state is PLANNED and not row.key.origin)
    view = JobView(job, watermark, planned, waiting, _idle_reason(record, job), keep)
    inside = blackout_at(job.blackouts, now)
    fates = _fates(plan(view, now if inside is None else inside.end, 0))
    return CatchupPreview(watermark, fates, waiting, record.paused_at, inside)


def _idle_reason(record: JobRecord, job: Job) -> SkipReason:
    if record.paused_at is not None:
        return SkipReason.PAUSED
    return SkipReason.DISABLED if record.held and not job.enabled else SkipReason.MISSED


def _fates(result: Plan) -> tuple[PreviewedOutcome, ...]:
    told: tuple[Entry | Change, ...] = (*result.entries, *result.changes)
    found = [
        PreviewedOutcome(
            one.key.scheduled_for,
            one.state is PLANNED,
            (one.detail or "") if one.detail or one.state is not PLANNED else "on time",
            one.reason,
            one.through if isinstance(one, Entry) else None,
            one.occurrences if isinstance(one, Entry) else 1,
        )
        for one in told
    ]
    return tuple(sorted(found, key=lambda fate: fate.at))


def in_blackout(job: Job, at: Instant) -> tuple[SkipReason | None, str]:
    """Why an occurrence does not run at its time, where that is in a blackout."""
    inside = blackout_at(job.blackouts, at)
    if inside is None:
        return None, ""
    return SkipReason.PAUSED, f"in {inside}; at its end the job's catch-up rule decides"


def why_held(job: Job | None, record: JobRecord | None) -> tuple[SkipReason | None, str]:
    """Why an occurrence of the job would not run as things are now."""
    if record is not None and record.paused_at is not None:
        catches_up = job is not None and job.policy.missed is not Missed.NONE
        later = (
            "decided by the job's catch-up rule on resume" if catches_up else "skipped, unless the resume catches it up"
        )
        return SkipReason.PAUSED, later
    if job is not None and not job.enabled:
        return SkipReason.DISABLED, "skipped while the job is disabled"
    return None, ""

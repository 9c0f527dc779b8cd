"""The status of jobs that the ledger, a folder of definitions, or both know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import JobRecord, ScheduleLine, bucket_of
from evertick.model.lifecycle import ACTIVE, SUCCEEDED, JobStatus
from evertick.model.run import LedgerRow
from evertick.model.schedule import AtSpec, ScheduleSpec, shared_zone, specs_from_text
from evertick.planning.jitter import starts_at
from evertick.store import Store


def specs_of(store: Store, job_id: str, jobs: Mapping[str, Job]) -> tuple[ScheduleSpec, ...]:
    """The schedules of a job now: as its definition says, else as the ledger last knew them."""
    if job_id in jobs:
        return jobs[job_id].schedules
    return current_specs(store.schedules([job_id])).get(job_id, ())


def zone_of(job: Job | None, specs: Sequence[ScheduleSpec]) -> str:
    """The zone in which a job's times are shown: the one that its schedules share."""
    return shared_zone(specs) or (job.timezone if job is not None else "UTC")


def name_of(job_id: str, job: Job | None) -> str:
    """The name of a job; its id if it has no name of its own, or only the ledger knows it."""
    return (job.name if job is not None else "") or job_id


def delayed_start(job: Job | None, scheduled_for: Instant | None) -> Instant | None:
    """When the run of an occurrence starts, by the job's jitter; None: at its time, or there is no occurrence."""
    if job is None or scheduled_for is None or not job.policy.jitter_us:
        return None
    return starts_at(job, scheduled_for)


def watermark_of(record: JobRecord | None, floors: Mapping[int, Instant]) -> Instant | None:
    if record is None:
        return None
    return record.watermark if record.held else max(record.watermark, floors.get(bucket_of(record.job_id), 0))


def current_specs(lines: Sequence[ScheduleLine]) -> dict[str, tuple[ScheduleSpec, ...]]:
    newest = {line.job_id: line for line in sorted(lines, key=lambda line: line.since)}
    return {job_id: specs_from_text(line.specs) if line.specs else () for job_id, line in newest.items()}


def newest_of(found: Mapping[str, Sequence[LedgerRow]], job_id: str) -> LedgerRow | None:
    return next(iter(found.get(job_id, ())), None)


def judge(
    job: Job | None,
    record: JobRecord | None,
    specs: Sequence[ScheduleSpec],
    *,
    has_running: bool,
    now: Instant,
) -> JobStatus:
    """The status of a job, without computing when it is due next."""
    # For ten thousand jobs at once: no call and no generator for jobs without anything special.
    if has_running:
        return JobStatus.RUNNING
    held = _held(job, record)
    if held is not None:
        return held
    if record is not None and record.has_failed:
        return JobStatus.ERROR
    for spec in specs:
        if not isinstance(spec, AtSpec) or spec.instant > now:
            return JobStatus.IDLE
    return JobStatus.FINISHED if specs else JobStatus.IDLE


def is_running(row: LedgerRow) -> bool:
    """Whether a run is active: one that no executor has started yet is not, however long it has been launching."""
    return row.state in ACTIVE and row.started_at is not None


def is_held(job: Job | None, record: JobRecord | None) -> bool:
    """Whether a job is not planned."""
    return _held(job, record) is not None


def last_success_of(record: JobRecord | None, last: LedgerRow | None) -> Instant | None:
    """The due time of the newest successful run; a job's own row has it as of the last failure."""
    if last is not None and last.state is SUCCEEDED:
        return last.key.scheduled_for
    return record.last_success_at if record is not None else None


def _held(job: Job | None, record: JobRecord | None) -> JobStatus | None:
    """Why a job is not planned; None: it is, or would be with a scheduler."""
    if record is not None and record.paused_at is not None:
        return JobStatus.PAUSED
    if job is not None and not job.enabled:
        return JobStatus.DISABLED
    if record is None:
        return None
    if record.error:
        return JobStatus.ERROR
    if record.held and job is not None and job.blackouts:
        return JobStatus.PAUSED  # by a blackout
    # Without its definition the ledger still says that it is held, and only this reason remains.
    is_disabled = record.retired_at is not None or (record.held and job is None)
    return JobStatus.DISABLED if is_disabled else None

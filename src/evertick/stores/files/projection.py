"""What people and other programs may read about the ledger: the watermark file, and a state file beside each pipeline.

Both are written from the ledger and never read back, except once: when there is no ledger yet, what a predecessor
left in them is taken over.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from evertick.model.instant import MILLISECOND, Instant, from_text, to_datetime, to_text
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import ACTIVE, CANCELLED, SUCCEEDED, JobStatus, RunState
from evertick.model.plain_json import Json, JsonObject, parse_json
from evertick.model.run import LedgerRow
from evertick.model.steps import read_steps
from evertick.store import JobRecord
from evertick.stores.disk import read_if_there

HISTORY = 50
PIPELINE, STATE_FILE = "pipeline.yaml", ".schedule-state.json"
VERSION = 1


class Ended(NamedTuple):
    """An ended run, as the history of the state file shows it."""

    started_at: Instant
    finished_at: Instant
    state: RunState
    attempt: int = 1
    detail: str = ""
    result_file: str | None = None
    items: int | None = None
    """Of a pipeline: where its result is, and how many items there were."""

    @property
    def is_success(self) -> bool:
        return self.state is SUCCEEDED


@dataclass(slots=True)
class Tally:
    """The counts of a job's state file; they include runs that the ledger no longer has."""

    total: int = 0
    succeeded: int = 0
    failed: int = 0
    last_failure_at: Instant | None = None
    duration_us: int = 0
    """Of all runs together."""
    recent: list[Ended] = field(default_factory=list)
    """The last runs, newest first."""
    schedule_id: str = ""

    def count(self, row: LedgerRow) -> None:
        finished_at = row.changed_at if row.finished_at is None else row.finished_at
        started_at = finished_at if row.started_at is None else row.started_at
        ended = Ended(started_at, finished_at, row.state, max(row.attempt, 1), row.detail, *_result_of(row))
        self.recent = [ended, *self.recent[: HISTORY - 1]]
        self.total += 1
        self.duration_us += max(0, finished_at - started_at)
        if ended.is_success:
            self.succeeded += 1
        elif row.state is not CANCELLED:
            self.failed += 1
            self.last_failure_at = finished_at

    def to_json(self) -> list[Json]:
        counted = [self.total, self.succeeded, self.failed, self.last_failure_at, self.duration_us]
        return [*counted, self.recent, self.schedule_id]

    @classmethod
    def from_json(cls, values: list[Any]) -> Tally:
        total, succeeded, failed, last_failure_at, duration_us, recent, schedule_id = values
        runs = [Ended(start, end, RunState(state), *rest) for start, end, state, *rest in recent]
        return cls(total, succeeded, failed, last_failure_at, duration_us, runs, schedule_id)


# The watermark file


def watermark_of(job: JobRecord, floors: Mapping[int, Instant]) -> Instant:
    """The instant up to which a job's occurrences are decided."""
    return job.watermark if job.held else max(job.watermark, floors.get(bucket_of(job.job_id), job.watermark))


def watermark_file(jobs: Iterable[JobRecord], floors: Mapping[int, Instant], last_tick: Instant) -> bytes:
    known = {job.job_id: watermark_of(job, floors) for job in jobs if job.retired_at is None}
    dags = {name: {"lastScheduledTime": to_text(known[name])} for name in sorted(known)}
    tick = {"lastTick": to_text(last_tick)} if last_tick else {}  # no call has told the time yet
    return _document({"version": VERSION, **tick, "dags": dags})


def read_watermarks(content: bytes) -> list[JobRecord]:
    """The watermarks in a file that another program or a person wrote; ValueError if it cannot be read."""
    document = json.loads(content)
    try:
        if document.get("version", VERSION) != VERSION:
            raise ValueError(f"version {document['version']!r} is not {VERSION}")
        return [
            JobRecord(name, from_text(known["lastScheduledTime"]))
            for name, known in (document.get("dags") or {}).items()
            if known.get("lastScheduledTime")
        ]
    except (AttributeError, TypeError) as error:
        raise ValueError("it does not have the form of a watermark file") from error


# The state file of a pipeline


def pipeline_of(folder: Path, job_id: str) -> Path | None:
    """The folder of a job that is a pipeline of this layout."""
    if not job_id or job_id in {".", ".."} or "/" in job_id or "\0" in job_id:
        return None  # a name must not lead out of the folder
    place = folder / job_id
    return place if (place / PIPELINE).is_file() else None


def state_file(
    job_id: str, job: JobRecord | None, open_runs: Iterable[LedgerRow], tally: Tally, next_run: Instant | None
) -> bytes:
    open_runs = list(open_runs)
    waiting = min((row.key.scheduled_for for row in open_runs if row.state not in ACTIVE), default=None)
    instants = [instant for instant in (next_run, waiting) if instant is not None]
    status = status_of(job, open_runs, tally)
    return _document(
        {
            "version": VERSION,
            "scheduleId": tally.schedule_id or schedule_id(job_id),
            "pipelineId": job_id,
            "status": status,
            "enabled": status is not JobStatus.DISABLED,
            "lastRun": _last(tally.recent[0]) if tally.recent else None,
            "nextRun": _millis(min(instants)) if instants else None,
            "stats": {
                "totalRuns": tally.total,
                "successfulRuns": tally.succeeded,
                "failedRuns": tally.failed,
                "lastFailure": None if tally.last_failure_at is None else _millis(tally.last_failure_at),
                "averageDuration": tally.duration_us // MILLISECOND // tally.total if tally.total else 0,
            },
            "history": [_in_history(run) for run in tally.recent],
        }
    )


def status_of(job: JobRecord | None, open_runs: Iterable[LedgerRow], tally: Tally) -> JobStatus:
    if any(row.state in ACTIVE for row in open_runs):
        return JobStatus.RUNNING
    if job is not None:
        if job.error:
            return JobStatus.ERROR
        if job.paused_at is not None:
            return JobStatus.PAUSED
        if job.held or job.retired_at is not None:
            return JobStatus.DISABLED
    if tally.recent and tally.recent[0].state not in {SUCCEEDED, CANCELLED}:
        return JobStatus.ERROR
    return JobStatus.IDLE


def schedule_id(job_id: str) -> str:
    return f"{job_id}-{hashlib.sha256(job_id.encode()).hexdigest()[:6]}"


def read_tally(place: Path) -> Tally:
    """The counts of a predecessor for a pipeline; empty if there are none or they cannot be read."""
    content = read_if_there(place / STATE_FILE)
    try:
        document = json.loads(content or b"{}")
        stats = document.get("stats", {})
        total = stats.get("totalRuns", 0)
        return Tally(
            total,
            stats.get("successfulRuns", 0),
            stats.get("failedRuns", 0),
            from_text(stats["lastFailure"]) if stats.get("lastFailure") else None,
            round(stats.get("averageDuration", 0) * total * MILLISECOND),
            [_from_history(run) for run in document.get("history", ()) if run.get("completedAt")][:HISTORY],
            document.get("scheduleId", ""),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return Tally()


def _told(run: Ended) -> JsonObject:
    return {
        "startedAt": _millis(run.started_at),
        "completedAt": _millis(run.finished_at),
        "success": run.is_success,
    }


def _last(run: Ended) -> JsonObject:
    file = {"resultFile": run.result_file} if run.result_file is not None else {}
    items = {"itemsProcessed": run.items} if run.items is not None else {}
    return {**_told(run), **file, **items, "error": _error(run)}


def _result_of(row: LedgerRow) -> tuple[str | None, int | None]:
    """The output of the last step of a pipeline."""
    for step in read_steps(row.steps):
        try:
            told = parse_json(step.output or "")
        except ValueError:
            continue
        if isinstance(told, dict) and isinstance(told.get("itemsProcessed"), int):
            file = told.get("resultFile")
            return file if isinstance(file, str) else None, told["itemsProcessed"]
    return None, None


def _in_history(run: Ended) -> JsonObject:
    told = {**_told(run), "duration": max(0, run.finished_at - run.started_at) // MILLISECOND}
    error = _error(run)
    retried = {"retryAttempt": run.attempt - 1} if run.attempt > 1 else {}
    return {**told, **({"error": error} if error else {}), **retried}


def _from_history(run: dict[str, Any]) -> Ended:
    state = SUCCEEDED if run["success"] else RunState.FAILED
    attempt = run.get("retryAttempt", 0) + 1
    return Ended(from_text(run["startedAt"]), from_text(run["completedAt"]), state, attempt, run.get("error") or "")


def _error(run: Ended) -> str | None:
    return None if run.is_success else run.detail or str(run.state)


def _millis(instant: Instant) -> str:
    """2026-03-02T09:00:00.000Z: always three digits, as programs in JavaScript write it."""
    return to_datetime(instant).strftime("%Y-%m-%dT%H:%M:%S.") + f"{instant // MILLISECOND % 1_000:03d}Z"


def _document(document: JsonObject) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")

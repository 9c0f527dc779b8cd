"""Results of one action on many jobs or runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from evertick.model.lifecycle import RunState
from evertick.operations.results.base import Result


class BulkAction(StrEnum):
    RUN = "run"
    PAUSE = "pause"
    RESUME = "resume"
    BACKFILL = "backfill"
    """Run the occurrences of a period that have not succeeded."""
    RETRY = "retry"
    """Retry runs, or the failed runs of jobs in a period."""
    RETRY_FAILED = "retry-failed"
    """The same, without the steps that succeeded."""
    CANCEL = "cancel"
    """Cancel runs, or the waiting runs of jobs in a period."""


class BulkObstacle(StrEnum):
    """Why an action does not apply to a job or a run."""

    UNKNOWN = "unknown"
    DELETED = "deleted"
    PAUSED_ALREADY = "paused-already"
    NOT_PAUSED = "not-paused"
    NOT_ENDED = "not-ended"
    NO_FAILED_STEP = "no-failed-step"
    ENDED = "ended"
    IS_GAP = "is-gap"
    """Occurrences that were skipped together; backfill them instead."""
    NOTHING_TO_RUN = "nothing-to-run"
    REFUSED = "refused"
    """The request was refused; `detail` says why."""


@dataclass(frozen=True, slots=True)
class BulkItem(Result):
    job: str
    job_name: str
    run: str | None
    scheduled_for: datetime | None
    state: RunState | None
    count: int
    """Runs that the action concerns: starts, retries or cancels."""
    active: int
    """Runs of the job that are active now; 0 where the action is on one run."""
    obstacle: BulkObstacle | None
    """null: the action applies."""
    detail: str
    request: str | None
    """The id of the durable request; null in a preview, or where there is an obstacle."""


@dataclass(frozen=True, slots=True)
class Bulk(Result):
    action: BulkAction
    is_preview: bool
    chosen: int
    """Jobs or runs that the action applies to."""
    runs: int
    """Runs that it concerns together."""
    items: tuple[BulkItem, ...]
    is_scheduler_running: bool

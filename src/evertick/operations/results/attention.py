"""Results about what an operator should look at now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from evertick.model.lifecycle import RunState, SkipReason
from evertick.model.member import Closed
from evertick.operations.results.base import Result
from evertick.operations.results.runs import Wait


class AttentionKind(StrEnum):
    """What is wrong, worst first."""

    NO_SCHEDULER = "no-scheduler"
    LAGGING = "lagging"
    """The scheduler plans later than it should."""
    LEDGER_DAMAGED = "ledger-damaged"
    CLOCK = "clock"
    """The clock of the scheduler's machine was changed."""
    FAILING = "failing"
    """The newest run of a job failed."""
    PAST_DEADLINE = "past-deadline"
    """A deadline of a job has passed, and the job has not succeeded since."""
    STUCK = "stuck"
    """A run that is due waits or does not start."""
    SKIPPING = "skipping"
    """A job was skipped several times in a row."""
    NODE_AWAY = "node-away"
    MEMBER_AWAY = "member-away"
    MEMBER_CLOSED = "member-closed"
    """A member of the fleet accepts no runs."""
    INVALID_FILE = "invalid-file"


class AttentionAction(StrEnum):
    """What most likely helps."""

    RETRY = "retry"
    RETRY_FAILED = "retry-failed"
    """Retry from the failed step."""
    RUN = "run"
    BACKFILL = "backfill"
    UNDRAIN = "undrain"
    SHOW_RUN = "show-run"
    """Look at `other_run`, or at `run`."""
    SHOW_JOB = "show-job"
    SHOW_EXECUTORS = "show-executors"
    SHOW_SKIPPED = "show-skipped"
    """Look at what was skipped since then."""


@dataclass(frozen=True, slots=True)
class AttentionItem(Result):
    """One thing that is wrong. Fields that do not apply are null."""

    kind: AttentionKind
    action: AttentionAction | None
    since: datetime | None
    count: int
    """Failures or skips in a row, runs that wait, errors of a file; otherwise 1."""
    text: str
    """The line of the log that names the error, or the reason as it was recorded; may be empty."""
    job: str | None = None
    job_name: str | None = None
    timezone: str | None = None
    run: str | None = None
    """The newest run that failed, or the oldest that waits."""
    other_run: str | None = None
    """The run that is in the way."""
    state: RunState | None = None
    active: int = 0
    """Runs of the job that are in progress now, such as a retry."""
    reason: SkipReason | None = None
    wait: Wait | None = None
    executor: str | None = None
    member: str | None = None
    closed: Closed | None = None
    node: str | None = None
    file: str | None = None
    line: int | None = None
    seconds: float | None = None
    """By how much the scheduler lags, or the clock was changed."""


@dataclass(frozen=True, slots=True)
class Attention(Result):
    VOLATILE: ClassVar = ("now",)

    now: datetime
    jobs: int
    items: tuple[AttentionItem, ...]
    """Worst first; at most 50 of a kind."""
    total: int
    counts: Mapping[AttentionKind, int]
    """How many there are of each kind, those that are not listed included; worst first."""

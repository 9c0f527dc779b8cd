"""Results about runs: rows of the ledger, attempts, steps, logs and gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, NamedTuple

from evertick.errors import MemberUnavailableReason
from evertick.model.facts import WaitKind
from evertick.model.lifecycle import TERMINAL, RunState, SkipReason, Trigger
from evertick.model.loss import LossReason
from evertick.model.policy import Missed
from evertick.operations.results.base import Result


class RunSort(StrEnum):
    """The order of a list of runs."""

    DUE = "due"
    """By due time, the newest first."""
    DURATION = "duration"
    """The longest of the newest matching runs first; only runs that have ended."""
    LATENESS = "lateness"
    """The latest of the newest matching runs first; only runs that have started."""


@dataclass(frozen=True, slots=True)
class Parent(Result):
    run: str
    via: str | None
    """The step that requested this run, or the constraint that was violated."""


@dataclass(frozen=True, slots=True)
class Wait(Result):
    kind: WaitKind
    since: datetime
    name: str
    """The queue or the executor, or how the job was held."""
    runs: tuple[str, ...]
    """The runs that held the places."""
    jobs: tuple[str, ...]
    """The jobs that had not succeeded yet."""
    detail: str
    limit: int | None
    """Places in the queue."""


@dataclass(frozen=True, slots=True)
class RunSummary(Result):
    """A row of the ledger: a run, or a skip with its reason."""

    run: str
    job: str
    scheduled_for: datetime
    starts_at: datetime | None
    """When it starts, or was to start, by the job's jitter; null: at its time."""
    state: RunState
    reason: SkipReason | None
    trigger: Trigger
    attempt: int
    started_at: datetime | None
    finished_at: datetime | None
    duration_seconds: float | None
    lateness_seconds: float | None
    """Time between the occurrence and its first start, without jitter; null for a requested run."""
    exit_code: int | None
    detail: str
    loss: LossReason | None
    """Why the newest attempt was lost; null if it was not lost."""
    missed_by: Missed | None
    """The policy that kept or skipped a missed occurrence; null if it was not missed."""
    other_run: str | None
    """The run that was in its way, or that replaced it."""
    executor: str
    decided_at: datetime
    decided_by: str
    through: datetime | None
    """The last occurrence of a gap; null for a single one."""
    occurrences: int
    request: str | None
    params: object
    resumed_from: str | None
    waits: tuple[Wait, ...]
    """What the run waited for, in order."""
    running_steps: tuple[str, ...]
    """The steps that run now."""
    parents: tuple[Parent, ...]
    """The runs that caused this one; `trigger` says how."""

    @property
    def is_success(self) -> bool:
        return self.state is RunState.SUCCEEDED

    @property
    def has_ended(self) -> bool:
        return self.state in TERMINAL


@dataclass(frozen=True, slots=True)
class Run(RunSummary):
    """A row of the ledger: a run, or a skip with its reason."""

    job_name: str
    timezone: str


@dataclass(frozen=True, slots=True)
class RunPage(Result):
    items: tuple[Run, ...]
    next: str | None
    """Pass it as `cursor` to get the next page; null on the last page."""
    compared: int | None = None
    """By duration or lateness: how many of the newest matching entries were compared; null in order of time."""


@dataclass(frozen=True, slots=True)
class StepBase(Result):
    name: str
    item_of: str | None
    """The step with `each` of which it is an item; null for a step."""
    item: str | None
    """The value of the item, which may be cut; empty if it holds a secret."""
    attempt: int
    tries: int
    started_at: datetime | None
    finished_at: datetime | None
    duration_seconds: float | None
    exit_code: int | None
    detail: str
    output: str | None
    is_output_cut: bool
    sub_run: str | None
    executor: str | None
    """Where an item ran that did not run with its run; null for every other step."""
    reused_from: str | None
    has_log: bool
    cpu_seconds: float
    max_rss_bytes: int | None


@dataclass(frozen=True, slots=True)
class Step(StepBase):
    state: str


@dataclass(frozen=True, slots=True)
class AttemptStep(StepBase):
    state: str | None
    """null: only its log is known."""
    log_bytes: int | None


@dataclass(frozen=True, slots=True)
class Attempt(Result):
    attempt: int
    state: str
    started_at: datetime | None
    finished_at: datetime | None
    exit_code: int | None
    detail: str
    loss: LossReason | None
    """Why it was lost; null if it was not lost."""
    executor: str
    definition: str | None
    steps: tuple[AttemptStep, ...]


@dataclass(frozen=True, slots=True)
class LogFile(Result):
    attempt: int
    step: str
    size: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class LogFiles(Result):
    items: tuple[LogFile, ...]


@dataclass(frozen=True, slots=True)
class AbsentLog(Result):
    """An attempt whose log exists but cannot be read now."""

    attempt: int
    place: str
    """Where it is, in words."""
    kind: Literal["node", "member", "store"]
    name: str
    """The node or member that has it."""
    cause: MemberUnavailableReason | Literal["unreachable", "not-kept"]
    last_seen_at: datetime | None
    """When a member that does not answer was last seen."""
    is_partial: bool
    """Whether a part of the log can be read."""
    reason: str
    text: str
    """The whole message as one sentence."""


@dataclass(frozen=True, slots=True)
class RelatedRun(Result):
    """A run that exists because of another; `trigger` says how."""

    run: str
    job: str
    job_name: str
    state: RunState
    trigger: Trigger
    scheduled_for: datetime


@dataclass(frozen=True, slots=True)
class Blocker(Result):
    """What a waiting run waits for."""

    kind: WaitKind | None
    """null: the scheduler has not noted it."""
    text: str
    """The whole message as text."""
    name: str | None = None
    """The queue or the executor, or how the job is held."""
    limit: int | None = None
    """How many places the queue has."""
    job: str | None = None
    """The job that has to succeed first."""
    runs: tuple[str, ...] = ()
    """The ids of the runs in the way; for `after`, the newest run of the job."""
    policy: str | None = None
    """The rule that makes it wait, as the job file has it."""
    policy_from: str | None = None
    """Where the policy was set, as `file:line`."""


@dataclass(frozen=True, slots=True)
class RunDetail(Run):
    steps: tuple[Step, ...]
    attempts: tuple[Attempt, ...]
    depends: Mapping[str, tuple[str, ...]]
    logs: tuple[LogFile, ...]
    absent_logs: tuple[AbsentLog, ...]
    definition: str | None
    """The digest of the job's definition; /runs/{run}/definition returns the text."""
    is_definition_current: bool | None
    """null: the job was deleted, or its definition is unknown."""
    can_cancel: bool
    can_retry: bool
    can_retry_failed: bool
    blocked_by: tuple[Blocker, ...]
    children: tuple[RelatedRun, ...]
    """Retries of this run, sub-runs of its steps, and runs of jobs that follow it."""


@dataclass(frozen=True, slots=True)
class DefinitionChange(Result):
    side: Literal["both", "before", "after"]
    """Which definition has the line: the one of the run, the current one, or both."""
    text: str


@dataclass(frozen=True, slots=True)
class RunDefinition(Result):
    """The job's definition when an attempt was launched, without values that may be secrets."""

    run: str
    job: str
    attempt: int
    digest: str
    text: str
    is_current: bool | None
    """null: the job was deleted."""
    changes: tuple[DefinitionChange, ...]
    """Every line of both definitions; empty where the job was deleted."""


@dataclass(frozen=True, slots=True)
class LogText(Result):
    run: str
    attempt: int
    step: str
    text: str
    offset: int
    first_line: int | None
    """The number of the first line, if `lines` was set."""
    next_offset: int
    """In bytes; where to continue reading."""
    size: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class LogTime(Result):
    """From which byte on a log was written at this time, until the next one."""

    offset: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LogTimes(Result):
    items: tuple[LogTime, ...]
    """By offset; exact to 0.1 s, or to a second in a log that was written for long."""


class LogChunk(NamedTuple):
    """A part of a log as bytes; never JSON."""

    data: bytes
    next_offset: int
    is_complete: bool
    """Whether nothing follows, now or later."""


@dataclass(frozen=True, slots=True)
class LogHit(Result):
    line: int
    offset: int
    """Where the line begins, in bytes."""


@dataclass(frozen=True, slots=True)
class LogHits(Result):
    run: str
    attempt: int
    step: str
    items: tuple[LogHit, ...]
    """The first 1,000 lines that match."""
    total: int
    searched_bytes: int
    """Less than `size` where the log is too long to search completely."""
    size: int


@dataclass(frozen=True, slots=True)
class Gap(Result):
    """Consecutive occurrences that were skipped together."""

    run: str
    job: str
    at: datetime
    through: datetime | None
    occurrences: int
    reason: SkipReason | None
    detail: str
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class GapPage(Result):
    items: tuple[Gap, ...]
    next: str | None
    """Pass it as `cursor` to get the next page; null on the last page."""

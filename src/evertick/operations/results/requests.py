"""Results of commands: the status of a request, backfills, catch-up previews, and why something happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from evertick.model.ids import origin_of
from evertick.model.instant import from_datetime
from evertick.model.lifecycle import RunState, SkipReason
from evertick.model.run import RunKey
from evertick.operations.results.base import Result
from evertick.operations.results.runs import RunSummary
from evertick.operations.time_text import moment_text


@dataclass(frozen=True, slots=True)
class RequestAnswer(Result):
    """What the scheduler did about a request; which fields are set follows from the request."""

    cancelled: tuple[str, ...] | None = None
    """The ids of the runs that were cancelled."""
    planned: int | None = None
    """How many runs a backfill has."""
    paused_at: datetime | None = None
    is_resumed: bool | None = None
    """false: the job was not paused."""
    is_superseded: bool = False
    """A newer request of the same kind went first."""


@dataclass(frozen=True, slots=True)
class RequestStatus(Result):
    """A durable request; the ledger keeps it until the scheduler answers."""

    request: str
    job: str
    is_answered: bool
    answer: RequestAnswer | None
    run: str | None
    is_scheduler_running: bool


@dataclass(frozen=True, slots=True)
class BackfillCandidate(Result):
    scheduled_for: datetime
    local: str
    is_chosen: bool
    why: str


@dataclass(frozen=True, slots=True)
class ExcludedRange(Result):
    """The occurrences of a range in which a calendar excludes all."""

    calendars: tuple[str, ...]
    occurrences: int
    moved_to: datetime | None
    """When the first of them is due instead; null: they do not run."""


@dataclass(frozen=True, slots=True)
class Backfill(Result):
    request: str | None
    """null for a preview, and where there is nothing to run."""
    job: str
    is_answered: bool
    answer: RequestAnswer | None
    chosen: int
    timezone: str | None = None
    total: int | None = None
    candidates: tuple[BackfillCandidate, ...] | None = None
    excluded: ExcludedRange | None = None
    """Why a range without an occurrence has none, if a calendar excludes them."""
    run: str | None = None
    is_scheduler_running: bool | None = None

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The ids of its runs, oldest first; empty for a preview."""
        if self.request is None:
            return ()
        origin = origin_of(self.request)
        chosen = [one.scheduled_for for one in self.candidates or () if one.is_chosen]
        return tuple(RunKey(self.job, from_datetime(at), origin).run_id for at in chosen)


@dataclass(frozen=True, slots=True)
class BackfillProgress(Result):
    request: str
    job: str
    submitted_at: datetime
    submitted_by: str
    first: datetime
    last: datetime
    is_answered: bool
    total: int
    ended: int
    is_over: bool
    states: Mapping[RunState, int]


@dataclass(frozen=True, slots=True)
class Backfills(Result):
    items: tuple[BackfillProgress, ...]


@dataclass(frozen=True, slots=True)
class CancelledBackfill(RequestStatus):
    cancelled: int


@dataclass(frozen=True, slots=True)
class CatchupDecision(Result):
    """What would happen to a missed occurrence, or to a gap."""

    scheduled_for: datetime
    local: str
    through: datetime | None
    occurrences: int
    runs: bool
    what: str
    reason: SkipReason | None
    detail: str


@dataclass(frozen=True, slots=True)
class Catchup(Result):
    """What a start or a resume would catch up now; of a job in a blackout, what the end of it will."""

    job: str
    timezone: str
    watermark: datetime | None
    paused_at: datetime | None
    blackout_until: datetime | None
    backlog: tuple[str, ...]
    kept: int
    skipped: int
    fates: tuple[CatchupDecision, ...]


class NextStepKind(StrEnum):
    RUN_OCCURRENCE = "run-occurrence"
    RETRY = "retry"
    RESUME = "resume"
    READ_LOG = "read-log"
    PREVIEW_CATCHUP = "preview-catchup"
    SHOW_JOB = "show-job"
    FORGET_NODE = "forget-node"
    VERIFY = "verify"
    NAME_FOLDER = "name-folder"


@dataclass(frozen=True, slots=True)
class NextStep(Result):
    """What can be done next about an occurrence."""

    kind: NextStepKind
    text: str
    """What it is for, such as `to run it now`."""
    command: str
    """For a terminal."""

    def __str__(self) -> str:
        return f"{self.text}: {self.command}"


@dataclass(frozen=True, slots=True)
class Why(Result):
    """Why an occurrence ran, was skipped, or waits."""

    job: str
    scheduled_for: datetime
    starts_at: datetime | None
    """When its run starts, or was to start, by the job's jitter; null: at its time."""
    local: str
    timezone: str
    outcome: str
    """A state of a run, or `due`, `excluded`, `undecided`, `missing`, `unknown`, `no occurrence`."""
    reason: SkipReason | None
    verdict: str
    sentences: tuple[str, ...]
    next_steps: tuple[NextStep, ...]
    run: RunSummary | None
    other_run: RunSummary | None
    """The run that was in the way, or that replaced this one."""
    policy: str | None
    policy_from: str | None
    """Where the policy was set, as `file:line`."""
    policy_file: str | None
    """null: no file sets it."""
    policy_line: int | None
    advice: str | None
    lines: tuple[str, ...]
    """Lines of the job file that would have let it run; empty where none would."""
    nearest_before: datetime | None
    nearest_after: datetime | None

    def __str__(self) -> str:
        """What `evertick why` prints."""
        at = moment_text(from_datetime(self.scheduled_for), self.timezone)
        head = f"{self.job}  {at} {self.timezone}   {self.verdict}"
        return "\n".join([head, *(f"  {line}" for line in (*self.sentences, *self.next_steps))])

"""Results about jobs: status, definition, policies, durations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from evertick.model.lifecycle import JobStatus, Light, RunState, SkipReason, Trigger
from evertick.operations.results.base import Result
from evertick.operations.results.runs import Run, RunSummary


class JobSort(StrEnum):
    """The order of a list of jobs."""

    JOB = "job"
    """By id."""
    STATE = "state"
    """Jobs in error first, then late, running, paused, idle, finished and disabled ones."""
    NEXT = "next"
    """By the next occurrence."""
    LAST = "last"
    """By the newest run that has ended, the newest first."""
    DURATION = "duration"
    """By the duration of that run, the longest first."""


@dataclass(frozen=True, slots=True)
class RunPoint(Result):
    """A run as a point of a chart."""

    run: str
    scheduled_for: datetime
    state: RunState
    trigger: Trigger
    duration_seconds: float | None
    lateness_seconds: float | None


@dataclass(frozen=True, slots=True)
class DefinitionProblem(Result):
    """An error or a warning about a job file."""

    file: str | None
    line: int | None
    column: int | None
    field: str | None
    reason: str
    hint: str | None
    text: str
    """The whole message as one sentence."""


@dataclass(frozen=True, slots=True)
class Job(Result):
    job: str
    name: str
    description: str
    tags: tuple[str, ...]
    file: str | None
    is_defined: bool
    enabled: bool | None
    queue: str | None
    priority: int
    status: JobStatus
    light: Light | None
    """Whether the job can be relied on now; null: it is held, or nothing of it has ended yet."""
    late_since: datetime | None
    """The first deadline that passed since the last success."""
    next_at: datetime | None
    next_starts_at: datetime | None
    """When the run of `next_at` starts, by the job's jitter; null: at that time."""
    timezone: str
    schedules: tuple[str, ...]
    watermark: datetime | None
    """Every occurrence up to this time is in the ledger."""
    active: int
    waiting: int
    last: RunSummary | None
    """The newest run that has ended."""
    skips: Mapping[SkipReason, int]
    """Skips of the last 30 days by reason, for a job that has no ended run."""
    last_success_for: datetime | None
    paused_at: datetime | None
    pause_note: str
    error: str
    retired_at: datetime | None
    """When its definition was deleted."""


@dataclass(frozen=True, slots=True)
class ListedJob(Job):
    recent: tuple[RunPoint, ...] | None = None
    """The last runs, oldest first, if requested."""


@dataclass(frozen=True, slots=True)
class JobPage(Result):
    items: tuple[ListedJob, ...]
    next: str | None
    """Pass it as `cursor` to get the next page; null on the last page."""
    total: int
    statuses: Mapping[JobStatus, int]
    tags: tuple[str, ...]
    problems: tuple[DefinitionProblem, ...]


@dataclass(frozen=True, slots=True)
class EnvVariable(Result):
    """The name of an environment variable; its value is never shown."""

    name: str
    from_: str | None
    """Where a secret is kept, as `source:name`."""


@dataclass(frozen=True, slots=True)
class StepDefinition(Result):
    name: str
    kind: str
    summary: str
    depends: tuple[str, ...]
    env: tuple[EnvVariable, ...]
    timeout_seconds: float | None
    max_retries: int
    output: str | None


@dataclass(frozen=True, slots=True)
class AfterJobs(Result):
    jobs: tuple[str, ...]
    mode: str
    on: str = "success"


@dataclass(frozen=True, slots=True)
class Definition(Result):
    """The job's definition, without the values of its environment."""

    start: tuple[Mapping[str, str], ...]
    stop: tuple[Mapping[str, str], ...]
    restart: tuple[Mapping[str, str], ...]
    after: AfterJobs | None
    params: Mapping[str, object]
    """A JSON Schema of all parameters."""
    env: tuple[EnvVariable, ...]
    timeout_seconds: float | None
    steps: tuple[StepDefinition, ...]
    handlers: Mapping[str, StepDefinition]
    constraints: tuple[str, ...]
    notify: int


@dataclass(frozen=True, slots=True)
class JobDetail(Job):
    active_runs: tuple[Run, ...]
    definition: Definition | None
    is_stale: bool
    """Whether its file has errors now, so that the last good definition is in use."""
    problems: tuple[DefinitionProblem, ...]
    is_scheduler_running: bool


@dataclass(frozen=True, slots=True)
class Rule(Result):
    """A policy of a job, and where it was set."""

    name: str
    value: str
    origin: str
    """`file:line`, `default`, or a setting."""
    file: str | None
    """null: no file sets it."""
    line: int | None


@dataclass(frozen=True, slots=True)
class Rules(Result):
    items: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class GraphNode(Result):
    """A step of a job."""

    id: str
    kind: str
    command: str
    depends: tuple[str, ...]
    handler: str | None


@dataclass(frozen=True, slots=True)
class Graph(Result):
    job: str
    nodes: tuple[GraphNode, ...]
    after: tuple[str, ...]
    before: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Percentiles(Result):
    p10: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Durations(Result):
    job: str
    items: tuple[RunPoint, ...]
    percentiles: Percentiles
    lateness: Percentiles
    success_rate: float | None


@dataclass(frozen=True, slots=True)
class StepRow(Result):
    """One step in the last runs of its job."""

    name: str
    states: tuple[str | None, ...]
    """By run, oldest first; null where the run did not reach the step, or the ledger has no record of it."""
    failures: int
    retries: int
    """Tries beyond the first, of all runs together."""


@dataclass(frozen=True, slots=True)
class WeekdayFigures(Result):
    weekday: int
    """0 is Monday, in the job's time zone."""
    succeeded: int
    failed: int


@dataclass(frozen=True, slots=True)
class StepHistory(Result):
    job: str
    timezone: str
    runs: tuple[RunPoint, ...]
    """Oldest first."""
    steps: tuple[StepRow, ...]
    weekdays: tuple[WeekdayFigures, ...]
    """Of the last 500 runs."""

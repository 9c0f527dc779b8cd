"""How answers about jobs and runs look. The desk makes them; tests hold the two together."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from evertick.model.lifecycle import JobStatus, RunState, SkipReason, Trigger

Moment = str
"""RFC 3339 in UTC."""


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """What is wrong, after RFC 9457; members beside these say more to programs."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str


class RunBase(Shape):
    run: str
    job: str
    scheduled_for: Moment
    state: RunState
    reason: SkipReason | None
    trigger: Trigger
    attempt: int
    started_at: Moment | None
    finished_at: Moment | None
    duration_seconds: float | None
    lateness_seconds: float | None = Field(description="Of an occurrence; a requested run has no time to be late for.")
    exit_code: int | None
    detail: str
    executor: str
    decided_at: Moment
    decided_by: str
    through: Moment | None = Field(description="Of a gap: its last occurrence.")
    occurrences: int
    request: str | None
    params: Any
    resumed_from: str | None


class Run(RunBase):
    """A line of the ledger: a run, or a skip with its reason."""

    timezone: str


class StepBase(Shape):
    name: str
    attempt: int
    tries: int
    started_at: Moment | None
    finished_at: Moment | None
    duration_seconds: float | None
    exit_code: int | None
    detail: str
    output: str | None
    is_output_cut: bool
    sub_run: str | None
    reused_from: str | None
    has_log: bool
    cpu_seconds: float
    max_rss_bytes: int | None


class Step(StepBase):
    state: str


class AttemptStep(StepBase):
    state: str | None = Field(description="null: all that is known of it is its log.")
    log_bytes: int | None


class Attempt(Shape):
    attempt: int
    state: str
    started_at: Moment | None
    finished_at: Moment | None
    exit_code: int | None
    detail: str
    executor: str
    definition: str | None
    steps: list[AttemptStep]


class LogFile(Shape):
    attempt: int
    step: str
    size: int
    is_complete: bool


class RunDetail(Run):
    steps: list[Step]
    attempts: list[Attempt]
    depends: dict[str, list[str]]
    logs: list[LogFile]
    definition: str | None = Field(description="The digest of what its job was; /runs/{run}/definition has the text.")
    is_definition_current: bool | None = Field(description="null: its job is gone, or what it was is not known.")
    can_cancel: bool
    can_retry: bool
    can_retry_failed: bool
    blocked_by: list[str]


class DefinitionChange(Shape):
    side: Literal["both", "before", "after"] = Field(description="Where the line is: then, now, or both.")
    text: str


class RunDefinition(Shape):
    """What a job was when an attempt of a run was launched, without values that may be secrets."""

    run: str
    job: str
    attempt: int
    digest: str
    text: str
    is_current: bool | None = Field(description="null: the job is gone.")
    changes: list[DefinitionChange] = Field(description="Every line, then and now; empty where the job is gone.")


class RunPage(Shape):
    items: list[Run]
    next: str | None = Field(description="Hand it back as `cursor`; null: this was the last page.")


class LogFiles(Shape):
    items: list[LogFile]


class LogText(Shape):
    run: str
    attempt: int
    step: str
    text: str
    offset: int
    next_offset: int = Field(description="In bytes; where to go on reading.")
    size: int
    is_complete: bool


class Gap(Shape):
    """A stretch of occurrences that were skipped as one."""

    run: str
    job: str
    at: Moment
    through: Moment | None
    occurrences: int
    reason: SkipReason | None
    detail: str
    decided_at: Moment


class GapPage(Shape):
    items: list[Gap]
    next: str | None


class Point(Shape):
    run: str
    scheduled_for: Moment
    state: RunState
    trigger: Trigger
    duration_seconds: float | None
    lateness_seconds: float | None


class DefinitionProblem(Shape):
    file: str | None
    line: int | None
    column: int | None
    field: str | None
    reason: str
    hint: str | None
    text: str


class Job(Shape):
    job: str
    name: str
    description: str
    tags: list[str]
    file: str | None
    is_defined: bool
    enabled: bool | None
    queue: str | None
    priority: int
    status: JobStatus
    next_at: Moment | None
    timezone: str
    schedules: list[str]
    watermark: Moment | None = Field(description="Every occurrence up to it is in the ledger.")
    active: int
    waiting: int
    last: RunBase | None
    last_success_for: Moment | None
    paused_at: Moment | None
    pause_note: str
    error: str
    retired_at: Moment | None


class ListedJob(Job):
    recent: list[Point] | None = None


class JobPage(Shape):
    items: list[ListedJob]
    next: str | None
    total: int
    statuses: dict[str, int]
    tags: list[str]
    problems: list[DefinitionProblem]


class EnvName(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    name: str
    source: str | None = Field(alias="from")


class StepDefinition(Shape):
    name: str
    kind: str
    summary: str
    depends: list[str]
    env: list[EnvName]
    timeout_seconds: float | None
    max_retries: int
    output: str | None


class AfterJobs(Shape):
    jobs: list[str]
    mode: str


class Definition(Shape):
    """What the job's file says, without the values of its environment."""

    start: list[dict[str, str]]
    stop: list[dict[str, str]]
    restart: list[dict[str, str]]
    after: AfterJobs | None
    params: dict[str, Any] = Field(description="A JSON Schema of all parameters.")
    env: list[EnvName]
    timeout_seconds: float | None
    steps: list[StepDefinition]
    handlers: dict[str, StepDefinition]
    constraints: list[str]
    notify: int


class JobDetail(Job):
    active_runs: list[Run]
    definition: Definition | None
    is_stale: bool
    problems: list[DefinitionProblem]
    is_scheduler_running: bool


class Rule(Shape):
    name: str
    value: str
    origin: str


class Rules(Shape):
    items: list[Rule]


class Node(Shape):
    id: str
    kind: str
    command: str
    depends: list[str]
    handler: str | None


class Graph(Shape):
    job: str
    nodes: list[Node]
    after: list[str]
    before: list[str]


class Why(Shape):
    job: str
    scheduled_for: Moment
    local: str
    timezone: str
    outcome: str
    reason: SkipReason | None
    verdict: str
    sentences: list[str]
    run: RunBase | None
    other_run: RunBase | None
    policy: str | None
    policy_from: str | None
    advice: str | None
    nearest_before: Moment | None
    nearest_after: Moment | None


class Fate(Shape):
    scheduled_for: Moment
    local: str
    through: Moment | None
    occurrences: int
    runs: bool
    what: str
    reason: SkipReason | None
    detail: str


class Catchup(Shape):
    job: str
    timezone: str
    watermark: Moment | None
    paused_at: Moment | None
    backlog: list[str]
    kept: int
    skipped: int
    fates: list[Fate]


class Percentiles(Shape):
    p10: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Durations(Shape):
    job: str
    items: list[Point]
    percentiles: Percentiles
    lateness: Percentiles
    success_rate: float | None


class Asked(Shape):
    """What became of a request; until it is answered, the ledger keeps it."""

    request: str
    job: str
    is_answered: bool
    answer: dict[str, Any] | None
    run: str | None
    is_scheduler_running: bool


class Candidate(Shape):
    scheduled_for: Moment
    local: str
    is_chosen: bool
    why: str


class Backfill(Shape):
    request: str | None
    job: str
    is_answered: bool
    answer: dict[str, Any] | None
    chosen: int
    timezone: str | None = None
    total: int | None = None
    candidates: list[Candidate] | None = None
    run: str | None = None
    is_scheduler_running: bool | None = None


class BackfillProgress(Shape):
    request: str
    job: str
    submitted_at: Moment
    submitted_by: str
    first: Moment
    last: Moment
    is_answered: bool
    total: int
    ended: int
    is_over: bool
    states: dict[str, int]


class Backfills(Shape):
    items: list[BackfillProgress]


class CancelledBackfill(Asked):
    cancelled: int

"""How answers about jobs look: how they stand, what they say, how long they take."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evertick.api.models_base import Moment, Shape
from evertick.api.models_runs import Run, RunBase
from evertick.model.lifecycle import JobStatus, RunState, Trigger


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
    last: RunBase | None = Field(description="The newest run that has ended.")
    skips: dict[str, int] = Field(description="Where no run has ended: skips of the last 30 days, by reason.")
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


class Badge(Shape):
    path: str

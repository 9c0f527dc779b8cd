"""How answers about time, the whole and the machinery look."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evertick.api.models import DefinitionProblem, Moment, Percentiles, Run, Shape
from evertick.model.lifecycle import JobStatus, RunState, SkipReason, Trigger


class Fire(Shape):
    job: str
    action: str
    scheduled_for: Moment
    local: str
    offset: str
    timezone: str
    wait_seconds: float
    what: str
    reason: SkipReason | None
    detail: str


class Upcoming(Shape):
    items: list[Fire]


class Plan(Shape):
    items: list[Fire]
    has_more: bool


class NotedFire(Fire):
    note: str | None


class ClockNote(Shape):
    at: Moment
    local: str
    text: str


class JobUpcoming(Shape):
    timezone: str
    items: list[NotedFire]
    dst_notes: list[ClockNote]
    meaning: list[str]


class Minute(Shape):
    at: Moment
    count: int


class Load(Shape):
    minutes: list[Minute]


class CronFire(Shape):
    scheduled_for: Moment
    local: str
    offset: str
    timezone: str
    wait_seconds: float
    note: str | None


class CronAnswer(Shape):
    expression: str
    timezone: str
    meaning: str
    fields: dict[str, str]
    dst_notes: list[ClockNote]
    next: list[CronFire]


class Outcomes(Shape):
    succeeded: int
    failed: int
    skipped: int
    other: int
    caught_up: int
    backfilled: int
    count: int


class Day(Outcomes):
    date: str
    start: Moment
    dst: str | None = Field(description="`forward` or `back` where the clocks change that day.")
    skips: dict[str, int]
    planned: int | None = Field(description="How often something is still due; null: there is too much to count.")


class Calendar(Shape):
    job: str | None
    timezone: str
    days: list[Day]


class Mark(Shape):
    run: str
    at: Moment
    state: RunState
    trigger: Trigger
    reason: SkipReason | None
    started_at: Moment | None
    finished_at: Moment | None
    lateness_seconds: float | None
    attempt: int


class Cell(Outcomes):
    at: Moment
    through: Moment
    worst: RunState
    longest_seconds: float | None
    latest_seconds: float | None


class FutureCell(Shape):
    at: Moment
    through: Moment
    count: int


class LaneGap(Shape):
    run: str
    job: str
    at: Moment
    through: Moment | None
    occurrences: int
    reason: SkipReason | None
    detail: str
    decided_at: Moment


class Lane(Shape):
    job: str
    name: str
    description: str
    tags: list[str]
    status: JobStatus
    timezone: str
    next_at: Moment | None
    watermark: Moment | None
    undecided_since: Moment | None
    marks: list[Mark]
    cells: list[Cell]
    gaps: list[LaneGap]
    future: list[Moment]
    future_cells: list[FutureCell]


class Ribbon(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    now: Moment
    start: Moment = Field(alias="from")
    end: Moment = Field(alias="to")
    since: Moment | None = Field(description="The time of the oldest line of the ledger.")
    total: int
    offset: int
    lanes: list[Lane]


class SchedulerState(Shape):
    alive: bool
    lag_seconds: float | None


class Hour(Outcomes):
    at: Moment


class JobCounts(Shape):
    total: int
    idle: int
    running: int
    paused: int
    error: int
    disabled: int
    finished: int


class DayFigures(Shape):
    """The last day: how many occurrences stand or ended how."""

    planned: int
    waiting: int
    launching: int
    running: int
    retrying: int
    succeeded: int
    failed: int
    timed_out: int
    cancelled: int
    lost: int
    skipped: int
    caught_up: int
    success_rate: float | None
    skips: dict[str, int]


class Overview(Shape):
    now: Moment
    timezone: str
    node: str
    version: str
    scheduler: SchedulerState
    jobs: JobCounts
    running: list[Run]
    running_count: int
    waiting: list[Run]
    waiting_count: int
    failed: list[Run]
    missed: list[Run]
    next: list[Fire]
    day: DayFigures
    hours: list[Hour]
    lateness: Percentiles
    problems: list[DefinitionProblem]


class MemberState(Shape):
    """One of those that run attempts for a place, as it was last seen."""

    name: str
    is_healthy: bool
    is_open: bool = Field(description="Whether it takes new attempts; not while it is drained.")
    running: int | None
    slots: int | None
    labels: dict[str, str]
    version: str | None
    address: str | None
    seen_at: Moment | None
    runs: list[str]


class ExecutorState(BaseModel):
    """A place that runs attempts; what the scheduler tells of it beside these depends on its kind."""

    model_config = ConfigDict(extra="allow")

    executor: str
    is_known: bool
    active: int
    runs: list[Run]
    members: list[MemberState]


class Executors(Shape):
    is_scheduler_running: bool
    items: list[ExecutorState]


class QueuedRun(Run):
    blocked_by: str | None


class Queue(Shape):
    queue: str
    limit: int | None
    jobs: list[str]
    active: int
    waiting: int
    runs: list[QueuedRun]


class Queues(Shape):
    is_scheduler_running: bool
    items: list[Queue]


class NodeState(Shape):
    node: str
    buckets: int
    is_alive: bool
    is_here: bool
    lease_until: Moment | None
    lag_seconds: float | None
    version: str | None
    started_at: Moment | None
    jobs: int | None


class Nodes(Shape):
    is_scheduler_running: bool
    items: list[NodeState]


class Status(Shape):
    is_scheduler_running: bool
    status: dict[str, Any] | None


class Zones(Shape):
    items: list[str]


class Finding(Shape):
    kind: str
    job: str
    text: str


class Proof(Shape):
    is_sound: bool
    occurrences: int
    runs: int
    skips: dict[str, int]
    gaps: int
    lost: int
    duplicates: int
    miscounted: int
    strays: int
    findings: list[Finding]


class SessionState(Shape):
    user: str
    role: str
    csrf: str | None
    version: str
    node: str
    timezone: str


class SettingLine(Shape):
    name: str
    value: str
    default: str
    origin: str
    meaning: str
    variable: str


class SettingsList(Shape):
    items: list[SettingLine]


class TokenState(Shape):
    id: str
    name: str
    role: str
    created_at: Moment
    created_by: str
    expires_at: Moment | None


class TokenList(Shape):
    items: list[TokenState]


class NewToken(TokenState):
    token: str = Field(description="Shown this once.")


class AuditLine(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)

    number: int
    at: Moment
    by: str
    origin: str = Field(alias="from")
    action: str
    target: str
    outcome: str
    detail: Any
    previous: str
    hash: str


class AuditPage(Shape):
    items: list[AuditLine]
    next: str | None
    chain_ok: bool | None = Field(description="Null on all but the first page, where the whole chain is followed.")
    broken_at: int | None


class DefinitionFile(Shape):
    job: str
    file: str
    text: str


class DefinitionFiles(Shape):
    items: list[DefinitionFile]


class Validated(Shape):
    job: str | None
    errors: list[DefinitionProblem]
    warnings: list[DefinitionProblem]


class WrittenDefinition(Shape):
    job: str
    file: str


class ImportNote(Shape):
    line: int | None
    text: str


class ImportFile(Shape):
    name: str
    text: str


class ImportedFiles(Shape):
    files: list[ImportFile]
    notes: list[ImportNote]


class Badge(Shape):
    path: str


class Health(Shape):
    status: str
    reasons: list[str]

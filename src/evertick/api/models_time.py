"""How answers about time look: what is due, the timeline, the calendar, the overview."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from evertick.api.models_base import Moment, Shape
from evertick.api.models_jobs import DefinitionProblem, Percentiles
from evertick.api.models_runs import Run
from evertick.model.lifecycle import JobStatus, RunState, SkipReason, Trigger


class Fire(Shape):
    job: str
    job_name: str
    action: Literal["start", "stop", "restart"]
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
    to: Moment = Field(description="How far was counted: less far than asked where very much is due.")


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
    cancelled: int
    running: int = Field(description="Launching, running or retrying.")
    waiting: int = Field(description="Planned or waiting.")
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


class Timeline(BaseModel):
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


class Zones(Shape):
    items: list[str]

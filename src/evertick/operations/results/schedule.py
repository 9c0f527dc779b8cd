"""Results about time: coming occurrences, cron expressions, the calendar, the timeline and the overview."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal

from evertick.model.lifecycle import JobStatus, RunState, SkipReason, Trigger
from evertick.operations.results.attention import AttentionKind
from evertick.operations.results.base import Result
from evertick.operations.results.blackouts import Blackout
from evertick.operations.results.jobs import DefinitionProblem, Percentiles
from evertick.operations.results.runs import Gap, Run


@dataclass(frozen=True, slots=True)
class Fire(Result):
    """A coming occurrence, and what would happen to it now."""

    job: str
    job_name: str
    action: Literal["start", "stop", "restart"]
    scheduled_for: datetime
    starts_at: datetime | None
    """When its run starts, by the job's jitter; null: at its time."""
    local: str
    """Its time in its time zone."""
    local_start: str | None
    """When its run starts, in the same way."""
    offset: str
    timezone: str
    wait_seconds: float
    """Until its run starts."""
    what: str
    reason: SkipReason | None
    detail: str
    day: str | None
    """The name of the day, if a calendar excludes it; null: none does."""


@dataclass(frozen=True, slots=True)
class Upcoming(Result):
    items: tuple[Fire, ...]


@dataclass(frozen=True, slots=True)
class Plan(Result):
    items: tuple[Fire, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class NotedFire(Fire):
    note: str | None


@dataclass(frozen=True, slots=True)
class ClockNote(Result):
    """What a change of the clock does to an occurrence."""

    at: datetime
    local: str
    text: str


@dataclass(frozen=True, slots=True)
class JobUpcoming(Result):
    timezone: str
    items: tuple[NotedFire, ...]
    dst_notes: tuple[ClockNote, ...]
    meaning: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MinuteLoad(Result):
    at: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Load(Result):
    minutes: tuple[MinuteLoad, ...]
    to: datetime
    """The end of the period that was counted; earlier than requested where too many starts are due."""


@dataclass(frozen=True, slots=True)
class CronFire(Result):
    scheduled_for: datetime
    local: str
    offset: str
    timezone: str
    wait_seconds: float
    note: str | None


@dataclass(frozen=True, slots=True)
class CronPreview(Result):
    expression: str
    timezone: str
    meaning: str
    fields: Mapping[str, str]
    dst_notes: tuple[ClockNote, ...]
    next: tuple[CronFire, ...]


@dataclass(frozen=True, slots=True)
class Outcomes(Result):
    """How many occurrences of a period have which outcome."""

    succeeded: int
    failed: int
    skipped: int
    cancelled: int
    running: int
    """Launching, running or retrying."""
    waiting: int
    """Planned or waiting."""
    caught_up: int
    backfilled: int
    count: int


@dataclass(frozen=True, slots=True)
class Day(Outcomes):
    date: str
    start: datetime
    dst: str | None
    """`forward` or `back` where the clocks change on this day."""
    skips: Mapping[SkipReason, int]
    planned: int | None
    """Occurrences still to come; null where there are too many to count."""


@dataclass(frozen=True, slots=True)
class ExcludedDay(Result):
    """A coming day on which the calendars of jobs exclude occurrences."""

    date: str
    names: tuple[str, ...]
    """What the calendars call the day."""
    jobs: int
    """Jobs that would be due on it."""
    occurrences: int


@dataclass(frozen=True, slots=True)
class Calendar(Result):
    job: str | None
    timezone: str
    days: tuple[Day, ...]
    blackouts: tuple[Blackout, ...]
    """Those of the period that concern the job, or any job."""
    excluded: tuple[ExcludedDay, ...]
    """Those to come; the past is in the skips of each day."""


@dataclass(frozen=True, slots=True)
class Mark(Result):
    """A run on the timeline."""

    run: str
    at: datetime
    state: RunState
    trigger: Trigger
    reason: SkipReason | None
    started_at: datetime | None
    finished_at: datetime | None
    lateness_seconds: float | None
    attempt: int


@dataclass(frozen=True, slots=True)
class TimelineCell(Outcomes):
    """The runs of a lane in a short period, where there are too many to list."""

    at: datetime
    through: datetime
    worst: RunState
    longest_seconds: float | None
    latest_seconds: float | None


@dataclass(frozen=True, slots=True)
class FutureCell(Result):
    at: datetime
    through: datetime
    count: int


class TimelineSort(StrEnum):
    WORST = "worst"
    """Failing, stuck and skipped jobs first, then by next occurrence."""
    NAME = "name"
    TAG = "tag"
    """By the first tag, then by name; jobs without a tag come last."""
    NEXT = "next"


class TimelineGroup(StrEnum):
    NONE = "none"
    TAG = "tag"
    """By the first tag of a job."""
    HEALTH = "health"
    """Jobs that need attention singly, all others together."""


@dataclass(frozen=True, slots=True)
class Downtime(Result):
    """A period in which no scheduler ran."""

    at: datetime
    """The first occurrence that was missed, or the end of planning."""
    through: datetime | None
    """When a scheduler recorded it; null: none runs now."""
    jobs: int
    """Jobs that missed an occurrence."""


@dataclass(frozen=True, slots=True)
class LaneGroup(Result):
    """Jobs that share a lane, or the heading above their lanes."""

    name: str
    """The tag; empty: jobs without one, or all healthy jobs."""
    jobs: int
    troubled: int
    """Jobs that need attention."""
    is_open: bool


@dataclass(frozen=True, slots=True)
class Lane(Result):
    """One job on the timeline, or a group of them."""

    job: str
    """Empty for a group."""
    group: LaneGroup | None
    trouble: AttentionKind | None
    """Why the job needs attention, or the worst of its group."""
    name: str
    description: str
    tags: tuple[str, ...]
    status: JobStatus
    timezone: str
    next_at: datetime | None
    watermark: datetime | None
    undecided_since: datetime | None
    marks: tuple[Mark, ...]
    cells: tuple[TimelineCell, ...]
    gaps: tuple[Gap, ...]
    future: tuple[datetime, ...]
    future_cells: tuple[FutureCell, ...]
    failing_run: Mark | None
    """The last run that ended, if it failed; it may be outside the period."""


@dataclass(frozen=True, slots=True)
class Timeline(Result):
    VOLATILE: ClassVar = ("now",)

    now: datetime
    from_: datetime
    to: datetime
    since: datetime | None
    """The time of the oldest row in the ledger."""
    jobs: int
    """Jobs that match."""
    total: int
    """Lanes, with the headings of groups."""
    offset: int
    lanes: tuple[Lane, ...]
    downtimes: tuple[Downtime, ...]


@dataclass(frozen=True, slots=True)
class SchedulerState(Result):
    alive: bool
    lag_seconds: float | None


@dataclass(frozen=True, slots=True)
class Hour(Outcomes):
    at: datetime


@dataclass(frozen=True, slots=True)
class JobCounts(Result):
    total: int
    idle: int
    running: int
    paused: int
    error: int
    disabled: int
    finished: int


@dataclass(frozen=True, slots=True)
class DayFigures(Result):
    """The occurrences of the last day, by state."""

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
    skips: Mapping[SkipReason, int]


@dataclass(frozen=True, slots=True)
class Overview(Result):
    VOLATILE: ClassVar = ("now", "scheduler")

    now: datetime
    timezone: str
    node: str
    version: str
    scheduler: SchedulerState
    jobs: JobCounts
    running: tuple[Run, ...]
    running_count: int
    waiting: tuple[Run, ...]
    waiting_count: int
    failed: tuple[Run, ...]
    missed: tuple[Run, ...]
    next: tuple[Fire, ...]
    day: DayFigures
    hours: tuple[Hour, ...]
    lateness: Percentiles
    problems: tuple[DefinitionProblem, ...]

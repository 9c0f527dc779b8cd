"""Results about a future that has not been decided: what a change to the job files would do, and a simulated week."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from evertick.model.lifecycle import SkipReason
from evertick.operations.results.base import Result

DurationSource: TypeAlias = Literal["measured", "given", "assumed"]


@dataclass(frozen=True, slots=True)
class MovedOccurrence(Result):
    """An occurrence that keeps its day in the job's time zone and gets another time."""

    before: datetime
    after: datetime


@dataclass(frozen=True, slots=True)
class RuleChange(Result):
    """A policy or schedule of a job; null where the job had or has none."""

    rule: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class JobDiff(Result):
    """How a job differs between two versions of the job files."""

    job: str
    change: Literal["added", "removed", "changed"]
    timezone: str
    occurrences_before: int
    occurrences_after: int
    added: tuple[datetime, ...]
    removed: tuple[datetime, ...]
    moved: tuple[MovedOccurrence, ...]
    compared_until: datetime
    """Earlier than the end of the period where a job is due so often that its occurrences are not listed further."""
    rules: tuple[RuleChange, ...]
    is_work_changed: bool
    """Whether its steps, commands, parameters or environment differ."""


@dataclass(frozen=True, slots=True)
class ScheduleDiff(Result):
    since: datetime
    until: datetime
    items: tuple[JobDiff, ...]
    """Jobs without a difference are left out."""


@dataclass(frozen=True, slots=True)
class HourForecast(Result):
    start: datetime
    starts: int
    busiest: int
    """The most runs at once."""
    waiting: int
    """The most runs that were due and had not started, at once."""


@dataclass(frozen=True, slots=True)
class JobForecast(Result):
    job: str
    runs: int
    skipped: Mapping[SkipReason, int]
    waited: int
    """Runs that started more than a second after they were due."""
    longest_wait_seconds: float
    late_ends: int
    """Runs that were still active when the job's next occurrence was due."""
    typical_seconds: float
    duration_source: DurationSource


@dataclass(frozen=True, slots=True)
class QueueForecast(Result):
    queue: str
    limit: int
    busiest: int
    waited: int
    longest_wait_seconds: float


@dataclass(frozen=True, slots=True)
class Forecast(Result):
    """The coming days, simulated from the job files and the durations of past runs."""

    since: datetime
    until: datetime
    is_shortened: bool
    """Whether the period was cut because it has too many occurrences."""
    hours: tuple[HourForecast, ...]
    jobs: tuple[JobForecast, ...]
    """Those with skipped, waiting or late runs first."""
    queues: tuple[QueueForecast, ...]

"""Results about a future that has not been decided: what a change of the job files would do, and a simulated week."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from evertick.operations.results.base import Result


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

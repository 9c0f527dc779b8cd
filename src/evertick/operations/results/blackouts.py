"""Results about blackouts: those of the settings and those that were added at run time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from evertick.operations.results.base import Result


class BlackoutState(StrEnum):
    PLANNED = "planned"
    ACTIVE = "active"
    OVER = "over"


class BlackoutOrigin(StrEnum):
    """Where a blackout comes from: only those that were added at run time can be removed there."""

    SETTINGS = "settings"
    ADDED = "added"


@dataclass(frozen=True, slots=True)
class Blackout(Result):
    """An occurrence at `from` is in it, one at `to` is not."""

    id: str
    state: BlackoutState
    from_: datetime
    to: datetime
    reason: str
    jobs: tuple[str, ...]
    """Empty where it concerns jobs by their tags, or all jobs."""
    tags: tuple[str, ...]
    is_for_all: bool
    origin: BlackoutOrigin
    file: str | None
    """Where the settings declare it."""
    added_at: datetime | None
    added_by: str


@dataclass(frozen=True, slots=True)
class Blackouts(Result):
    items: tuple[Blackout, ...]
    timezone: str
    """The zone of times without an offset."""


@dataclass(frozen=True, slots=True)
class AffectedJob(Result):
    """A job with occurrences in a blackout."""

    job: str
    job_name: str
    timezone: str
    occurrences: int
    times: tuple[datetime, ...]
    """The first of them."""


@dataclass(frozen=True, slots=True)
class BlackoutChange(Result):
    """A blackout that was added or removed, or would be, and the occurrences that this concerns."""

    blackout: Blackout
    is_preview: bool
    jobs: int
    """How many jobs have occurrences in it, from now on."""
    occurrences: int
    affected: tuple[AffectedJob, ...]
    """The first of these jobs, by time."""

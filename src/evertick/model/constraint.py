"""What must hold before, during and after a run of a job, and what happens if it does not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from evertick.model.work import Value


class ActionKind(StrEnum):
    RETRY = "retry"
    START_JOB = "startJob"
    WEBHOOK = "webhook"
    KILL = "kill"
    SKIP_NEXT = "skipNext"


class KillTarget(StrEnum):
    THIS = "this"
    """The run that violated the constraint."""
    LATEST = "latest"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Action:
    """An action for a violated constraint."""

    kind: ActionKind
    job_id: str = ""
    """With `startJob`."""
    url: Value = ""
    """With `webhook`."""
    target: KillTarget = KillTarget.THIS
    """With `kill`."""


@dataclass(frozen=True, slots=True)
class MaxConcurrentRuns:
    """At most this many runs at once. The overlap rule enforces it; this says what else happens."""

    limit: int
    on_violation: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class PreRunHook:
    """The address must answer with 200 before the run starts."""

    url: Value
    on_violation: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class PostRunHook:
    """The address must answer with 200 for the run to count as a success."""

    url: Value
    on_violation: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class MaxExpectedRunTime:
    """A run that takes longer is reported as late, and continues."""

    duration_us: int
    on_violation: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class MaxAllowedRunTime:
    """A run that takes longer is ended. The timeout enforces it; this says what else happens."""

    duration_us: int
    on_violation: tuple[Action, ...] = ()


@dataclass(frozen=True, slots=True)
class RequirePreviousSuccess:
    """The latest ended run of each of these jobs must have succeeded."""

    jobs: tuple[str, ...] = ()
    """Empty: of this job itself."""
    on_violation: tuple[Action, ...] = ()


Constraint: TypeAlias = (
    MaxConcurrentRuns | PreRunHook | PostRunHook | MaxExpectedRunTime | MaxAllowedRunTime | RequirePreviousSuccess
)

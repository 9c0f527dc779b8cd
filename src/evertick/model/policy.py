"""The rules of a job for missed, overlapping, late and failed runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from evertick.model.duration import format_duration
from evertick.model.instant import DAY, MINUTE, SECOND

GRACE_US = 30 * SECOND
"""An occurrence this late is still on time."""
MISFIRE_GRACE_US = 5 * SECOND
"""The same, for a job that names a misfire strategy."""
BACKLOG_MAX = 1_000
"""Waiting entries per job: a month of every-minute runs must not become 43,200 launches."""


class Missed(StrEnum):
    """Which missed occurrences run."""

    NONE = "none"
    FIRST = "first"
    LATEST = "latest"
    ALL = "all"


class OverlapKind(StrEnum):
    """What an occurrence does when its job is already active."""

    SKIP = "skip"
    WAIT = "wait"
    LATEST = "latest"
    REPLACE = "replace"
    PARALLEL = "parallel"


class Scope(StrEnum):
    """Where the overlap rule looks for active runs."""

    CLUSTER = "cluster"
    EXECUTOR = "executor"


class Backoff(StrEnum):
    FIXED = "fixed"
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class OnExecutorLost(StrEnum):
    """At-least-once (`retry`) or at-most-once (`fail`)."""

    RETRY = "retry"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Overlap:
    kind: OverlapKind = OverlapKind.SKIP
    limit: int = 1
    """How many runs may be active at once; more than one only with `parallel`."""
    scope: Scope = Scope.CLUSTER

    def __str__(self) -> str:
        return f"parallel({self.limit})" if self.kind is OverlapKind.PARALLEL else str(self.kind)


@dataclass(frozen=True, slots=True)
class Retry:
    """`max_retries` counts the attempts after the first."""

    max_retries: int = 0
    delay_us: int = MINUTE
    backoff: Backoff = Backoff.LINEAR
    cap_us: int = DAY
    jitter: float = 0.0
    """Up to this share of the wait is added, 0 to 1, by a hash of the run and attempt."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """By when an occurrence must have succeeded: a time of day, or a duration after it."""

    by: str = ""
    """`07:30`: the first such time after the occurrence; empty: `within_us` counts."""
    timezone: str = ""
    """The zone of that time."""
    within_us: int = 0

    def __str__(self) -> str:
        return f"by {self.by} ({self.timezone})" if self.by else f"within {format_duration(self.within_us)}"


@dataclass(frozen=True, slots=True)
class Policy:
    missed: Missed = Missed.NONE
    catchup_window_us: int | None = None
    """How far back missed occurrences run; None: no limit."""
    run_missed_one_off: bool = True
    """A missed `at` runs late whatever the other rules say; false if `missed: none` is written."""
    overlap: Overlap = field(default_factory=Overlap)
    grace_us: int = GRACE_US
    jitter_us: int = 0
    """An occurrence starts up to this long after its time; `planning.jitter` decides how long."""
    max_delay_us: int | None = None
    """An occurrence later than this is skipped, also when caught up; jitter does not make it late."""
    skip_if_successful: bool = False
    retry: Retry = field(default_factory=Retry)
    on_executor_lost: OnExecutorLost = OnExecutorLost.RETRY
    backlog_max: int = BACKLOG_MAX
    expectation: Expectation | None = None
    """The deadline of its occurrences."""

    @property
    def on_time_us(self) -> int:
        """How long after its time an occurrence still starts as planned; later it is missed."""
        return self.grace_us + self.jitter_us

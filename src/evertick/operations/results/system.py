"""Results about the system: executors, queues, nodes, the scheduler's status, the verification of the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from evertick.model.lifecycle import RunState
from evertick.model.member import Closed
from evertick.operations.results.base import Result
from evertick.operations.results.runs import Blocker, Run


@dataclass(frozen=True, slots=True)
class MemberRun(Result):
    run: str
    job: str
    job_name: str


@dataclass(frozen=True, slots=True)
class MemberState(Result):
    """A member of an executor, as it was last seen."""

    name: str
    is_healthy: bool
    is_open: bool
    """Whether it accepts new attempts; false while it is drained."""
    closed: Closed | None
    """Why it accepts none."""
    running: int | None
    slots: int | None
    labels: Mapping[str, str]
    is_expected: bool
    """Whether the setting `fleet.expected` names it."""
    offers: Mapping[str, str]
    """The resources that jobs may request there."""
    used: Mapping[str, str]
    """The resources in use by its runs."""
    version: str | None
    address: str | None
    seen_at: datetime | None
    runs: tuple[MemberRun, ...]


@dataclass(frozen=True, slots=True)
class ExecutorLane(Result):
    """How full a lane of the local executor is."""

    under_way: int
    size: int
    waiting: int
    queue: int
    """How many may wait."""


@dataclass(frozen=True, slots=True)
class KeeperState(Result):
    """A process that runs attempts for an executor."""

    name: str
    pid: int | None
    silent_seconds: float
    """Time since it last answered."""
    replaced: int
    """How often it was killed because it did not answer."""
    is_silent: bool


@dataclass(frozen=True, slots=True)
class ExecutorState(Result):
    """An executor of the scheduler, or one that only occurs in runs of the ledger."""

    executor: str
    is_known: bool
    health: Literal["healthy", "degraded", "down", "unknown"]
    """An executor with members is degraded while one is away, and down while none accepts runs."""
    ready: int
    """Members that accept runs."""
    active: int
    runs: tuple[Run, ...]
    members: tuple[MemberState, ...]
    kind: str | None = None
    is_healthy: bool | None = None
    running: int | None = None
    slots: int | None = None
    lanes: Mapping[str, ExecutorLane] | None = None
    keepers: tuple[KeeperState, ...] | None = None


@dataclass(frozen=True, slots=True)
class Executors(Result):
    is_scheduler_running: bool
    items: tuple[ExecutorState, ...]


@dataclass(frozen=True, slots=True)
class QueuedRun(Run):
    blocked_by: Blocker | None


@dataclass(frozen=True, slots=True)
class Queue(Result):
    queue: str
    limit: int | None
    jobs: tuple[str, ...]
    active: int
    waiting: int
    runs: tuple[QueuedRun, ...]


@dataclass(frozen=True, slots=True)
class Queues(Result):
    is_scheduler_running: bool
    items: tuple[Queue, ...]


@dataclass(frozen=True, slots=True)
class NodeRun(MemberRun):
    state: RunState
    if_lost: RunState
    """The state that the run gets when its node is given up: `retrying` or `lost`."""


@dataclass(frozen=True, slots=True)
class NodeState(Result):
    node: str
    buckets: int
    is_alive: bool
    is_here: bool
    lease_until: datetime | None
    awaited_until: datetime | None
    """Until when the other nodes leave its runs alone although it is away."""
    is_expected_back: bool
    """Whether it was stopped cleanly and announced that it returns."""
    active: int
    """Runs on its own machine, according to the ledger."""
    runs: tuple[NodeRun, ...]
    """The first of these runs."""
    lag_seconds: float | None
    version: str | None
    started_at: datetime | None
    jobs: int | None


@dataclass(frozen=True, slots=True)
class Nodes(Result):
    is_scheduler_running: bool
    items: tuple[NodeState, ...]


@dataclass(frozen=True, slots=True)
class ForgottenNode(Result):
    node: str
    was_alive: bool
    is_scheduler_running: bool
    active: int
    """Runs that it had."""
    runs: tuple[NodeRun, ...]
    """The first of these runs."""


@dataclass(frozen=True, slots=True)
class Status(Result):
    is_scheduler_running: bool
    status: Mapping[str, object] | None
    """The scheduler's own report; null if there is none to ask."""


@dataclass(frozen=True, slots=True)
class Finding(Result):
    kind: Literal["lost", "duplicate", "miscounted", "stray", "stuck", "wrong-count"]
    job: str
    """Empty for a wrong count, which covers all jobs."""
    text: str


@dataclass(frozen=True, slots=True)
class Verification(Result):
    """Whether the ledger has every occurrence exactly once."""

    is_sound: bool
    occurrences: int
    runs: int
    skips: Mapping[str, int]
    gaps: int
    lost: int
    duplicates: int
    miscounted: int
    strays: int
    stuck: int
    wrong_counts: int
    """Hourly counts that differ from the entries of the ledger."""
    findings: tuple[Finding, ...]

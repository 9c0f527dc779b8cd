"""How answers about the machinery look: executors, queues, nodes, the proof of the ledger."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from evertick.api.models_base import Moment, Shape
from evertick.api.models_runs import Run
from evertick.model.lifecycle import RunState


class MemberRun(Shape):
    run: str
    job: str
    job_name: str


class MemberState(Shape):
    """One of those that run attempts for a place, as it was last seen."""

    name: str
    is_healthy: bool
    is_open: bool = Field(description="Whether it takes new attempts; not while it is drained.")
    closed: Literal["cordoned", "leaving", "lease-too-long"] | None = Field(description="Why it takes none.")
    running: int | None
    slots: int | None
    labels: dict[str, str]
    is_expected: bool = Field(description="Whether the setting `fleet.expected` names it.")
    offers: dict[str, str] = Field(description="The resources that jobs may ask for there.")
    used: dict[str, str] = Field(description="What of them was asked for by what runs there.")
    version: str | None
    address: str | None
    seen_at: Moment | None
    runs: list[MemberRun]


class ExecutorState(BaseModel):
    """A place that runs attempts; what the scheduler tells of it beside these depends on its kind."""

    model_config = ConfigDict(extra="allow")

    executor: str
    is_known: bool
    health: Literal["healthy", "degraded", "down", "unknown"] = Field(
        description="Of a place with members: degraded where one is away, down where none takes runs."
    )
    ready: int = Field(description="Members that take runs.")
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


class NodeRun(MemberRun):
    state: RunState
    if_lost: RunState = Field(description="`retrying` or `lost`: the state of the run when its node is given up.")


class NodeState(Shape):
    node: str
    buckets: int
    is_alive: bool
    is_here: bool
    lease_until: Moment | None
    awaited_until: Moment | None = Field(description="Until when the others leave its runs to it, although it is away.")
    is_expected_back: bool = Field(description="Whether it was stopped in order, and announced its return.")
    active: int = Field(description="What runs on its own machine, by the ledger.")
    runs: list[NodeRun] = Field(description="The first of them.")
    lag_seconds: float | None
    version: str | None
    started_at: Moment | None
    jobs: int | None


class Nodes(Shape):
    is_scheduler_running: bool
    items: list[NodeState]


class ForgottenNode(Shape):
    node: str
    was_alive: bool
    is_scheduler_running: bool
    active: int = Field(description="Runs that it had.")
    runs: list[NodeRun] = Field(description="The first of them.")


class Status(Shape):
    is_scheduler_running: bool
    status: dict[str, Any] | None


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
    stuck: int
    findings: list[Finding]


class Health(Shape):
    status: str
    reasons: list[str]

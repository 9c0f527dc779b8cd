"""Reads a scheduler's report about itself: plain data that came from another process, of any version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from evertick.model.member import Closed
from evertick.operations.results.jobs import Percentiles
from evertick.operations.results.system import ExecutorLane, KeeperState


@dataclass(frozen=True, slots=True)
class MemberReport:
    """An executor of one node, or a member of one that has several."""

    kind: str | None
    member: str | None
    is_healthy: bool | None
    is_open: bool
    closed: Closed | None
    running: int | None
    slots: int | None
    labels: Mapping[str, str]
    is_expected: bool
    offers: Mapping[str, str]
    used: Mapping[str, str]
    version: str | None
    address: str | None
    seen_at: datetime | None
    lanes: Mapping[str, ExecutorLane] | None
    keepers: tuple[KeeperState, ...] | None


@dataclass(frozen=True, slots=True)
class ClockJump:
    at: str
    seconds: float
    count: int
    """Jumps since the scheduler started."""


@dataclass(frozen=True, slots=True)
class SchedulerReport:
    node: str
    version: str | None
    started_at: datetime | None
    lag_seconds: float | None
    """How far planning is behind."""
    owned_jobs: int | None
    lateness: Percentiles | None
    """None until a run has started."""
    queue_limits: Mapping[str, int | None] = field(default_factory=dict)
    executors: Mapping[str, MemberReport] = field(default_factory=dict)
    """By the name that runs carry: `local@node`, or the executor with its member."""
    integrity: str | None = None
    """The state of the last full check of the ledger."""
    integrity_finding: str = ""
    clock_jump: ClockJump | None = None


def read_report(data: Mapping[str, Any]) -> SchedulerReport:
    """What the report has; a field that another version does not send is None."""
    return SchedulerReport(
        node=str(data.get("node", "")),
        version=data.get("version"),
        started_at=_moment(data.get("started_at")),
        lag_seconds=_part(data, "planner").get("lag_seconds"),
        owned_jobs=_part(data, "jobs").get("owned"),
        lateness=_percentiles(_part(data, "lateness_seconds")),
        queue_limits={name: _part({name: queue}, name).get("limit") for name, queue in _part(data, "queues").items()},
        executors={name: read_member(one) for name, one in _part(data, "executors").items()},
        integrity=_part(data, "integrity").get("state"),
        integrity_finding=str(_part(data, "integrity").get("finding") or ""),
        clock_jump=_clock_jump(_part(data, "time")),
    )


def _clock_jump(data: Mapping[str, Any]) -> ClockJump | None:
    last = _part(data, "last_jump")
    return ClockJump(last["at"], last["seconds"], int(data.get("clock_jumps") or 1)) if last else None


def read_member(data: Mapping[str, Any]) -> MemberReport:
    lanes, keepers, closed = data.get("lanes"), data.get("keepers"), data.get("closed")
    return MemberReport(
        kind=data.get("kind"),
        member=data.get("member"),
        is_healthy=data.get("is_healthy"),
        is_open=bool(data.get("is_open")),
        closed=Closed(closed) if closed in set(Closed) else None,
        running=data.get("running"),
        slots=data.get("slots"),
        labels=_part(data, "labels"),
        is_expected=bool(data.get("is_expected")),
        offers=_part(data, "offers"),
        used=_part(data, "used"),
        version=data.get("version"),
        address=data.get("address"),
        seen_at=_moment(data.get("seen_at")),
        lanes=None if lanes is None else {name: ExecutorLane(**lane) for name, lane in lanes.items()},
        keepers=None if keepers is None else tuple(KeeperState(**keeper) for keeper in keepers),
    )


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, Mapping) else {}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _percentiles(histogram: Mapping[str, Any]) -> Percentiles | None:
    if not histogram.get("count"):
        return None
    found = _part(histogram, "percentiles")
    return Percentiles(
        found.get("10"), found.get("50"), found.get("90"), found.get("95"), found.get("99"), histogram.get("max")
    )

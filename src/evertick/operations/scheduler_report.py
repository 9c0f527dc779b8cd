"""Asks a running scheduler for its report about itself: plain data from another process, of any version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from evertick.model.member import Closed
from evertick.model.plain_json import Json, flag_in, number_in, object_in, text_in, whole_in
from evertick.operations.results.jobs import Percentiles
from evertick.operations.results.system import ExecutorLane, KeeperState, MemberState


@dataclass(frozen=True, slots=True)
class MemberReport:
    """An executor of one node, or a member of one that has several."""

    kind: str | None
    member: str | None
    is_healthy: bool | None
    """None: another version, which does not report it."""
    state: MemberState
    """Without its runs, which the ledger knows."""
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


def read_report(data: Mapping[str, Json]) -> SchedulerReport:
    """What the report has; a field that another version does not send is None, or 0 where it is a count."""
    queues, executors, integrity = (object_in(data, name) for name in ("queues", "executors", "integrity"))
    return SchedulerReport(
        node=str(data.get("node", "")),
        version=text_in(data, "version"),
        started_at=_moment(text_in(data, "started_at")),
        lag_seconds=number_in(object_in(data, "planner"), "lag_seconds"),
        owned_jobs=whole_in(object_in(data, "jobs"), "owned"),
        lateness=_percentiles(object_in(data, "lateness_seconds")),
        queue_limits={name: whole_in(object_in(queues, name), "limit") for name in queues},
        executors={name: read_member(object_in(executors, name)) for name in executors},
        integrity=text_in(integrity, "state"),
        integrity_finding=text_in(integrity, "finding") or "",
        clock_jump=_clock_jump(object_in(data, "time")),
    )


def _clock_jump(data: Mapping[str, Json]) -> ClockJump | None:
    last = object_in(data, "last_jump")
    at, seconds = text_in(last, "at"), number_in(last, "seconds")
    if at is None or seconds is None:
        return None
    return ClockJump(at, seconds, whole_in(data, "clock_jumps") or 1)


def read_member(data: Mapping[str, Json]) -> MemberReport:
    closed = text_in(data, "closed")
    member, is_healthy = text_in(data, "member"), flag_in(data, "is_healthy")
    state = MemberState(
        name=member or "",
        is_healthy=bool(is_healthy),
        is_open=bool(data.get("is_open")),
        closed=Closed(closed) if closed in set(Closed) else None,
        running=whole_in(data, "running"),
        slots=whole_in(data, "slots"),
        labels=_texts(data, "labels"),
        is_expected=bool(data.get("is_expected")),
        offers=_texts(data, "offers"),
        used=_texts(data, "used"),
        version=text_in(data, "version"),
        address=text_in(data, "address"),
        seen_at=_moment(text_in(data, "seen_at")),
        runs=(),
    )
    return MemberReport(text_in(data, "kind"), member, is_healthy, state, _lanes(data), _keepers(data))


def _texts(data: Mapping[str, Json], name: str) -> Mapping[str, str]:
    return {key: str(value) for key, value in object_in(data, name).items()}


def _lanes(data: Mapping[str, Json]) -> Mapping[str, ExecutorLane] | None:
    if not isinstance(data.get("lanes"), Mapping):
        return None
    lanes = object_in(data, "lanes")
    return {name: _lane(object_in(lanes, name)) for name in lanes}


def _lane(data: Mapping[str, Json]) -> ExecutorLane:
    under_way, size, waiting, queue = (whole_in(data, name) or 0 for name in ("under_way", "size", "waiting", "queue"))
    return ExecutorLane(under_way, size, waiting, queue)


def _keepers(data: Mapping[str, Json]) -> tuple[KeeperState, ...] | None:
    keepers = data.get("keepers")
    if not isinstance(keepers, list):
        return None
    return tuple(_keeper(keeper) for keeper in keepers if isinstance(keeper, Mapping))


def _keeper(data: Mapping[str, Json]) -> KeeperState:
    return KeeperState(
        name=text_in(data, "name") or "",
        pid=whole_in(data, "pid"),
        silent_seconds=number_in(data, "silent_seconds") or 0.0,
        replaced=whole_in(data, "replaced") or 0,
        is_silent=flag_in(data, "is_silent") or False,
    )


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _percentiles(histogram: Mapping[str, Json]) -> Percentiles | None:
    if not histogram.get("count"):
        return None
    found = object_in(histogram, "percentiles")
    p10, p50, p90, p95, p99 = (number_in(found, share) for share in ("10", "50", "90", "95", "99"))
    return Percentiles(p10, p50, p90, p95, p99, number_in(histogram, "max"))

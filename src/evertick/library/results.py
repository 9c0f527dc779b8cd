"""What the library answers with: values with the names that every surface uses, and times as aware datetimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """A line of the ledger: a run, or a skip with its reason."""

    run: str
    """Its id: `report@2026-03-02T09:00:00Z`."""
    job: str
    scheduled_for: datetime
    state: str
    trigger: str
    reason: str | None = None
    """Why it was skipped."""
    attempt: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_seconds: float | None = None
    detail: str = ""
    """What the function returned or raised, or what a decision rested on."""
    executor: str = ""
    exit_code: int | None = None
    loss: str | None = None
    """Why its newest attempt was lost, where it was: a word such as `lease-expired` or `process-gone`."""
    decided_at: datetime | None = None
    decided_by: str = ""
    request: str | None = None
    params: Any = None
    through: datetime | None = None
    """Of a gap: its last occurrence."""
    occurrences: int = 1
    """Of a gap: how many there are."""

    @property
    def is_success(self) -> bool:
        return self.state == "succeeded"

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


ENDED = frozenset({"succeeded", "failed", "timed_out", "cancelled", "lost", "skipped"})


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a job stands."""

    job: str
    name: str
    status: str
    """`idle`, `running`, `paused`, `error`, `disabled` or `finished`."""
    timezone: str
    schedules: tuple[str, ...] = ()
    next_at: datetime | None = None
    last: Run | None = None
    """The run that is the newest of those that ended."""
    active: int = 0
    """Runs that occupy it."""
    waiting: int = 0
    """Runs that have come due and may not start yet."""
    watermark: datetime | None = None
    """Every occurrence up to then is in the ledger; None: no scheduler has seen the job yet."""
    last_success_for: datetime | None = None
    paused_at: datetime | None = None
    pause_note: str = ""
    error: str = ""
    file: str | None = None
    """Where it is defined: a job file, or a line of code."""
    description: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Upcoming:
    job: str
    scheduled_for: datetime
    timezone: str
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Backfill:
    """What a backfill was asked to run."""

    job: str
    request: str | None
    """Its id; None for a preview."""
    chosen: tuple[datetime, ...] = ()
    left: tuple[tuple[datetime, str], ...] = ()
    """Occurrences of the window that do not run, and why."""
    runs: tuple[Run, ...] = ()
    """What became of them, where it was waited for."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of an occurrence, and why. `str()` of it is what `evertick why` prints."""

    job: str
    scheduled_for: datetime
    timezone: str
    outcome: str
    """The state of a run, or `due`, `undecided`, `missing`, `unknown`, `no occurrence`."""
    reason: str | None = None
    sentences: tuple[str, ...] = ()
    run: Run | None = None
    text: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Proof:
    """What a look through the whole ledger has found: whether it holds every occurrence, once."""

    is_sound: bool
    occurrences: int
    runs: int
    gaps: int = 0
    lost: int = 0
    duplicates: int = 0
    miscounted: int = 0
    strays: int = 0
    stuck: int = 0
    skips: Mapping[str, int] = field(default_factory=dict)
    """By reason."""


_MOMENTS = frozenset(
    {"scheduled_for", "started_at", "finished_at", "decided_at", "through", "next_at", "watermark", "last_success_for"}
    | {"paused_at"}
)
_RUNS = frozenset({"last", "run"})


def made_of(kind: type[T], data: Mapping[str, Any]) -> T:
    """A value from the data that every surface shares; what this kind has no name for is left out."""
    return kind(**{name: _typed(name, value) for name, value in data.items() if name in _fields(kind)})


def run_of(data: Mapping[str, Any]) -> Run:
    return made_of(Run, data)


def _fields(kind: type) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return fields


def _typed(name: str, value: Any) -> Any:
    if isinstance(value, str) and name in _MOMENTS:
        return datetime.fromisoformat(value)
    if isinstance(value, Mapping) and name in _RUNS:
        return run_of(value)
    if isinstance(value, list):
        return tuple(run_of(one) if isinstance(one, Mapping) else one for one in value)
    return value

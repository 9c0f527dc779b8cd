"""The states of a run, and the transitions between them.

The table below is the only definition: the check, the diagram in the docs and the tests read it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class RunState(StrEnum):
    PLANNED = "planned"
    WAITING = "waiting"
    LAUNCHING = "launching"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"
    SKIPPED = "skipped"


class SkipReason(StrEnum):
    """Why an occurrence did not become a run."""

    OVERLAP = "overlap"
    SUPERSEDED = "superseded"
    MISSED = "missed"
    LATE = "late"
    PAUSED = "paused"
    ALREADY_SUCCEEDED = "already-succeeded"
    CONDITION = "condition"
    CAP = "cap"
    DISABLED = "disabled"
    NO_EXECUTOR = "no-executor"
    SATURATED = "saturated"
    CALENDAR = "calendar"


class Trigger(StrEnum):
    """Why a run exists."""

    SCHEDULER = "scheduler"
    CATCHUP = "catchup"
    BACKFILL = "backfill"
    MANUAL = "manual"
    API = "api"
    WEBHOOK = "webhook"
    RETRY = "retry"
    CHAINED = "chained"
    SUBJOB = "subjob"
    ITEM = "item"


class JobStatus(StrEnum):
    """The status of a job."""

    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused"
    ERROR = "error"
    DISABLED = "disabled"
    FINISHED = "finished"


class Light(StrEnum):
    """Whether a job can be relied on now."""

    ON_TIME = "on time"
    LATE = "late"
    """A deadline has passed or a run has failed, and a run is under way or waits."""
    DOWN = "down"
    """A deadline has passed or a run has failed, and nothing is under way."""


PLANNED, WAITING, LAUNCHING, RUNNING, RETRYING = (
    RunState.PLANNED,
    RunState.WAITING,
    RunState.LAUNCHING,
    RunState.RUNNING,
    RunState.RETRYING,
)
SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, LOST, SKIPPED = (
    RunState.SUCCEEDED,
    RunState.FAILED,
    RunState.TIMED_OUT,
    RunState.CANCELLED,
    RunState.LOST,
    RunState.SKIPPED,
)

# launching -> waiting: the executor refused (full, unreachable); the entry is tried again and never lost.
TRANSITIONS: Final[dict[RunState, frozenset[RunState]]] = {
    PLANNED: frozenset({WAITING, LAUNCHING, SKIPPED, CANCELLED}),
    WAITING: frozenset({LAUNCHING, SKIPPED, CANCELLED}),
    LAUNCHING: frozenset({WAITING, RUNNING, RETRYING, SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, LOST, SKIPPED}),
    RUNNING: frozenset({RETRYING, SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, LOST}),
    RETRYING: frozenset({LAUNCHING, FAILED, TIMED_OUT, CANCELLED, LOST}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset(),
    TIMED_OUT: frozenset(),
    CANCELLED: frozenset(),
    LOST: frozenset(),
    SKIPPED: frozenset(),
}

TERMINAL: Final = frozenset(state for state, following in TRANSITIONS.items() if not following)
OPEN: Final = frozenset(TRANSITIONS) - TERMINAL
ENDED: Final = TERMINAL - {SKIPPED}
"""States in which a run has ended that was started, or would have been."""
ACTIVE: Final = frozenset({LAUNCHING, RUNNING, RETRYING})
"""States in which a run occupies its job, as the overlap rule counts it."""


def exit_code_text(code: int | None) -> str:
    """The detail of an attempt or a step of which nothing is known but its exit code."""
    return "unknown exit code" if code is None else f"exit code {code}"


def beyond_exit_code(detail: str, code: int | None) -> str:
    """What a detail says besides the exit code, which has a field of its own."""
    return "" if code is not None and detail == exit_code_text(code) else detail


def may_move(old: RunState, new: RunState) -> bool:
    """Whether a run in state `old` may become `new`."""
    return new in TRANSITIONS[old]

"""What does an occurrence that is due do: does it start, wait, or is it skipped for an earlier or active run?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from evertick.model.instant import Instant
from evertick.model.lifecycle import Trigger
from evertick.model.policy import Overlap, OverlapKind


class Admission(Enum):
    START = auto()
    WAIT = auto()
    """Behind those that wait already."""
    SKIP = auto()
    SUPERSEDE = auto()
    """Take the place of the ones that wait: they are skipped, this one waits."""
    REPLACE = auto()
    """End the active runs, drop those that wait, and start when the old ones have really ended."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What a job is busy with."""

    active: int = 0
    waiting: int = 0


def admit(overlap: Overlap, occupancy: Occupancy) -> Admission:
    """The one rule for live, caught-up, manual and API runs."""
    limit = overlap.limit if overlap.kind is OverlapKind.PARALLEL else 1
    is_free = occupancy.active < limit
    match overlap.kind:
        case OverlapKind.SKIP:
            # A kept missed occurrence that still waits for its turn counts as active: it will be, in a moment.
            return Admission.START if is_free and not occupancy.waiting else Admission.SKIP
        case OverlapKind.WAIT | OverlapKind.PARALLEL:
            # No run overtakes: if others wait, a newcomer goes to the end even if it could start.
            return Admission.START if is_free and not occupancy.waiting else Admission.WAIT
        case OverlapKind.LATEST:
            if is_free and not occupancy.waiting:
                return Admission.START
            return Admission.SUPERSEDE if occupancy.waiting else Admission.WAIT
        case OverlapKind.REPLACE:
            return Admission.START if is_free and not occupancy.waiting else Admission.REPLACE


def may_leave_queue(overlap: Overlap, active: int) -> bool:
    """Whether the oldest waiting run may start now."""
    return active < (overlap.limit if overlap.kind is OverlapKind.PARALLEL else 1)


def already_succeeded(trigger: Trigger, previous_for: Instant | None, last_success_at: Instant | None) -> bool:
    """Whether a run succeeded since the previous occurrence, whose own run does not count.

    Only a live occurrence is checked: a caught-up or backfilled one is for its own time, and a requested run always
    runs. `previous_for` is the previous due time; None if this is the first.
    """
    if trigger is not Trigger.SCHEDULER or last_success_at is None:
        return False
    return previous_for is None or last_success_at > previous_for

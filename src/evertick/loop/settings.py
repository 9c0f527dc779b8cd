"""How the loop is paced, and the limits on what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from evertick.errors import SettingsError
from evertick.model.duration import format_duration
from evertick.model.instant import SECOND


@dataclass(frozen=True, slots=True)
class LoopSettings:
    preread_us: int = 5 * SECOND
    """Occurrences are entered in the ledger this long before they are due."""
    loop_interval_us: int = SECOND
    """How often the loop plans, whatever else wakes it."""
    grace_us: int = 30 * SECOND
    """How long an ended run stays in memory, for questions about it."""
    flush_interval_us: int = 5 * SECOND
    """With nothing due, how often the ledger learns how far planning has come."""
    retire_grace_us: int = 60 * SECOND
    """How long a job whose definition went away keeps its place, for an editor that deletes and creates."""
    batches_in_flight_max: int = 4
    """Planning pauses while so many commits are unanswered: a slow ledger is met with patience, not with memory."""
    changes_in_flight_max: int = 100_000
    launch_retry_us: int = SECOND
    """The first wait after an executor refused a run; it doubles up to a minute."""
    queues: tuple[tuple[str, int], ...] = ()
    """How many runs of the jobs in each named queue may be active at once on this node."""
    clock_jump_us: int = 2 * SECOND
    """A difference between wall and monotonic clock above this is a jump."""
    stall_us: int = 5 * SECOND
    """A pause of the loop above this is a stall."""

    def __post_init__(self) -> None:
        for name in ("preread_us", "loop_interval_us", "grace_us", "flush_interval_us"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{_said(name)} must be longer than zero.")
        for name in ("batches_in_flight_max", "changes_in_flight_max"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1.")
        self._require("preread_us", "loop_interval_us", "an occurrence must be entered before it is due")
        self._require("grace_us", "loop_interval_us", "an ended run must outlive one iteration")

    def _require(self, longer: str, shorter: str, because: str) -> None:
        if getattr(self, longer) < getattr(self, shorter):
            raise SettingsError(
                f"{_said(longer)} ({format_duration(getattr(self, longer))}) must not be shorter than "
                f"{_said(shorter)} ({format_duration(getattr(self, shorter))}): {because}."
            )


def _said(name: str) -> str:
    return name.removesuffix("_us")

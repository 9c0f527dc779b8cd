"""What the loop has done so far, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from evertick.model.instant import MILLISECOND, Instant


class Histogram:
    """Durations, as percentiles: steps grow by an eighth, which is the precision of every result."""

    __slots__ = ("_counts", "count", "total_us", "worst_us")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0
        self.total_us = 0
        self.worst_us = 0

    def add(self, late_us: int) -> None:
        if late_us < 0:
            late_us = 0
        self._counts[_step_of(late_us)] += 1
        self.count += 1
        self.total_us += late_us
        if late_us > self.worst_us:
            self.worst_us = late_us

    def percentile_us(self, percent: float) -> int:
        """The lateness that at least this share of the runs did not exceed."""
        wanted = self.count * percent / 100
        seen = 0
        # On a copy: other threads read it too.
        counts = self._counts.copy()
        for step in sorted(counts):
            seen += counts[step]
            if seen >= wanted:
                return min(_top_of(step), self.worst_us)
        return 0

    def at_most(self, bounds_us: Sequence[int]) -> list[int]:
        """For each bound, ascending, how many durations were at most that long; to the precision of a step."""
        counts = sorted(self._counts.copy().items())
        found, seen, place = [], 0, 0
        for bound in bounds_us:
            while place < len(counts) and _top_of(counts[place][0]) <= bound:
                seen += counts[place][1]
                place += 1
            found.append(seen)
        return found


Lateness = Histogram
"""How late runs started."""


def _step_of(late_us: int) -> int:
    """Eight steps to each doubling, from a hundredth of a millisecond up."""
    units = late_us // (MILLISECOND // 100)
    if units < 8:
        return units
    doublings = units.bit_length() - 4
    return 8 * (doublings + 1) + (units >> doublings) - 8


def _top_of(step: int) -> int:
    if step < 8:
        return (step + 1) * (MILLISECOND // 100)
    doublings, eighth = divmod(step, 8)
    return ((eighth + 8 + 1) << (doublings - 1)) * (MILLISECOND // 100)


@dataclass(slots=True)
class Statistics:
    iterations: int = 0
    entered: int = 0
    """Occurrences entered in the ledger as planned runs."""
    launched: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    """Runs that ended, by state."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Occurrences skipped, by reason."""
    refused_reports: int = 0
    """Reports that came too late to count: about another attempt, or about a run that had ended."""
    clock_jumps: int = 0
    last_jump: tuple[Instant, int] | None = None
    """When the clock was last changed, and by how many microseconds."""
    stalls: int = 0
    planning_held_back: int = 0
    """Iterations without planning, because the ledger was behind."""
    fenced: int = 0
    """Batches refused because this node had lost the buckets."""
    deadlines_missed: int = 0
    """Deadlines that passed without a success; those of a downtime count once for each job."""
    repaired: int = 0
    """Entries that were stuck and were resumed."""
    lateness: Lateness = field(default_factory=Lateness)
    """For occurrences that were started on time: not caught up, and without a wait."""
    request_delay: Histogram = field(default_factory=Histogram)
    """From the request of a run (manual, backfill, chained and so on) to its start."""

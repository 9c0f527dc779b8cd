"""What one machine believes the time to be."""

from __future__ import annotations

from evertick.model.instant import Instant
from evertick.testing.timeline import Timeline

_MILLION = 1_000_000


class SimulatedClock:
    """The clocks of a machine beside true time, which a test can set wrong in every way a real one goes.

    It has the methods of the scheduler's own clock and can be given to it instead.
    """

    __slots__ = ("_ahead_us", "_drift_ppm", "_drifts_since", "_slept_us", "_timeline")

    def __init__(self, timeline: Timeline, drift_ppm: int = 0) -> None:
        self._timeline = timeline
        self._ahead_us = 0
        self._slept_us = 0
        self._drift_ppm = drift_ppm
        self._drifts_since = timeline.now

    @property
    def ahead_us(self) -> int:
        """How far it is ahead of true time; negative: behind."""
        return self._ahead_us + self._drift_ppm * (self._timeline.now - self._drifts_since) // _MILLION

    def now(self) -> Instant:
        """The wall clock."""
        return self._timeline.now + self.ahead_us

    def monotonic_us(self) -> int:
        """The clock that nobody sets; it stands still while the machine sleeps."""
        return self._timeline.now - self._slept_us

    def boottime_us(self) -> int:
        """The clock that nobody sets and that counts suspend: true time."""
        return self._timeline.now

    def jump(self, by_us: int) -> None:
        """Somebody sets the wall clock, forward or back."""
        self._ahead_us += by_us

    def sleep(self, for_us: int) -> None:
        """The machine is suspended: the monotonic clock misses this stretch, the wall clock does not."""
        self._slept_us += for_us

    def settle(self) -> None:
        """Drift no more."""
        self._ahead_us, self._drift_ppm = self.ahead_us, 0

"""The world of the simulator without threads or waiting: true time and its events, clocks beside it, a trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from evertick.model.instant import Instant, to_text
from evertick.model.run import RunKey


class Timeline:
    """True time, which no clock of the simulation shows exactly, and the events that are still to happen.

    Two events of one instant happen in the order they were put down, so that a seed says everything.
    """

    __slots__ = ("_events", "_number", "happened", "now")

    def __init__(self, now: Instant) -> None:
        self.now = now
        self.happened = 0
        """How many events there were."""
        self._events: list[tuple[Instant, int, Callable[..., None], tuple[object, ...]]] = []
        self._number = 0

    def at(self, instant: Instant, action: Callable[..., None], *args: object) -> None:
        """Let something happen at an instant; one that has passed means now."""
        self._number += 1
        heappush(self._events, (max(instant, self.now), self._number, action, args))

    def after(self, delay_us: int, action: Callable[..., None], *args: object) -> None:
        self.at(self.now + delay_us, action, *args)

    def run_until(self, end: Instant) -> None:
        """Let everything happen that happens until then."""
        events = self._events
        while events and events[0][0] <= end:
            self.now, _, action, args = heappop(events)
            self.happened += 1
            action(*args)
        self.now = max(self.now, end)


class Caller(NamedTuple):
    """A process of a node; when it dies, it no longer receives answers."""

    node: str
    incarnation: int


_MILLION = 1_000_000


class SimulatedClock:
    """The clocks of a machine, which a test can set wrong in every way that a real clock goes wrong.

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
        """A clock that cannot be set; it stops while the machine is suspended."""
        return self._timeline.now - self._slept_us

    def boottime_us(self) -> int:
        """A clock that cannot be set and counts suspend: true time."""
        return self._timeline.now

    def jump(self, by_us: int) -> None:
        """Set the wall clock forward or back."""
        self._ahead_us += by_us

    def sleep(self, for_us: int) -> None:
        """Suspend the machine: the monotonic clock stops, the wall clock does not."""
        self._slept_us += for_us

    def settle(self) -> None:
        """Stop drifting."""
        self._ahead_us, self._drift_ppm = self.ahead_us, 0


LENGTH = 400


class Trace:
    """The last events, formatted only when they are read."""

    __slots__ = ("_events", "_timeline")

    def __init__(self, timeline: Timeline, length: int = LENGTH) -> None:
        self._timeline = timeline
        self._events: deque[tuple[int, str, str, tuple[object, ...]]] = deque(maxlen=length)

    def add(self, who: str, what: str, *args: object) -> None:
        self._events.append((self._timeline.now, who, what, args))

    def lines(self) -> tuple[str, ...]:
        return tuple(
            f"{to_text(at)[11:]:>16} {who:8} {what % tuple(_said(arg) for arg in args)}"
            for at, who, what, args in self._events
        )


def _said(value: object) -> object:
    if isinstance(value, RunKey):
        return value.run_id
    if isinstance(value, Mapping):
        return " ".join(f"{name}={_said(one)}" for name, one in value.items())
    return value

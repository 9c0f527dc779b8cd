"""What happens when, in a world without threads or waiting: true time, and what is to come in it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from evertick.model.instant import Instant


class Timeline:
    """True time, which no clock of the simulation shows exactly, and the events that are still to happen.

    Two events of one instant happen in the order they were put down, so that a seed says everything.
    """

    __slots__ = ("_events", "_number", "happened", "now")

    def __init__(self, now: Instant) -> None:
        self.now = now
        self.happened = 0
        """How many events there were."""
        self._events: list[tuple[Instant, int, Callable[..., None], tuple[Any, ...]]] = []
        self._number = 0

    def at(self, instant: Instant, action: Callable[..., None], *args: Any) -> None:
        """Let something happen at an instant; one that has passed means now."""
        self._number += 1
        heappush(self._events, (max(instant, self.now), self._number, action, args))

    def after(self, delay_us: int, action: Callable[..., None], *args: Any) -> None:
        self.at(self.now + delay_us, action, *args)

    def run_until(self, end: Instant) -> None:
        """Let everything happen that happens until then."""
        events = self._events
        while events and events[0][0] <= end:
            self.now, _, action, args = heappop(events)
            self.happened += 1
            action(*args)
        self.now = max(self.now, end)

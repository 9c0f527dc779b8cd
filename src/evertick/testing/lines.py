"""One direction of a connection: what is sent arrives in order, and late or not at all while the line is cut."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from evertick.model.instant import MILLISECOND, Instant
from evertick.testing.timeline import Timeline

LATENCY_US = 20 * MILLISECOND


class Line:
    def __init__(self, timeline: Timeline, random: Random) -> None:
        self._timeline = timeline
        self._random = random
        self._last_at: Instant = 0
        self._cut_until: Instant = 0
        self._is_lossy = False

    @property
    def is_cut(self) -> bool:
        return self._timeline.now < self._cut_until

    def cut(self, until: Instant, *, is_lossy: bool) -> None:
        """What is sent from now on waits in buffers until then, or is lost with the connection."""
        self._cut_until, self._is_lossy = until, is_lossy

    def lose(self) -> None:
        """The connection is given up: what waits has been sent; what follows is lost."""
        self._is_lossy = True

    def carry(self, action: Callable[..., None], *args: object) -> None:
        if self.is_cut and self._is_lossy:
            return
        soon = self._timeline.now + self._random.randrange(LATENCY_US)
        at = max(self._cut_until if self.is_cut else soon, self._last_at + 1)
        self._last_at = at
        self._timeline.at(at, action, *args)

"""Checks after each turn that the loop noticed clock jumps and stalls, and makes progress."""

from __future__ import annotations

from evertick.loop.state import State
from evertick.model.instant import SECOND, Instant
from evertick.testing.invariants import Violation

TURNS_PER_SECOND_MAX = 5_000
"""A loop that turns faster than this does not get anywhere."""


class TurnWatch:
    """What was done to the clocks of one node since its last turn."""

    def __init__(self, name: str) -> None:
        self.turns = 0
        self._name = name
        self._jumped_us = 0
        self._stalled_us = 0
        self._second = (0, 0)

    def begin(self) -> None:
        """A new process knows nothing of the previous one."""
        self._jumped_us = self._stalled_us = 0

    def jumped(self, by_us: int) -> None:
        self._jumped_us += by_us

    def stalled(self, for_us: int) -> None:
        self._stalled_us += for_us

    def check(self, state: State, before: tuple[int, int], drift_max_ppm: int, now: Instant) -> None:
        """`before` is how many jumps and stalls the loop had noticed before this turn."""
        self._check_time(state, before, drift_max_ppm)
        self._check_pace(now)

    def _check_time(self, state: State, before: tuple[int, int], drift_max_ppm: int) -> None:
        settings, (jumps, stalls) = state.settings, before
        if state.statistics.iterations > 1:
            # While it stood still its clocks drifted apart, which may hide a small jump.
            apart_us = self._stalled_us * drift_max_ppm // 1_000_000
            least_us = settings.clock_jump_us + SECOND + apart_us
            if abs(self._jumped_us) > least_us and state.statistics.clock_jumps == jumps:
                raise Violation(f"{self._name}: its clock went wrong by {self._jumped_us} us, and nobody noticed")
            if self._stalled_us > settings.stall_us + SECOND and state.statistics.stalls == stalls:
                raise Violation(f"{self._name}: it stood still for {self._stalled_us} us, and nobody noticed")
        self._jumped_us = self._stalled_us = 0
        self.turns += 1

    def _check_pace(self, now: Instant) -> None:
        second, turns = self._second
        self._second = (now // SECOND, turns + 1 if now // SECOND == second else 1)
        if turns > TURNS_PER_SECOND_MAX:
            raise Violation(f"{self._name}: the loop spins, {turns} turns within a second")

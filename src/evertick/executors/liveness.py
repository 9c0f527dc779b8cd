"""Measures for how long the other end of a connection has not answered."""

from __future__ import annotations

ASKS_PER_PATIENCE = 3


class Liveness:
    """Instants are seconds of a clock that nobody sets. Whatever is heard is a sign of life."""

    def __init__(self, patience_seconds: float, now: float) -> None:
        self._patience = patience_seconds
        self._heard_at = now
        self._asked_at: float | None = now
        """Since when an answer is waited for; the greeting asks for the first one."""
        self.can_ask = False
        """Whether the other end is known to answer a question."""

    def heard(self, now: float) -> None:
        self._heard_at, self._asked_at = now, None

    def should_ask(self, now: float) -> bool:
        is_due = now - self._heard_at >= self._patience / ASKS_PER_PATIENCE
        return self.can_ask and self._asked_at is None and is_due

    def asked(self, now: float) -> None:
        self._asked_at = now

    def silent_seconds(self, now: float) -> float:
        """Since it was asked."""
        return 0.0 if self._asked_at is None else now - self._asked_at

    def is_over(self, now: float) -> bool:
        """Whether it has said nothing for as long as it may, and had time to answer."""
        had_time = self.silent_seconds(now) >= self._patience / ASKS_PER_PATIENCE
        return had_time and now - self._heard_at >= self._patience

    @property
    def look_seconds(self) -> float:
        """How soon to look at it again, at the latest."""
        return self._patience / ASKS_PER_PATIENCE / 2

"""Polls with growing pauses, for what sends no notification."""

from __future__ import annotations

import time
from collections.abc import Iterator

POLL_FIRST_SECONDS = 0.01
POLL_MAX_SECONDS = 0.5


def waits(timeout: float | None, what: str) -> Iterator[float]:
    """Pauses between two looks, a little longer each time; `TimeoutError` when there is no time left."""
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = POLL_FIRST_SECONDS
    while True:
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(f"{what} had not ended after {timeout:g} s; it goes on.")
        yield pause
        pause = min(pause * 1.5, POLL_MAX_SECONDS)

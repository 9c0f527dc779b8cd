"""How often somebody may fail to prove who they are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

FAILURES_MAX: Final = 10
WINDOW_SECONDS: Final = 60.0
ADDRESSES_MAX: Final = 10_000


class Limiter:
    """Counts failures per address. Those who prove themselves are never held up by it."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """How long an address has to wait before it may try again; 0: not at all."""
        began, count = self._failures.get(address, (0.0, 0))
        left = began + WINDOW_SECONDS - self._monotonic()
        return left if count >= FAILURES_MAX and left > 0 else 0.0

    def failed(self, address: str) -> None:
        with self._lock:
            now = self._monotonic()
            began, count = self._failures.pop(address, (now, 0))
            self._failures[address] = (began, count + 1) if now - began < WINDOW_SECONDS else (now, 1)
            while len(self._failures) > ADDRESSES_MAX:
                self._failures.popitem(last=False)

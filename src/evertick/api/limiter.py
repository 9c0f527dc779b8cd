"""How often a caller may fail to prove who they are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

FAILURES_MAX: Final = 10
WINDOW_SECONDS: Final = 60.0
CALLERS_MAX: Final = 10_000


class Limiter:
    """Counts failures by what was tried and from where. A good proof is never asked about them.

    Every proof is long and random, or refused (`SECRET_SHORTEST` for hooks): what is limited is not guessing, but the
    work and the lines of the audit log that a flood of failures costs.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failures: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def failed(self, tried: str, address: str) -> float:
        """Note a failure; how many seconds the caller has to wait before failures are answered again, 0: none."""
        caller = (tried, address)
        with self._lock:
            now = self._monotonic()
            began, count = self._failures.pop(caller, (now, 0))
            if now - began >= WINDOW_SECONDS:
                began, count = now, 0
            self._failures[caller] = (began, count + 1)
            while len(self._failures) > CALLERS_MAX:
                self._failures.popitem(last=False)
            return began + WINDOW_SECONDS - now if count >= FAILURES_MAX else 0.0

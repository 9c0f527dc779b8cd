"""The clocks of the machine; no other module reads them."""

from __future__ import annotations

import time
from typing import Protocol

from evertick.model.instant import Instant


class Clock(Protocol):
    def now(self) -> Instant:
        """The wall clock."""
        ...

    def monotonic_us(self) -> int:
        """A clock that cannot be set; it stops while the machine is suspended."""
        ...

    def boottime_us(self) -> int:
        """A clock that cannot be set, and that counts while the machine is suspended."""
        ...


class SystemClock:
    def now(self) -> Instant:
        return time.time_ns() // 1_000

    def monotonic_us(self) -> int:
        return time.monotonic_ns() // 1_000

    def boottime_us(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000

"""Limits connections without a verified peer: the oldest is dropped for the next.

Anyone can open one. Without a limit they would exhaust the hub's descriptors and lock out members and schedulers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

AT_ONCE = 64
PER_ADDRESS = 16

Connection = TypeVar("Connection", bound=Hashable)


class SilentConnections(Generic[Connection]):
    """Any thread may use it."""

    def __init__(self, drop: Callable[[Connection], None]) -> None:
        self._drop = drop
        self._lock = Lock()
        self._known: OrderedDict[Connection, str] = OrderedDict()

    def opened(self, connection: Connection, address: str) -> None:
        with self._lock:
            of_address = [one for one, known in self._known.items() if known == address]
            if len(of_address) >= PER_ADDRESS:
                oldest = of_address[:1]
            else:
                oldest = list(self._known)[:1] if len(self._known) >= AT_ONCE else []
            for one in oldest:
                del self._known[one]
            self._known[connection] = address
        for one in oldest:
            self._drop(one)

    def spoke(self, connection: Connection) -> None:
        """Its peer is verified, or it is closed: stop counting it."""
        with self._lock:
            self._known.pop(connection, None)

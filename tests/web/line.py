"""A line between browser and server that is slow, and can be cut."""

from __future__ import annotations

import threading
import time

from tests.relay import Relay


class Line(Relay):
    """All connections share the rate, as they do on a real line; each request waits for the way there and back."""

    chunk_bytes = 4 * 1024

    def __init__(self, port: int, bytes_per_second: float = 100_000, delay_seconds: float = 0.2) -> None:
        self._rate, self._delay = bytes_per_second, delay_seconds
        self._is_cut = False
        self._closing = threading.Event()
        self._turn = threading.Lock()
        self._free_at = 0.0
        self.carried = 0
        """Bytes that have come from the server."""
        super().__init__(port)
        self.url = f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Break all connections, and let no new one through."""
        self._is_cut = True
        self.break_all()

    def mend(self) -> None:
        self._is_cut = False

    def release(self) -> None:
        self._closing.set()

    def admit(self) -> bool:
        return not self._is_cut

    def carry(self, data: bytes, *, is_answer: bool) -> None:
        if not data:
            return
        if not is_answer:
            self._closing.wait(self._delay)
            return
        with self._turn:
            self.carried += len(data)
            self._free_at = max(self._free_at, time.monotonic()) + len(data) / self._rate
            until = self._free_at
        self._closing.wait(max(0.0, until - time.monotonic()))

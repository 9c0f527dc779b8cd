"""A cable between a member and its fleet that a test can cut and mend."""

from __future__ import annotations

import threading

from tests.relay import Relay


class Cable(Relay):
    """A way that is cut lets nothing pass and gives no error, as when a switch is dead."""

    def __init__(self, port: int) -> None:
        self._ways = {"there": threading.Event(), "back": threading.Event()}
        """From the member to its fleet, and back: whether each is whole."""
        self.mend()
        super().__init__(port)

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def cut(self, *ways: str) -> None:
        """Both ways by default: `there` is from the member to the fleet, `back` from the fleet."""
        for way in ways or self._ways:
            self._ways[way].clear()

    def mend(self) -> None:
        for way in self._ways.values():
            way.set()

    def release(self) -> None:
        self.mend()

    def admit(self) -> bool:
        return self._ways["there"].wait()

    def carry(self, _data: bytes, *, is_answer: bool) -> None:
        self._ways["back" if is_answer else "there"].wait()

"""Gives the scheduler's loop priority if the API runs in the scheduler's process.

If only one process can open the ledger, threads that share an interpreter with the loop answer requests. They start
nothing while the loop launches runs or is about to, pause for it between parts of a long response, and only a few work
at once. A request waits for a moment at most: a loop that is always busy must not block the server.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

AT_ONCE: Final = 2
LONGEST_SECONDS: Final = 0.25
LOOK_SECONDS: Final = 0.005
REGAINED_IN: Final = 4.0
"""A thread whose wait timed out works for this many times as long before it waits again."""


class LoopPriority(Protocol):
    """A context around a request: the thread that works on it enters it, after a wait if needed."""

    async def wait(self) -> None: ...
    def pause(self) -> None:
        """The same for a thread that follows the feed."""

    def breathe(self) -> None:
        """Called between parts of a long response, by the thread that works on it; any other thread continues."""

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class NeverYield:
    """For a server without a scheduler in the same process."""

    async def wait(self) -> None:
        return

    def pause(self) -> None:
        return

    def breathe(self) -> None:
        return

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


class _ThreadState(threading.local):
    """The state of this thread."""

    is_asked = False
    """Whether it works on a request."""
    patience = LONGEST_SECONDS
    """How long it may still wait."""
    waited_at = 0.0


class YieldToLoop:
    def __init__(self, is_firing: Callable[[], bool]) -> None:
        self._is_firing = is_firing
        self._places = threading.Semaphore(AT_ONCE)
        self._mine = _ThreadState()

    async def wait(self) -> None:
        give_up_at = time.monotonic() + LONGEST_SECONDS
        while self._is_firing() and time.monotonic() < give_up_at:
            await asyncio.sleep(LOOK_SECONDS)

    def pause(self) -> None:
        if not self._is_firing():
            return
        mine, now = self._mine, time.monotonic()
        patience = min(LONGEST_SECONDS, mine.patience + (now - mine.waited_at) / REGAINED_IN)
        give_up_at = now + patience
        while self._is_firing() and time.monotonic() < give_up_at:
            time.sleep(LOOK_SECONDS)
        mine.waited_at = time.monotonic()
        mine.patience = max(give_up_at - mine.waited_at, 0.0)

    def breathe(self) -> None:
        if self._mine.is_asked:
            self.pause()

    def __enter__(self) -> None:
        self._places.acquire()
        self._mine.is_asked = True
        self.pause()

    def __exit__(self, *_: object) -> None:
        self._mine.is_asked = False
        self._places.release()

"""How a server in the scheduler's own process lets the scheduler go first.

Where one process only can open the ledger, questions are answered by threads that share one interpreter with the loop.
They begin nothing while the loop fires or is about to, and few work at once, so that the loop has at most those few to
share with. A question waits for a moment at most: a loop that is always busy must not close the door.
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


class Courtesy(Protocol):
    """What surrounds a question: entered by the thread that works on it, and waited for before that."""

    async def wait(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Nobody:
    """There is nobody to let go first."""

    async def wait(self) -> None:
        return

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


class AfterTheLoop:
    def __init__(self, is_firing: Callable[[], bool]) -> None:
        self._is_firing = is_firing
        self._places = threading.Semaphore(AT_ONCE)

    async def wait(self) -> None:
        give_up_at = time.monotonic() + LONGEST_SECONDS
        while self._is_firing() and time.monotonic() < give_up_at:
            await asyncio.sleep(LOOK_SECONDS)

    def __enter__(self) -> None:
        self._places.acquire()
        give_up_at = time.monotonic() + LONGEST_SECONDS
        while self._is_firing() and time.monotonic() < give_up_at:
            time.sleep(LOOK_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._places.release()

"""Where messages wait for the loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable

from evertick.errors import InboxFull
from evertick.loop.messages import Message


class Inbox:
    """Bounded for those who ask, unbounded for those who report.

    A person's request may be turned away with a clear error and sent again. What an executor or the ledger says has
    happened already: it is as many messages as there are runs and batches in flight, and is never turned away.
    """

    def __init__(self, requests_max: int) -> None:
        self._requests_max = requests_max
        self._messages: deque[Message] = deque()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_some: asyncio.Event | None = None
        self._is_signalled = False

    def attach(self) -> None:
        """Belong to the running event loop; before that, messages only gather."""
        self._loop = asyncio.get_running_loop()
        self._has_some = asyncio.Event()
        if self._messages:
            self._has_some.set()

    def ask(self, message: Message) -> None:
        """Take a request, or raise `InboxFull`; from any thread."""
        with self._lock:
            if len(self._messages) >= self._requests_max:
                raise InboxFull(
                    f"{len(self._messages)} messages are waiting for the loop, which is the limit. "
                    "Try again in a moment; if this lasts, look at the planner's lag."
                )
            self._messages.append(message)
        self.wake()

    def report(self, message: Message) -> None:
        """Take what has happened; from any thread."""
        self._messages.append(message)
        self.wake()

    def report_all(self, messages: Iterable[Message]) -> None:
        self._messages.extend(messages)
        self.wake()

    def drain(self) -> list[Message]:
        """Everything that waits."""
        self._is_signalled = False
        if self._has_some is not None:
            self._has_some.clear()
        taken: list[Message] = []
        messages = self._messages
        for _ in range(len(messages)):
            taken.append(messages.popleft())
        return taken

    async def wait(self, seconds: float) -> None:
        """Until there is a message, or so many seconds have passed."""
        assert self._has_some is not None, "attach() comes first"
        if seconds <= 0 or self._messages:
            await asyncio.sleep(0)
            return
        timer = asyncio.get_running_loop().call_later(seconds, self._has_some.set)
        try:
            await self._has_some.wait()
        finally:
            timer.cancel()

    def __len__(self) -> int:
        return len(self._messages)

    def wake(self) -> None:
        """Let the loop turn, whether or not there is a message for it."""
        # One wake-up per batch of messages: in a storm, thousands arrive between two iterations.
        if self._is_signalled or self._loop is None or self._has_some is None:
            return
        self._is_signalled = True
        try:
            self._loop.call_soon_threadsafe(self._has_some.set)
        except RuntimeError:  # the event loop has ended; so has the reason to wake it
            self._is_signalled = False

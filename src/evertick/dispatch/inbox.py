"""The queue of messages for the loop."""

from __future__ import annotations

import asyncio
from collections import deque

from evertick.loop.messages import Message


class Inbox:
    """Unbounded: what arrives here has already happened, or is claimed from the ledger in portions.

    There are as many messages as runs and batches in flight, and none is rejected.
    """

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_some: asyncio.Event | None = None
        self._is_signalled = False

    def attach(self) -> None:
        """Attach to the running event loop; until then, messages only queue up."""
        self._loop = asyncio.get_running_loop()
        self._has_some = asyncio.Event()
        if self._messages:
            self._has_some.set()

    def report(self, message: Message) -> None:
        """Queue a message; from any thread."""
        self._messages.append(message)
        self.wake()

    def drain(self) -> list[Message]:
        """All queued messages."""
        self._is_signalled = False
        if self._has_some is not None:
            self._has_some.clear()
        taken: list[Message] = []
        messages = self._messages
        for _ in range(len(messages)):
            taken.append(messages.popleft())
        return taken

    async def wait(self, seconds: float) -> None:
        """Wait until there is a message, or for this many seconds."""
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
        """Wake the loop, whether or not there is a message."""
        # One wake-up per batch of messages: in a storm, thousands arrive between two iterations.
        if self._is_signalled or self._loop is None or self._has_some is None:
            return
        self._is_signalled = True
        try:
            self._loop.call_soon_threadsafe(self._has_some.set)
        except RuntimeError:  # the event loop has ended, and needs no wake-up
            self._is_signalled = False

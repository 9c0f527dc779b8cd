"""Calls the operations in a thread of its own, so that the page answers keys while a server does not."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from evertick.errors import EvertickError, ServerUnavailable, StoreUnavailable

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations

END_SECONDS = 2.0
"""How long the end of the page waits for a call that is in progress."""

Opener: TypeAlias = Callable[[], AbstractContextManager["Operations"]]


class Reply(NamedTuple):
    then: Callable[[object], None]
    otherwise: Callable[[EvertickError], None]
    value: object = None
    error: EvertickError | None = None


class Worker:
    """One call after the other; replies wait until the page takes them, and `wake_fd` becomes readable."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._calls: queue.SimpleQueue[tuple[Callable[[Operations], object], Reply] | None] = queue.SimpleQueue()
        self._replies: deque[Reply | BaseException] = deque()
        self.wake_fd, self._bell = os.pipe()
        os.set_blocking(self._bell, False)
        os.set_blocking(self.wake_fd, False)
        self._is_outdated = False
        self._thread = threading.Thread(target=self._run, name="top-operations", daemon=True)

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.put(None)
        # A call to a server that does not answer must not keep the user from leaving.
        self._thread.join(END_SECONDS)

    def call(
        self,
        what: Callable[[Operations], object],
        then: Callable[[object], None],
        otherwise: Callable[[EvertickError], None],
    ) -> None:
        self._calls.put((what, Reply(then, otherwise)))

    def reopen(self) -> None:
        """Reopen the operations before the next call."""
        self._is_outdated = True

    def wake(self) -> None:
        try:
            os.write(self._bell, b".")
        except BlockingIOError:
            return  # it is awake

    def take_replies(self) -> Iterator[Reply]:
        """The replies so far; what was wrong with the page itself is raised here."""
        with suppress(BlockingIOError):
            os.read(self.wake_fd, 4_096)
        while self._replies:
            reply = self._replies.popleft()
            if isinstance(reply, BaseException):
                raise reply
            yield reply

    def _run(self) -> None:
        with ExitStack() as opened:
            operations: Operations | None = None
            while (call := self._calls.get()) is not None:
                what, reply = call
                try:
                    if self._is_outdated:
                        self._is_outdated, operations = False, None
                        opened.close()
                    if operations is None:
                        operations = opened.enter_context(self._opener())
                    self._replies.append(reply._replace(value=what(operations)))
                except EvertickError as error:
                    if isinstance(error, ServerUnavailable | StoreUnavailable):
                        # A scheduler that comes back may listen elsewhere: look for it again.
                        operations = None
                        opened.close()
                    self._replies.append(reply._replace(error=error))
                except BaseException as error:
                    self._replies.append(error)
                self.wake()

"""Brings the requests of people to the loop: polled once a second, and at once where the database announces them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from evertick.dispatch.writer import Ask
from evertick.errors import StoreError
from evertick.loop.messages import Message
from evertick.model.bucket import BUCKETS
from evertick.store import Ledger, Request, RequestAnnouncements

log = logging.getLogger("evertick.requests")

POLL_SECONDS: Final = 1.0
REQUESTS_MAX: Final = 200
"""Of one poll."""

LISTEN_SECONDS: Final = 0.5
"""Of one wait: the thread sees only after it that it should stop."""
AWAY_SECONDS: Final = 5.0


Translate: TypeAlias = Callable[[Ledger, Sequence[Request]], Sequence[Message]]


class RequestPoller:
    """Reads requests in the writer's turn, one poll at a time."""

    def __init__(
        self, write: Callable[[Ask], None], owned_buckets: Callable[[], Sequence[int]], translate: Translate
    ) -> None:
        self._write, self._owned_buckets, self._translate = write, owned_buckets, translate
        self._is_polling = False

    async def run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self.poll()

    def poll(self) -> None:
        """From any thread."""
        if self._owned_buckets() and not self._is_polling:
            self._is_polling = True
            self._write(Ask(self._read))

    def _read(self, ledger: Ledger) -> Sequence[Message]:
        self._is_polling = False  # before the read: what is submitted meanwhile is not in it
        owned = self._owned_buckets()
        return self._translate(ledger, ledger.claim(owned if len(owned) < BUCKETS else None, REQUESTS_MAX))


class RequestListener:
    """A thread that waits for announcements. Nothing depends on it: the node polls as well."""

    def __init__(self, store: RequestAnnouncements, look: Callable[[], None]) -> None:
        self._store = store
        self._look = look
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-requests", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2 * LISTEN_SECONDS + 1)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._store.wait_for_requests(LISTEN_SECONDS):
                    self._look()
            except StoreError as error:
                log.debug("requests.unannounced reason=%s", error)
                self._stopping.wait(AWAY_SECONDS)

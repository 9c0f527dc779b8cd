"""Wakes a node when a request is submitted, where the database can notify."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from evertick.errors import StoreError
from evertick.store import RequestAnnouncements

log = logging.getLogger("evertick.hearing")

LISTEN_SECONDS: Final = 0.5
"""At a time: so long may it take until the thread sees that it should end."""
AWAY_SECONDS: Final = 5.0


class RequestListener:
    """A thread beside the loop. Nothing depends on it: the node looks once a second by itself."""

    def __init__(self, store: RequestAnnouncements, look: Callable[[], None]) -> None:
        self._store = store
        self._look = look
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-hearing", daemon=True)

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
                log.debug("hearing.away reason=%s", error)
                self._stopping.wait(AWAY_SECONDS)

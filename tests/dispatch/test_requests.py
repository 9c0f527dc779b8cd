"""Does a node look at once when the database tells it of a request, and go on looking when the database was away?"""

from __future__ import annotations

import threading

from evertick.dispatch import requests as module
from evertick.dispatch.requests import RequestListener
from evertick.errors import StoreUnavailable

PATIENCE_SECONDS = 180


class Telling:
    """A store that tells what it was given to tell, and then nothing."""

    def __init__(self, *told: bool | Exception) -> None:
        self._told = list(told)
        self.silence = threading.Event()

    def wait_for_requests(self, timeout_seconds: float) -> bool:
        if not self._told:
            self.silence.set()
            threading.Event().wait(timeout_seconds)
            return False
        told = self._told.pop(0)
        if isinstance(told, Exception):
            raise told
        return told


def test_a_node_looks_when_it_is_told_and_after_the_database_was_away(monkeypatch):
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.01)
    looks = []
    store = Telling(True, False, StoreUnavailable("gone"), True)
    hearing = RequestListener(store, lambda: looks.append(True))
    hearing.start()
    assert store.silence.wait(PATIENCE_SECONDS)
    hearing.stop()
    assert len(looks) == 2
    assert not hearing._thread.is_alive()

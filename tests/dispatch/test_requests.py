"""Does a node find each request: when the database announces it, when the file changes, and otherwise?"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from evertick.dispatch import requests as module
from evertick.dispatch.requests import UNSTAMPED_LOOKS, RequestListener, RequestPoller
from evertick.dispatch.writer import Ask
from evertick.errors import StoreUnavailable
from evertick.loop.messages import Message
from evertick.model.instant import SECOND
from evertick.store import Batch, Request
from evertick.stores.sql.sqlite import SqliteStore
from tests.stores.builders import asked

PATIENCE_SECONDS = 180


class AnnouncingStore:
    """A store that announces what it was given, and then nothing."""

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


def test_a_node_looks_when_it_is_notified_and_after_the_database_was_away(monkeypatch):
    monkeypatch.setattr(module, "AWAY_SECONDS", 0.01)
    looks = []
    store = AnnouncingStore(True, False, StoreUnavailable("gone"), True)
    listener = RequestListener(store, lambda: looks.append(True))
    listener.start()
    assert store.silence.wait(PATIENCE_SECONDS)
    listener.stop()
    assert len(looks) == 2
    assert not listener._thread.is_alive()


class Polled:
    """A poller on a real ledger in a file, whose writer reads at once."""

    def __init__(self, path: Path) -> None:
        self.ledger, self.other = SqliteStore(path), SqliteStore(path)
        self.buckets: Sequence[int] = (1,)
        self.reads: list[list[str]] = []
        self.failures: list[StoreUnavailable] = []
        self.poller = RequestPoller(self._write, lambda: self.buckets, self._translate, self.ledger)

    def look(self) -> list[list[str]]:
        """What was read by one look of the poller."""
        self.reads = []
        if self.poller.may_have_news():
            self.poller.poll()
        return self.reads

    def _write(self, ask: Ask) -> None:
        ledger: Any = self
        with suppress(StoreUnavailable):
            ask.question(ledger)

    def claim(self, buckets: Collection[int] | None, limit: int) -> Sequence[Request]:  # noqa: ARG002
        if self.failures:
            raise self.failures.pop()
        return self.ledger.claim(None, limit)

    def _translate(self, ledger: object, requests: Sequence[Request]) -> Sequence[Message]:  # noqa: ARG002
        self.reads.append([request.id for request in requests])
        return ()


@pytest.fixture
def polled(tmp_path):
    found = Polled(tmp_path / "ledger.db")
    yield found
    found.ledger.close()
    found.other.close()


def test_a_ledger_that_did_not_change_is_not_read(polled):
    assert polled.look() == [[]]
    assert [polled.look() for _ in range(5)] == [[]] * 5


def test_a_request_of_another_process_is_read_at_the_next_look_and_until_it_is_answered(polled):
    polled.look()
    polled.other.commit(Batch(by="cli", requests=[asked("r1")]))
    assert [polled.look() for _ in range(2)] == [[["r1"]]] * 2
    polled.other.commit(Batch(by="node", answers={"r1": "{}"}))
    assert [polled.look() for _ in range(2)] == [[[]], []]


def test_the_loop_looks_for_requests_when_it_turns_and_no_more_often_than_is_due(polled):
    looked_at = []
    for tenth in range(60):
        polled.other.commit(Batch(by="cli", requests=[asked(f"r{tenth}")]))
        polled.reads = []
        polled.poller.turned(tenth * SECOND // 10)
        if polled.reads:
            looked_at.append(tenth)
    assert looked_at == [0, 19, 38, 57]


def test_a_read_that_failed_is_repeated(polled):
    polled.look()
    polled.other.commit(Batch(by="cli", requests=[asked("r1")]))
    polled.failures.append(StoreUnavailable("away"))
    assert [polled.look() for _ in range(2)] == [[], [["r1"]]]


def test_what_was_submitted_before_a_node_owns_anything_is_read_when_it_does(polled):
    polled.other.commit(Batch(by="cli", requests=[asked("r1")]))
    polled.buckets = ()
    assert polled.look() == []
    polled.buckets = (1,)
    assert polled.look() == [["r1"]]


def test_an_unchanged_ledger_is_read_now_and_then_all_the_same(polled):
    polled.look()
    assert sum(map(len, (polled.look() for _ in range(UNSTAMPED_LOOKS)))) == 1

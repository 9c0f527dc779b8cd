"""Is a damaged ledger found in the background, and reported on every surface?"""

from __future__ import annotations

import threading
from typing import Any

from evertick.dispatch.clock import SystemClock
from evertick.dispatch.inbox import Inbox
from evertick.dispatch.integrity import IntegrityCheck
from evertick.dispatch.notify.config import NotifyConfig
from evertick.dispatch.observers import DAMAGED, Observers
from evertick.errors import StoreUnavailable
from evertick.loop.state import State
from evertick.model.notify import Slack
from evertick.settings.parts import LoopSettings
from evertick.stores.sql.sqlite import SqliteStore
from tests.stores.test_sqlite import filled, flip_an_index

PATIENCE_SECONDS = 180


class Answers:
    """A store that finds, one check after another, what it was given."""

    def __init__(self, *findings: str | Exception | None) -> None:
        self._findings = list(findings)
        self.are_over = threading.Event()

    def full_check(self, is_stopping) -> str | None:
        finding = self._findings.pop(0)
        if not self._findings:
            self.are_over.set()
            while not is_stopping():
                threading.Event().wait(0.01)
            raise InterruptedError
        if isinstance(finding, Exception):
            raise finding
        return finding


def checked(store) -> tuple[dict[str, object], list[str]]:
    """The status after all checks but the last, which is stopped; and what was told."""
    told: list[str] = []
    check = IntegrityCheck(store, SystemClock(), told.append, 0, 0)
    assert check.status()["state"] == "pending"
    check.start()
    assert store.are_over.wait(PATIENCE_SECONDS)
    check.stop()
    return check.status(), told


def test_damage_is_reported_once_however_often_it_is_found():
    status, told = checked(Answers("row 3 missing", "row 3 missing", None))
    assert (status["state"], status["finding"], told) == ("damaged", "row 3 missing", ["row 3 missing"])
    assert status["checked_at"]


def test_an_intact_ledger_is_reported_as_intact():
    status, told = checked(Answers(None, None))
    assert (status["state"], told) == ("ok", [])


def test_a_ledger_that_cannot_be_read_is_unknown_and_not_damaged():
    status, told = checked(Answers(StoreUnavailable("the disk is away."), None))
    assert (status["state"], status["finding"], told) == ("unknown", "the disk is away.", [])


def test_a_flipped_bit_is_found_beside_a_store_at_work(tmp_path):
    filled(tmp_path / "ledger.db")
    flip_an_index(tmp_path / "ledger.db")
    store = SqliteStore(tmp_path / "ledger.db")
    found = threading.Event()
    told: list[str] = []

    def tell(finding: str) -> None:
        told.append(finding)
        found.set()

    check = IntegrityCheck(store, SystemClock(), tell, 0)
    check.start()
    assert found.wait(PATIENCE_SECONDS)
    check.stop()
    store.close()
    assert "missing from index" in told[0]


def test_a_check_that_never_started_can_be_stopped():
    IntegrityCheck(Answers(), SystemClock(), print).stop()


def test_a_message_goes_to_the_channels_that_the_settings_name(monkeypatch):
    clock = SystemClock()
    state = State(LoopSettings(), "node-a", "x", clock.now())
    observers = Observers(
        state, Inbox(), clock, {}, NotifyConfig(ledger_channels=(Slack("https://hooks.example/x"),)), 100
    )
    sent: list[Any] = []
    monkeypatch.setattr(observers.announcer, "announce", sent.append)
    observers.report_damage("row 3 missing")
    ((message),) = sent
    assert (message.event, message.detail, "node-a is damaged" in message.text) == (DAMAGED, "row 3 missing", True)
    Observers(state, Inbox(), clock, {}, NotifyConfig(), 100).report_damage("nobody wants to hear it")

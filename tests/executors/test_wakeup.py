"""Every `set` wakes the waiting thread, even one that arrives while the thread clears the previous one."""

from __future__ import annotations

import select
import threading

import pytest

from evertick.executors.keeper_client import Wakeup

PATIENCE_SECONDS = 180.0


@pytest.fixture
def wakeup():
    made = Wakeup()
    yield made
    made.close()


def is_set(wakeup: Wakeup) -> bool:
    return bool(select.select([wakeup], [], [], 0)[0])


def test_a_wakeup_is_readable_until_it_is_cleared(wakeup):
    assert not is_set(wakeup)
    wakeup.set()
    wakeup.set()
    assert is_set(wakeup)
    wakeup.clear()
    assert not is_set(wakeup)


def test_a_set_during_a_clear_does_not_silence_later_ones(wakeup, monkeypatch):
    wakeup.set()
    with monkeypatch.context() as patched:
        patched.setattr(wakeup, "_reader", SetBeforeReading(wakeup, wakeup._reader))
        wakeup.clear()
    wakeup.set()
    assert is_set(wakeup)


class SetBeforeReading:
    def __init__(self, wakeup: Wakeup, real) -> None:
        self._wakeup, self._real = wakeup, real

    def recv(self, count: int) -> bytes:
        self._wakeup.set()
        return self._real.recv(count)


def test_setting_a_closed_wakeup_does_nothing():
    wakeup = Wakeup()
    wakeup.close()
    wakeup.set()


def test_no_item_waits_forever_for_the_other_thread(wakeup):
    left: list[int] = []
    taken: list[int] = []
    count = 20_000

    def take() -> None:
        while len(taken) < count:
            assert select.select([wakeup], [], [], PATIENCE_SECONDS)[0], f"only {len(taken)} of {count} were taken"
            wakeup.clear()
            taken.extend(left[len(taken) :])

    taker = threading.Thread(target=take)
    taker.start()
    for number in range(count):
        left.append(number)
        wakeup.set()
    taker.join(2 * PATIENCE_SECONDS)
    assert taken == list(range(count))

"""A thread that waits is woken by every ring, also by one that comes just as it hears the one before."""

from __future__ import annotations

import select
import threading

import pytest

from evertick.executors.wakeup import Wakeup

PATIENCE_SECONDS = 60.0


@pytest.fixture
def bell():
    made = Wakeup()
    yield made
    made.close()


def is_ringing(bell: Wakeup) -> bool:
    return bool(select.select([bell], [], [], 0)[0])


def test_it_rings_until_it_is_heard(bell):
    assert not is_ringing(bell)
    bell.ring()
    bell.ring()
    assert is_ringing(bell)
    bell.heard()
    assert not is_ringing(bell)


def test_a_ring_while_the_one_before_is_heard_does_not_silence_it(bell, monkeypatch):
    bell.ring()
    with monkeypatch.context() as patched:
        patched.setattr(bell, "_hearing_end", RungBeforeReading(bell, bell._hearing_end))
        bell.heard()
    bell.ring()
    assert is_ringing(bell)


class RungBeforeReading:
    def __init__(self, bell: Wakeup, real) -> None:
        self._bell, self._real = bell, real

    def recv(self, count: int) -> bytes:
        self._bell.ring()
        return self._real.recv(count)


def test_one_that_is_gone_is_rung_in_vain():
    bell = Wakeup()
    bell.close()
    bell.ring()


def test_nothing_that_was_left_for_the_other_thread_waits_for_ever(bell):
    left, taken, count = [], [], 20_000

    def take() -> None:
        while len(taken) < count:
            assert select.select([bell], [], [], PATIENCE_SECONDS)[0], f"only {len(taken)} of {count} were taken"
            bell.heard()
            taken.extend(left[len(taken) :])

    taker = threading.Thread(target=take)
    taker.start()
    for number in range(count):
        left.append(number)
        bell.ring()
    taker.join(2 * PATIENCE_SECONDS)
    assert taken == list(range(count))

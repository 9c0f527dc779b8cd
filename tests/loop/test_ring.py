"""The ring returns its entries one instant at a time, oldest first, and never early."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evertick.loop.ring import Ring

puts = st.lists(st.tuples(st.integers(0, 50), st.integers()), max_size=60)


def drained(ring, now):
    found = []
    while items := ring.take(now):
        found += items
    return found


@given(puts, st.integers(-1, 60))
def test_everything_due_comes_out_in_order_and_the_rest_stays(items, now):
    ring: Ring[Any] = Ring()
    for instant, item in items:
        ring.put(instant, (instant, item))
    due = drained(ring, now)
    assert due == sorted(((instant, item) for instant, item in items if instant <= now), key=lambda one: one[0])
    assert len(ring) == len(items) - len(due)
    assert ring.next_at() == min((instant for instant, _ in items if instant > now), default=None)


@given(puts)
def test_a_take_returns_a_single_instant(items):
    ring: Ring[Any] = Ring()
    for instant, item in items:
        ring.put(instant, (instant, item))
    while taken := ring.take(100):
        assert len({instant for instant, _ in taken}) == 1
    assert len(ring) == 0


def test_a_thousand_at_one_instant_are_one_slot():
    ring: Ring[Any] = Ring()
    for number in range(1_000):
        ring.put(7, number)
    assert ring.take(6) == []
    assert ring.take(7) == list(range(1_000))
    assert ring.next_at() is None


def test_an_instant_may_be_used_again_after_it_was_taken():
    ring: Ring[Any] = Ring()
    ring.put(7, "first")
    ring.take(7)
    ring.put(7, "again")
    assert ring.take(7) == ["again"]

"""Nodes share the buckets, take over those of dead nodes, and give some to new nodes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from evertick.dispatch.leadership import Leadership
from evertick.errors import StoreError, StoreUnavailable
from evertick.loop.messages import BucketsGained, BucketsLost, LeaseRenewed, NodesSeen
from evertick.model.instant import SECOND
from evertick.model.ledger import BUCKETS
from evertick.settings.parts import LoopSettings
from evertick.stores.memory import MemoryStore

LEASE_US = LoopSettings().lease_us


class Time:
    def __init__(self) -> None:
        self.at = 1_000 * SECOND

    def now(self) -> int:
        return self.at

    def monotonic_us(self) -> int:
        return self.at


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def store():
    return MemoryStore()


class Node(Leadership):
    def __init__(self, name, store, time) -> None:
        self.said: list[object] = []
        self.lets_go = True
        super().__init__(store, name, time, self._hear, LEASE_US)

    def _hear(self, message) -> None:
        self.said.append(message)
        if isinstance(message, BucketsLost) and not message.is_fenced and self.lets_go:
            self.released(message.buckets)

    def round(self) -> list[object]:
        """One renewal; answers what it said."""
        self.said.clear()
        self.renew()
        return list(self.said)


def gained(said) -> set[int]:
    return {bucket for message in said if isinstance(message, BucketsGained) for bucket in message.epochs}


def lost(said) -> set[int]:
    return {bucket for message in said if isinstance(message, BucketsLost) for bucket in message.buckets}


def settle(*nodes) -> None:
    for _ in range(4):
        for node in nodes:
            node.round()


def test_a_single_node_owns_everything(store, time):
    node = Node("a", store, time)
    assert gained(node.round()) == set(range(BUCKETS))


def test_renewing_keeps_the_epochs_and_vouches_for_one_lease_ahead(store, time):
    node = Node("a", store, time)
    node.round()
    before = node.epochs
    time.at += 2 * SECOND
    assert node.round() == [LeaseRenewed(time.at + LEASE_US), NodesSeen(frozenset({"a"}))]
    assert node.epochs == before


def test_a_newcomer_gets_its_share_and_nothing_is_owned_twice(store, time):
    a, b = Node("a", store, time), Node("b", store, time)
    settle(a)
    settle(a, b)
    assert set(a.epochs) | set(b.epochs) == set(range(BUCKETS))
    assert not set(a.epochs) & set(b.epochs)
    assert abs(len(a.epochs) - len(b.epochs)) <= 1


def test_a_released_bucket_is_not_reported_as_fenced(store, time):
    a, b = Node("a", store, time), Node("b", store, time)
    a.round()
    b.round()
    said = a.round()
    assert lost(said)
    assert not any(isinstance(message, BucketsLost) and message.is_fenced for message in said)


def test_a_bucket_is_not_free_before_the_loop_has_released_it(store, time):
    a, b = Node("a", store, time), Node("b", store, time)
    a.lets_go = False
    a.round()
    b.round()
    given_up = lost(a.round())
    time.at += LEASE_US - 1
    a.round()
    assert given_up
    assert gained(b.round()) == set()
    a.released(given_up)
    a.round()
    assert gained(b.round()) == given_up


def test_the_buckets_of_a_dead_node_are_taken_over_within_ten_seconds(store, time):
    a, b = Node("a", store, time), Node("b", store, time)
    settle(a, b)
    of_the_dead = dict(b.epochs)
    died_at = time.at
    while set(a.epochs) != set(range(BUCKETS)):
        time.at += LEASE_US // 3
        a.round()
        assert time.at - died_at < 10 * SECOND
    assert all(a.epochs[bucket] > epoch for bucket, epoch in of_the_dead.items())


def test_a_node_that_slept_through_its_lease_learns_that_it_was_fenced(store, time):
    a, b = Node("a", store, time), Node("b", store, time)
    settle(a, b)
    slept = set(b.epochs)
    for _ in range(6):
        time.at += 2 * SECOND
        a.round()
    said = b.round()
    assert lost(said) == slept
    assert all(message.is_fenced for message in said if isinstance(message, BucketsLost))
    assert not set(a.epochs) & set(b.epochs)


def test_a_node_that_slept_and_finds_its_buckets_free_reloads_them(store, time):
    a = Node("a", store, time)
    a.round()
    before = a.epochs
    time.at += 10 * LEASE_US
    said = a.round()
    assert lost(said) == set(range(BUCKETS))
    assert gained(said) | gained(a.round()) == set(range(BUCKETS))
    assert all(a.epochs[bucket] > epoch for bucket, epoch in before.items())


def test_without_the_store_nothing_is_vouched_for(store, time, monkeypatch):
    node = Node("a", store, time)
    node.round()
    monkeypatch.setattr(store, "lease", _away)
    node.said.clear()
    with pytest.raises(StoreUnavailable):
        node.renew()
    assert node.said == []


def _away(*_args):
    raise StoreUnavailable("the database is away")


def test_stopping_frees_everything_at_once(store, time):
    a, b = Node("a", store, time), Node("b", store, time)
    a.start()
    a.stop()
    assert gained(b.round()) == set(range(BUCKETS))


def test_a_stop_that_comes_as_a_pause_times_out_is_not_lost(store, time):
    class TimesOutAsItIsSet(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002
            node._stopping.set()
            self.set()
            return False

    class Endless(AssertionError):
        pass

    class Counting(Leadership):
        rounds = 0

        def renew(self) -> None:
            self.rounds += 1
            if self.rounds > 3:
                raise Endless

    failures: list[Exception] = []
    node = Counting(store, "a", time, lambda _message: None, lease_us=SECOND // 10, failed=failures.append)
    node._wake = TimesOutAsItIsSet()
    node.start()
    node.stop()
    assert (failures, node.rounds) == ([], 1)


def test_a_store_that_is_away_is_asked_again_and_a_fault_is_reported(store, time):
    faults, rounds = [StoreUnavailable("away"), StoreError("a name that is too long")], threading.Semaphore(0)
    told: list[Any] = []

    class Faulty(Leadership):
        def renew(self) -> None:
            rounds.release()
            raise faults.pop(0)

    node = Faulty(store, "a", time, lambda _message: None, lease_us=SECOND // 10, failed=told.append)
    node.start()
    for _ in range(2):
        assert rounds.acquire(timeout=180)
    node.stop()
    assert [str(error) for error in told] == ["a name that is too long"]

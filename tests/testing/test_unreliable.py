"""Whether a call to the simulated store fails in all the ways a real one does, and in no other."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from evertick.errors import StoreUnavailable
from evertick.model.ledger import Batch
from evertick.model.lifecycle import PLANNED, Trigger
from evertick.model.run import Entry, RunKey
from evertick.stores.memory import MemoryStore
from evertick.testing import Faults, Timeline
from evertick.testing.invariants import LedgerWatch
from evertick.testing.unreliable import Backend, NodeCrashed, StoreHandle

KEY = RunKey("report", 9)
BATCH = Batch(by="a#1", entries=[Entry(KEY, PLANNED, Trigger.SCHEDULER, 1)])


def open_handle(**faults: Any) -> tuple[Backend, StoreHandle]:
    store, timeline = MemoryStore(), Timeline(100)
    watch = LedgerWatch(store.line)
    backend = Backend(store, watch, timeline, are_epochs_checked=True)
    return backend, StoreHandle(backend, Random(1), lambda: Faults(**faults))


def test_without_faults_the_call_is_the_store_s_own():
    backend, handle = open_handle()
    assert handle.commit(BATCH).refused == frozenset()
    assert backend.store.line(KEY) is not None


def test_a_lost_reply_looks_like_an_outage_and_took_effect():
    backend, handle = open_handle(lost_reply=1.0)
    with pytest.raises(StoreUnavailable):
        handle.commit(BATCH)
    assert backend.store.line(KEY) is not None


def test_during_an_outage_nothing_takes_effect():
    backend, handle = open_handle()
    backend.away_until = 101
    with pytest.raises(StoreUnavailable):
        handle.commit(BATCH)
    assert backend.store.line(KEY) is None


def test_a_node_dies_about_as_often_before_its_call_took_effect_as_after():
    effects = 0
    for seed in range(200):
        backend, handle = open_handle(crash_per_call=1.0)
        handle._random = Random(seed)
        with pytest.raises(NodeCrashed):
            handle.commit(BATCH)
        effects += backend.store.line(KEY) is not None
    assert 60 < effects < 140


def test_leases_go_by_the_store_s_clock_whatever_the_node_believes():
    _, handle = open_handle()
    (lease,) = handle.lease(["bucket:1"], "a", 50, now=9_999_999)
    assert lease.expires_at == 150

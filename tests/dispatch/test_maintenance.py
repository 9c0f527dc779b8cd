"""Does the ledger keep the entries of each job for its retention, and no longer?"""

from __future__ import annotations

import pytest

from evertick.dispatch.maintenance import Maintenance
from evertick.model.instant import DAY
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.run import Change, RunKey
from evertick.settings.parts import RetentionPart
from evertick.store import Batch, RunFilter
from evertick.stores.memory import MemoryStore
from tests.stores.builders import NINE, planned


class Now:
    def now(self) -> int:
        return NINE + 100 * DAY

    def monotonic_us(self) -> int:
        return 0

    def boottime_us(self) -> int:
        return 0


@pytest.fixture
def store():
    """A run of each job on each of a hundred days."""
    store = MemoryStore()
    runs = [RunKey(name, NINE + day * DAY) for name in ("short", "plain", "long") for day in range(100)]
    store.commit(Batch(by="n", entries=[planned(key) for key in runs]))
    store.record([Change(key, SUCCEEDED, key.scheduled_for) for key in runs])
    return store


def kept(store, name: str) -> int:
    return len(store.query(RunFilter(job_ids=[name]), limit=1_000).rows)


@pytest.mark.parametrize(
    ("default_us", "left"),
    [
        pytest.param(10 * DAY, {"short": 3, "plain": 10, "long": 50}, id="beside a default"),
        pytest.param(None, {"short": 3, "plain": 100, "long": 50}, id="where all others are kept"),
    ],
)
def test_a_job_may_set_how_long_its_entries_are_kept(store, default_us, left):
    maintenance = Maintenance(
        Now(), RetentionPart(history_us=default_us), own=lambda: {"short": 3 * DAY, "long": 50 * DAY}
    )
    maintenance(store)
    assert {name: kept(store, name) for name in left} == left


def test_nothing_is_removed_without_a_setting(store):
    Maintenance(Now(), RetentionPart(history_us=None))(store)
    assert kept(store, "plain") == 100

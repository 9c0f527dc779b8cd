"""Do queries about very many jobs, which take several statements, return one answer?"""

from __future__ import annotations

import itertools

import pytest

from evertick.model.lifecycle import CANCELLED, FAILED, LOST, PLANNED, SKIPPED, SUCCEEDED, TIMED_OUT, Trigger
from evertick.store import Batch, RunFilter, ScheduleLine
from evertick.stores import open_store
from evertick.stores.memory import MemoryStore
from evertick.stores.sql.compact import JOBS_PER_QUERY
from evertick.stores.sql.reads import NAMES_PER_QUERY
from tests.ledgers import new_ledger
from tests.stores.builders import DAY, ELEVEN, EVERYTHING, NINE, NOON, TEN, asked, enter, gap, occurrence, planned

NAMES = [f"job-{n:04}" for n in range(2 * NAMES_PER_QUERY + 7)]


@pytest.fixture
def twins(tmp_path):
    """The same history in a database and in memory."""
    stores = [open_store(new_ledger(tmp_path / "evertick.db")), MemoryStore()]
    for store in stores:
        entries = [planned(occurrence(at, name), SUCCEEDED) for name in NAMES for at in (NINE, TEN, ELEVEN)]
        enter(store, *entries, *(gap(NINE - DAY, NINE - 1, 9, job=name) for name in NAMES[::50]))
        store.commit(Batch(by="node-1", schedules=[ScheduleLine(name, NINE - DAY, "[]") for name in NAMES]))
        store.commit(Batch(by="node-1", requests=[asked(name, name) for name in NAMES]))
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("oldest_first", [True, False], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("since", [None, NINE - 1, TEN])
def test_pages_about_very_many_jobs(twins, since, oldest_first):
    where = RunFilter(job_ids=NAMES[1:], since=since, until=NOON, oldest_first=oldest_first)
    database, memory = twins
    after = None
    for _ in range(4):
        page, expected = database.query(where, after, 400), memory.query(where, after, 400)
        assert list(page.rows) == list(expected.rows)
        assert page.after == expected.after
        after = page.after
        if after is None:
            break
    assert len(page.rows) > 0


@pytest.fixture(scope="module")
def enders(tmp_path_factory):
    """The same few runs that ended in all ways, in a database and in memory; only looked at."""
    stores = [open_store(new_ledger(tmp_path_factory.mktemp("enders") / "evertick.db")), MemoryStore()]
    for store in stores:
        ends = itertools.cycle([SUCCEEDED, FAILED, TIMED_OUT, CANCELLED, FAILED, SKIPPED])
        enter(store, *(planned(occurrence(at, name), next(ends)) for name in NAMES[:31] for at in (NINE, TEN, NOON)))
        enter(store, *(gap(NINE - DAY, NINE - 1, 9, job=name) for name in NAMES[:31:10]))
        asked = itertools.cycle([Trigger.CATCHUP, Trigger.SCHEDULER, Trigger.MANUAL, Trigger.CATCHUP])
        enter(store, *(planned(occurrence(ELEVEN, name), trigger=next(asked)) for name in NAMES[:50]))
    yield stores
    for store in stores:
        store.close()


@pytest.mark.parametrize("oldest_first", [True, False], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("since", [None, NINE - 1, TEN])
@pytest.mark.parametrize(
    "wanted",
    [
        {"states": [SKIPPED]},
        {"states": [FAILED, SKIPPED]},
        {"states": [FAILED, LOST, CANCELLED]},
        {"states": [SUCCEEDED, FAILED]},
        {"triggers": [Trigger.CATCHUP]},
        {"triggers": [Trigger.CATCHUP, Trigger.MANUAL, Trigger.RETRY]},
        {"triggers": [Trigger.CATCHUP, Trigger.SCHEDULER]},
        {"triggers": [Trigger.SCHEDULER], "states": [FAILED]},
        {"triggers": [Trigger.MANUAL], "states": [PLANNED]},
    ],
    ids=str,
)
def test_pages_of_what_is_rare_are_those_of_a_walk(enders, wanted, since, oldest_first):
    database, memory = enders
    where = RunFilter(**wanted, since=since, until=NOON + DAY, oldest_first=oldest_first)
    after, pages = None, 0
    while pages == 0 or after is not None:
        page, expected = database.query(where, after, 30), memory.query(where, after, 30)
        assert list(page.rows) == list(expected.rows)
        assert page.after == expected.after
        after, pages = page.after, pages + 1
    assert page.rows


def test_schedules_and_requests_of_very_many(twins):
    database, memory = twins
    assert list(database.schedules(NAMES[3:])) == list(memory.schedules(NAMES[3:]))
    assert list(database.requests(NAMES[3:])) == list(memory.requests(NAMES[3:]))


@pytest.mark.parametrize("own", [3, JOBS_PER_QUERY + 10], ids=["few jobs have their own bound", "many have"])
def test_compaction_with_bounds_of_their_own(twins, own):
    bounds = {name: NINE if number % 2 else NOON for number, name in enumerate(NAMES[:own])}
    database, memory = twins
    while True:
        removed = memory.compact(bounds, TEN, 700)
        assert database.compact(bounds, TEN, 700) == removed
        assert list(database.query(EVERYTHING, limit=9_999).rows) == list(memory.query(EVERYTHING, limit=9_999).rows)
        assert list(database.schedules()) == list(memory.schedules())
        if not removed:
            return

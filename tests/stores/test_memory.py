"""Does the in-memory store find things without looking at everything, and always in the same order?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import GapRefused
from evertick.model.lifecycle import PLANNED, SKIPPED, SUCCEEDED, Trigger
from evertick.model.run import Entry, RunKey
from evertick.store import Batch, RunFilter
from evertick.stores.memory import MemoryStore
from evertick.stores.memory_index import TimeIndex
from tests.stores.building import EVERYTHING, NINE, SECOND, became, enter, occurrence, planned, rows

JOBS = st.sampled_from(["a", "b"])
KEYS = st.builds(RunKey, JOBS, st.integers(0, 30), st.sampled_from(["", "", "r"]))
STRETCHES = st.tuples(st.integers(0, 30), st.integers(0, 8))


def entry_of(key: RunKey, length: int) -> Entry:
    through = key.scheduled_for + length if length and not key.origin else None
    state = SKIPPED if through is not None else PLANNED
    return Entry(key, state, Trigger.SCHEDULER, 0, through=through, occurrences=1 if through is None else length + 1)


def overlap(one: Entry, other: Entry) -> bool:
    """Whether two lines speak of the same occurrence, said as simply as possible."""
    if one.key.origin or other.key.origin:
        return one.key == other.key
    if one.key.job_id != other.key.job_id:
        return False
    return one.key.scheduled_for <= last(other) and other.key.scheduled_for <= last(one)


def last(entry: Entry) -> int:
    return entry.key.scheduled_for if entry.through is None else entry.through


def _is_entered(store, entry, by):
    try:
        return enter(store, entry, by=by) == frozenset()
    except GapRefused:
        return False


@given(st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 8)), max_size=40))
def test_no_two_lines_of_a_ledger_ever_overlap_and_nothing_else_is_refused(steps):
    store, kept = MemoryStore(), {}
    for number, (enters, key, length) in enumerate(steps):
        entry = entry_of(key, length)
        if enters:
            free = not any(overlap(entry, other) for other in kept.values())
            assert _is_entered(store, entry, by=str(number)) is free
            kept |= {key: entry} if free else {}
        else:
            store.commit(Batch(by="x", withdrawn=[key]))
            if key in kept and kept[key].state is PLANNED:
                del kept[key]
    assert {line.key for line in rows(store)} == set(kept)


@given(st.lists(st.tuples(st.booleans(), KEYS), max_size=60), STRETCHES, st.booleans(), st.none() | KEYS)
def test_a_walk_is_a_sorted_slice_of_what_is_there(steps, stretch, oldest_first, after):
    index, there = TimeIndex(), set()
    for adds, key in steps:
        if adds and key not in there:
            index.add(key, None)
            there.add(key)
        elif not adds and key in there:
            index.remove(key)
            there.remove(key)
    since, until = stretch[0], stretch[0] + stretch[1]
    places = sorted((at, job, origin) for job, at, origin in there if since <= at < until)
    mark = after and (after.scheduled_for, after.job_id, after.origin)
    if mark:
        places = [place for place in places if (place > mark if oldest_first else place < mark)]
    walked = list(index.walk(since, until, after, oldest_first))
    assert walked == (places if oldest_first else places[::-1])


def test_a_ledger_made_from_the_contents_of_another_is_the_same():
    store = MemoryStore()
    enter(store, *(planned(occurrence(NINE + n * SECOND)) for n in range(9)))
    store.record([became(occurrence(NINE), SUCCEEDED)])
    store.lease(["a"], "node-1", SECOND, NINE)
    again = MemoryStore(store.contents())
    assert again.contents() == store.contents()
    assert again.load() == store.load()
    assert again.query(EVERYTHING) == store.query(EVERYTHING)


def test_loading_does_not_look_at_runs_that_have_ended(monkeypatch):
    store = MemoryStore()
    enter(store, *(planned(occurrence(NINE + n), SUCCEEDED) for n in range(1_000)), planned(occurrence(NINE - 1)))
    looked: list[RunKey] = []

    class Watched(dict):
        def __getitem__(self, key):
            looked.append(key)
            return super().__getitem__(key)

    monkeypatch.setattr(store, "_rows", Watched(store._rows))
    assert [line.key for line in store.load().open_runs] == [occurrence(NINE - 1)]
    assert looked == [occurrence(NINE - 1)]


def test_a_page_late_in_a_long_ledger_does_not_look_at_what_came_before(monkeypatch):
    store = MemoryStore()
    enter(store, *(planned(occurrence(NINE + n)) for n in range(1_000)))
    looked: list[RunKey] = []

    class Watched(dict):
        def __getitem__(self, key):
            looked.append(key)
            return super().__getitem__(key)

    monkeypatch.setattr(store, "_rows", Watched(store._rows))
    page = store.query(RunFilter(since=NINE + 100, until=NINE + 900), after=occurrence(NINE + 500), limit=3)
    assert [line.key for line in page.rows] == [occurrence(NINE + n) for n in (499, 498, 497)]
    assert len(looked) == 4

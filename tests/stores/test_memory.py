"""Does the in-memory store find entries without looking at all of them, and always in the same order?"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import GapRefused
from evertick.model.lifecycle import FAILED, PLANNED, SKIPPED, SUCCEEDED, Trigger
from evertick.model.run import Entry, RunKey
from evertick.store import Batch, JobRecord, RunFilter
from evertick.stores.memory import MemoryStore
from evertick.stores.memory import index as memory_index
from evertick.stores.memory.index import TimeIndex, place_of
from evertick.stores.memory.lines import matches
from evertick.stores.memory.store import HANDFUL
from tests.stores.builders import EVERYTHING, NINE, SECOND, became, enter, occurrence, planned, rows

JOBS = st.sampled_from(["a", "b"])
KEYS = st.builds(RunKey, JOBS, st.integers(0, 30), st.sampled_from(["", "", "r"]))


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
    store = MemoryStore()
    kept: dict[Any, Any] = {}
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


FILTERS = st.builds(
    RunFilter,
    job_ids=st.lists(st.sampled_from(["a", "b", "c", "nobody"]), max_size=3),
    states=st.lists(st.sampled_from([PLANNED, SUCCEEDED, FAILED, SKIPPED]), max_size=2),
    since=st.none() | st.integers(0, 30),
    until=st.none() | st.integers(0, 40),
    oldest_first=st.booleans(),
)


@given(
    st.lists(st.tuples(st.booleans(), KEYS, st.sampled_from([PLANNED, SUCCEEDED, FAILED, SKIPPED])), max_size=60),
    FILTERS,
    st.none() | KEYS,
    st.integers(1, 9),
)
def test_handfuls_are_what_a_look_at_every_line_finds(steps, where, after, count):
    index, there = TimeIndex(), {}
    for adds, key, state in steps:
        if adds and key not in there:
            index.add(key, None, PLANNED)
            index.end(key, state)
            there[key] = state
        elif not adds and key in there:
            index.remove(key, there.pop(key))
    mark = after and place_of(after)
    kept = [
        place_of(key)
        for key, state in there.items()
        if (not where.job_ids or key.job_id in where.job_ids)
        and (not where.states or state in where.states)
        and (where.since is None or key.scheduled_for >= where.since)
        and (where.until is None or key.scheduled_for < where.until)
        and (mark is None or (place_of(key) > mark if where.oldest_first else place_of(key) < mark))
    ]
    walked, place = [], mark
    with patch.object(memory_index, "QUOTA_MIN", 1):
        while some := index.stretch(where, place, count):
            walked += some
            place = some[-1]
    fit = [
        place
        for place in walked
        if (not where.job_ids or place[1] in where.job_ids)
        and (not where.states or there[RunKey(place[1], place[0], place[2])] in where.states)
    ]
    assert fit == sorted(kept, reverse=not where.oldest_first)


@given(st.lists(st.tuples(KEYS, st.integers(0, 8)), max_size=30), FILTERS, st.integers(1, 5))
def test_pages_are_what_a_look_at_every_line_finds_gaps_that_reach_in_included(steps, where, limit):
    store = MemoryStore()
    for number, (key, length) in enumerate(steps):
        _is_entered(store, entry_of(key, length), str(number))
    lines = [line for line in store.contents().rows if matches(line, where)]
    found: list[Any] = []
    after = None
    while True:
        page = store.query(where, after, limit)
        found += page.rows
        if page.after is None:
            break
        after = page.after
    assert found == sorted(lines, key=lambda line: place_of(line.key), reverse=not where.oldest_first)


def test_a_ledger_made_from_the_contents_of_another_is_the_same():
    store = MemoryStore()
    enter(store, *(planned(occurrence(NINE + n * SECOND)) for n in range(9)))
    store.record([became(occurrence(NINE), SUCCEEDED)])
    store.lease(["a"], "node-1", SECOND, NINE)
    again = MemoryStore(store.contents())
    assert again.contents() == store.contents()
    assert again.load() == store.load()
    assert again.query(EVERYTHING) == store.query(EVERYTHING)


class Watched(dict):
    """Lines that remember which of them were looked at."""

    def __init__(self, lines):
        super().__init__(lines)
        self.looked: list[RunKey] = []

    def __getitem__(self, key):
        self.looked.append(key)
        return super().__getitem__(key)


def watch(store, monkeypatch):
    watched = Watched(store._rows)
    monkeypatch.setattr(store, "_rows", watched)
    return watched.looked


def test_loading_does_not_look_at_runs_that_have_ended(monkeypatch):
    store = MemoryStore()
    enter(store, *(planned(occurrence(NINE + n), SUCCEEDED) for n in range(1_000)), planned(occurrence(NINE - 1)))
    looked = watch(store, monkeypatch)
    assert [line.key for line in store.load().open_runs] == [occurrence(NINE - 1)]
    assert looked == [occurrence(NINE - 1)]


def test_a_page_late_in_a_long_ledger_does_not_look_at_what_came_before(monkeypatch):
    store = MemoryStore()
    enter(store, *(planned(occurrence(NINE + n)) for n in range(1_000)))
    looked = watch(store, monkeypatch)
    page = store.query(RunFilter(since=NINE + 100, until=NINE + 900), after=occurrence(NINE + 500), limit=3)
    assert [line.key for line in page.rows] == [occurrence(NINE + n) for n in (499, 498, 497)]
    assert len(looked) == 4


@pytest.mark.parametrize(
    ("ask", "count"),
    [
        pytest.param(lambda store: store.query(RunFilter(job_ids=["calm"])).rows, 3, id="the lines of a job"),
        pytest.param(lambda store: store.query(RunFilter(states=[FAILED])).rows, 2, id="those that failed"),
        pytest.param(lambda store: store.newest(["calm"], 2)["calm"], 3, id="the newest of a job"),
        pytest.param(
            lambda store: store.tally(RunFilter(job_ids=["calm"], since=NINE - SECOND), SECOND),
            3,
            id="a count of a job",
        ),
        pytest.param(
            lambda store: store.query(RunFilter(since=NINE + SECOND)).rows,
            1,
            id="what a gap from long ago reaches into",
        ),
    ],
)
def test_rare_states_are_found_without_reading_the_rest(ask, count, monkeypatch):
    store = MemoryStore()
    enter(store, *(planned(occurrence(NINE + n, job="busy"), SUCCEEDED) for n in range(1_000)))
    enter(store, *(planned(occurrence(NINE + n, job="calm"), SUCCEEDED) for n in (1, 2, 3)))
    enter(store, *(planned(occurrence(NINE + n, job="bad"), FAILED) for n in (1, 2)))
    gap = planned(occurrence(NINE - SECOND, job="gone"), SKIPPED)._replace(through=NINE + 2 * SECOND, occurrences=4)
    enter(store, gap)
    store.commit(Batch(by="x", jobs=[JobRecord("calm", NINE)]))
    looked = watch(store, monkeypatch)
    assert ask(store)
    assert len(looked) == count


def test_a_write_does_not_wait_for_a_long_read():
    store = MemoryStore()
    enter(store, *(planned(occurrence(NINE + n)) for n in range(3 * HANDFUL)))
    reading = store._walk(RunFilter(oldest_first=True))
    seen = [next(reading)]
    enter(store, planned(occurrence(NINE + 4 * HANDFUL)))
    store.commit(Batch(by="x", withdrawn=[occurrence(NINE + 2 * HANDFUL)]))
    seen += reading
    expected = [n for n in range(3 * HANDFUL) if n != 2 * HANDFUL] + [4 * HANDFUL]
    assert [line.key.scheduled_for - NINE for line in seen] == expected

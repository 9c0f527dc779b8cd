"""What a command reads from a ledger in a file: the same as a scheduler does, without what takes long to load."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evertick.errors import SchemaTooNew, StoreCorrupt, StoreUnavailable
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.model.run import RunKey
from evertick.store import RunFilter
from evertick.stores import open_reader, open_store
from evertick.stores.sql import migrations
from evertick.stores.sql.sqlite_reader import SCHEMA
from tests.ledgers import new_ledger
from tests.stores.builders import NINE, asked
from tests.stores.differential import GRID, JOBS, Caller, outcome


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A ledger after many random calls, and the two that read it."""
    url = new_ledger(tmp_path_factory.mktemp("filled") / "evertick.db")
    whole, caller = open_store(url), Caller(7)
    for _ in range(300):
        name, arguments = caller.next_call()
        caller.learn(name, outcome(whole, name, arguments))
    reader = open_reader(url)
    yield whole, reader
    reader.close()
    whole.close()


def some(values):
    return st.lists(st.sampled_from(values), max_size=3, unique=True)


INSTANTS = st.none() | st.sampled_from(GRID)
FILTERS = st.builds(
    RunFilter,
    job_ids=some(JOBS),
    states=some(list(RunState)),
    triggers=some(list(Trigger)),
    reasons=some(list(SkipReason)),
    since=INSTANTS,
    until=INSTANTS,
    occurrences_only=st.booleans(),
    oldest_first=st.booleans(),
    executors=some(["local@node-1", ""]),
    gaps=st.none() | st.booleans(),
    with_items=st.booleans(),
)
KEYS = st.none() | st.builds(RunKey, st.sampled_from(JOBS), st.sampled_from(GRID), st.sampled_from(["", "r1"]))


@settings(deadline=None, max_examples=300)
@given(where=FILTERS, after=KEYS, limit=st.integers(1, 30))
def test_a_page_of_any_filter_is_that_of_the_whole_store(filled, where, after, limit):
    whole, reader = filled
    assert reader.query(where, after, limit) == whole.query(where, after, limit)


@settings(deadline=None)
@given(where=FILTERS, since=st.sampled_from(GRID), width=st.integers(1, 10), by_job=st.booleans())
def test_counts_of_any_filter_are_those_of_the_whole_store(filled, where, since, width, by_job):
    whole, reader = filled
    windowed = RunFilter(
        job_ids=where.job_ids, states=where.states, triggers=where.triggers, since=since, until=GRID[-1]
    )
    width_us = width * 60_000_000
    assert sorted(reader.tally(windowed, width_us, by_job=by_job), key=repr) == sorted(
        whole.tally(windowed, width_us, by_job=by_job), key=repr
    )


@settings(deadline=None)
@given(jobs=some(JOBS), count=st.integers(1, 4), with_skips=st.booleans(), buckets=st.none() | some(list(range(64))))
def test_jobs_and_their_last_runs_are_those_of_the_whole_store(filled, jobs, count, with_skips, buckets):
    whole, reader = filled
    assert reader.newest(jobs, count, with_skips=with_skips) == whole.newest(jobs, count, with_skips=with_skips)
    assert reader.schedules(jobs) == whole.schedules(jobs)
    ours, theirs = reader.load(buckets), whole.load(buckets)
    assert sorted(ours.jobs) == sorted(theirs.jobs)
    assert (ours.open_runs, ours.floors) == (theirs.open_runs, theirs.floors)


def test_the_texts_are_about_the_newest_schema():
    # Look at the texts of the reader and its filters before you change the number.
    assert migrations.newest() == SCHEMA


def test_reads_and_requests_load_no_sqlalchemy(tmp_path):
    url = new_ledger(tmp_path / "evertick.db")
    program = (
        "import sys\n"
        "from evertick.store import Batch, RunFilter\n"
        "from evertick.stores import open_reader\n"
        "from tests.stores.builders import asked\n"
        f"store = open_reader({url!r})\n"
        "store.load(); store.query(RunFilter()); store.newest(['a']); store.blackouts()\n"
        "store.commit(Batch('request/r1', requests=[asked('r1')]))\n"
        "assert [request.id for request in store.claim(None, 10)] == ['r1']\n"
        "print('sqlalchemy' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"


def test_a_file_that_was_cut_to_nothing_is_refused_and_its_log_is_kept(tmp_path):
    path = tmp_path / "evertick.db"
    open_store(new_ledger(path)).close()
    path.write_bytes(b"")
    log = path.with_name("evertick.db-wal")
    log.write_bytes(b"what was committed last")
    with pytest.raises(StoreCorrupt):
        open_reader(f"sqlite:///{path}")
    assert log.read_bytes() == b"what was committed last"


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "evertick.db"
    open_store(new_ledger(path)).close()
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 8192)
    with pytest.raises(StoreCorrupt):
        open_reader(f"sqlite:///{path}")


def test_a_ledger_of_a_newer_schema_is_refused(tmp_path):
    path = tmp_path / "evertick.db"
    open_store(new_ledger(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO evertick_schema VALUES (?, '9.0', ?)", (SCHEMA + 1, SCHEMA + 1))
    connection.close()
    with pytest.raises(SchemaTooNew):
        open_reader(f"sqlite:///{path}")


def test_a_new_file_is_made_a_ledger(tmp_path):
    store = open_reader(f"sqlite:///{tmp_path}/new.db")
    assert list(store.load().jobs) == []
    store.close()


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        open_reader(f"sqlite:///{tmp_path}")


def test_a_request_that_is_there_already_stays_as_it_is(tmp_path):
    from evertick.store import Batch

    store = open_reader(new_ledger(tmp_path / "evertick.db"))
    first, second = asked("r1"), asked("r1")._replace(submitted_at=NINE + 1)
    store.commit(Batch("request/r1", requests=[first]))
    store.commit(Batch("request/r1", requests=[second]))
    assert list(store.requests(["r1"])) == [first]
    store.close()

"""Are the hourly counts of a database written with the entries, checked, and rebuilt?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from evertick.errors import StoreError
from evertick.model.ledger import HourCount
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.store import Batch
from evertick.stores import open_store as open_any_store
from evertick.stores.sql import admin, hour_counts, migrations
from evertick.stores.sql.store import SqlStore
from tests.stores.builders import HOUR, MINUTE, NINE, NOON, TEN, became, enter, occurrence, planned, skipped

SERVERS = {"postgres": "fresh_postgres", "mysql": "fresh_mysql"}


def open_store(url: str) -> SqlStore:
    store = open_any_store(url)
    assert isinstance(store, SqlStore)
    return store


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.slow) for name in SERVERS)])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/evertick.db"
    return request.getfixturevalue(SERVERS[request.param])()


@pytest.fixture
def store(url):
    with closing(open_store(url)) as opened:
        yield opened


def execute(store: SqlStore, *statements: str) -> None:
    with store._writer.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def end(store: SqlStore, *minutes: int) -> None:
    keys = [occurrence(NINE + minute * MINUTE) for minute in minutes]
    enter(store, *map(planned, keys))
    store.record([became(key, SUCCEEDED, trigger=Trigger.SCHEDULER) for key in keys])


def test_a_falsified_count_is_found_and_rebuilt(store):
    end(store, 1, 2, 3, 61)
    execute(store, f"UPDATE evertick_hour_counts SET entries = entries + 1 WHERE hour = {NINE}")
    (wrong,) = store.wrong_counts()
    assert (wrong.hour, wrong.state, wrong.kept, wrong.found) == (NINE, SUCCEEDED, HourCount(4, 3), HourCount(3, 3))
    assert store.recount() == 1
    assert store.wrong_counts() == []
    assert [one.lines for one in store.outcomes([NINE, TEN, NOON])] == [3, 1]


def test_a_missing_and_a_needless_count_are_found(store):
    end(store, 1, 61)
    execute(
        store,
        f"DELETE FROM evertick_hour_counts WHERE hour = {NINE}",
        f"UPDATE evertick_hour_counts SET hour = {NOON} WHERE hour = {TEN}",
    )
    assert [wrong.hour for wrong in store.wrong_counts()] == [NINE, TEN, NOON]
    assert store.recount() == 3
    assert store.recount() == 0


def test_the_command_reports_what_it_corrected(url, store):
    end(store, 1)
    assert "nothing to do" in admin.recount(url)
    execute(store, "DELETE FROM evertick_hour_counts")
    assert "corrected 1 count." in admin.recount(url)
    assert store.wrong_counts() == []


def test_a_ledger_from_before_the_counts_is_counted_when_it_is_migrated(url, store):
    end(store, 1, 2, 61)
    enter(store, skipped(occurrence(NOON)), planned(occurrence(NOON + 1)))
    execute(store, "DROP TABLE evertick_hour_counts", "DELETE FROM evertick_schema")
    execute(store, "INSERT INTO evertick_schema (version, evertick, serves) VALUES (11, '0.1.0', 11)")
    with closing(open_store(url)) as again:
        assert again.schema().version == migrations.newest()
        assert again.wrong_counts() == []
        assert [one.lines for one in again.outcomes([NINE, TEN, NOON, NOON + HOUR])] == [2, 1, 1, 1]


def test_a_write_that_fails_behind_its_counts_leaves_neither(store, monkeypatch):
    end(store, 1)

    def count_and_fail(*rows):
        monkeypatch.undo()
        raise RuntimeError("the node is gone")

    enter(store, planned(occurrence(NINE + 2 * MINUTE)))
    monkeypatch.setattr(hour_counts, "count_params", count_and_fail)
    with pytest.raises(RuntimeError):
        store.record([became(occurrence(NINE + 2 * MINUTE), SUCCEEDED, trigger=Trigger.SCHEDULER)])
    assert store.wrong_counts() == []
    assert sorted(one.lines for one in store.outcomes([NINE, TEN])) == [1, 1]


KILLED = """
import os, signal, sys
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.stores import open_store
from tests.stores.builders import NINE, became, enter, occurrence, planned
store, place = open_store(sys.argv[1]), sys.argv[2]
many, calls = store._many, []
def kill_at(connection, statement, rows):
    is_count = statement == store._sql.add_to_hour
    if is_count and place == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    done = many(connection, statement, rows)
    if is_count and place == "behind":
        os.kill(os.getpid(), signal.SIGKILL)
    return done
enter(store, planned(occurrence(NINE + 1)))
store._many = kill_at
store.record([became(occurrence(NINE + 1), SUCCEEDED, trigger=Trigger.SCHEDULER)])
if place == "committed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("place", "ended"), [("before", 0), ("behind", 0), ("committed", 1)])
def test_a_kill_around_the_counts_leaves_them_as_the_entries_are(url, store, place, ended):
    root = Path(__file__).parent.parent.parent
    node = subprocess.run([sys.executable, "-c", KILLED, url, place], cwd=root, env=os.environ, check=False)
    assert node.returncode == -signal.SIGKILL
    assert store.wrong_counts() == []
    assert [one.lines for one in store.outcomes([NINE, TEN]) if one.state is SUCCEEDED] == [1] * ended


def together(*works) -> None:
    failures: list[BaseException] = []

    def carry_out(work) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=carry_out, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []


def test_nodes_that_write_and_remove_at_once_count_each_entry_once(url, store):
    nodes = [open_store(url) for _ in range(3)]
    for node in nodes:
        node._share = 0  # so that they meet

    def live(number: int) -> None:
        for step in range(15):
            keys = [occurrence(NINE + step * 10 * MINUTE + one, f"job-{number}") for one in range(4)]
            nodes[number].commit(Batch(by=f"node-{number}/{step}", entries=[planned(key) for key in keys]))
            nodes[number].record([became(key, SUCCEEDED, trigger=Trigger.SCHEDULER) for key in keys])
            nodes[number].compact({}, NINE + (step - 2) * 10 * MINUTE, 7)

    together(*(lambda number=number: live(number) for number in range(3)))
    assert store.wrong_counts() == []
    assert sum(one.lines for one in store.outcomes([NINE, NINE + 9 * HOUR])) >= 3 * 4 * 2
    for node in nodes:
        node.close()


def test_a_recount_beside_a_scheduler_that_writes_loses_no_count(request, url, store):
    with closing(open_store(url)) as other:
        if "mysql" in request.node.callspec.id:
            other.lease(["node:node-1/abc"], "node-1/abc", HOUR, now=NINE)
            with pytest.raises(StoreError, match="cannot be rebuilt while nodes add to them: node-1"):
                store.recount()
            return

        def falsify_and_recount() -> None:
            for _ in range(10):
                execute(store, "UPDATE evertick_hour_counts SET entries = entries + 1")
                store.recount()

        together(lambda: [end(other, minute) for minute in range(30)], falsify_and_recount)
        store.recount()
        assert store.wrong_counts() == []
        assert [one.lines for one in store.outcomes([NINE, TEN])] == [30]

"""How a ledger in a database handles faults: servers die, nodes race, answers are lost."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from evertick.errors import Fenced, GapRefused, StoreUnavailable
from evertick.model.lifecycle import RUNNING, SUCCEEDED
from evertick.model.run import RunKey
from evertick.store import Batch, JobRecord
from evertick.stores import open_store
from evertick.stores.sql.rows import change_row
from tests.stores.builders import (
    DAY,
    ELEVEN,
    NINE,
    SECOND,
    TEN,
    asked,
    became,
    enter,
    gap,
    keys,
    lease_of,
    occurrence,
    planned,
    row,
)

SERVERS = {"postgres": "fresh_postgres", "mysql": "fresh_mysql"}


@pytest.fixture(params=["sqlite", *(pytest.param(name, marks=pytest.mark.slow) for name in SERVERS)])
def kind(request):
    return request.param


@pytest.fixture
def url(kind, request, tmp_path):
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/evertick.db"
    return request.getfixturevalue(SERVERS[kind])()


@pytest.fixture
def opened(url):
    """Open the same ledger as often as a test has nodes."""
    stores = []

    def open_another():
        stores.append(open_store(url))
        return stores[-1]

    yield open_another
    for store in stores:
        store.close()


@pytest.fixture
def store(opened):
    return opened()


def at_the_end_of_a_commit(store, happen: Callable[[], None], monkeypatch) -> None:
    """Let something happen when all is written and nothing is committed yet, once."""
    count = store._count

    def counting(connection, *counted) -> None:
        count(connection, *counted)
        monkeypatch.setattr(store, "_count", count)
        happen()

    monkeypatch.setattr(store, "_count", counting)


BATCH = Batch(
    by="node-1",
    entries=[planned(occurrence(NINE + n * SECOND)) for n in range(300)],
    jobs=[JobRecord("report", NINE)],
    floors={7: NINE},
    requests=[asked()],
)


class TestAnAnswerThatIsLost:
    @pytest.fixture
    def losing(self, store, monkeypatch):
        """The database commits, and the connection breaks before it says so."""
        dialect = store._writer.dialect
        commit, driver = dialect.do_commit, dialect.loaded_dbapi

        def commit_and_break(connection) -> None:
            commit(connection)
            monkeypatch.setattr(dialect, "do_commit", commit)
            raise driver.OperationalError("connection lost")

        return lambda: monkeypatch.setattr(dialect, "do_commit", commit_and_break)

    def test_a_commit_may_be_repeated(self, store, losing):
        losing()
        with pytest.raises(StoreUnavailable, match="connection lost"):
            store.commit(BATCH)
        assert len(keys(store)) == 300
        assert store.commit(BATCH).refused == frozenset()
        assert len(keys(store)) == 300
        assert store.counters() == {"entries.scheduler": 300}

    def test_a_record_may_be_repeated(self, store, losing):
        enter(store, *BATCH.entries)
        changes = [
            change
            for entry in BATCH.entries
            for change in (became(entry.key, RUNNING, fence=1), became(entry.key, SUCCEEDED, fence=1))
        ]
        losing()
        with pytest.raises(StoreUnavailable):
            store.record(changes)
        assert store.record(changes) == frozenset()
        assert store.counters()["ended.succeeded"] == 300

    def test_a_lease_is_renewed(self, store, losing):
        losing()
        with pytest.raises(StoreUnavailable):
            store.lease(["a"], "node-1", DAY, NINE)
        (lease,) = store.lease(["a"], "node-1", DAY, NINE)
        assert (lease.holder, lease.epoch) == ("node-1", 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("free", range(3))
def test_a_process_without_descriptors_has_no_ledger_until_there_are_some(opened, free):
    """A socket takes one, and a driver may take another to wait for it."""
    store = opened()
    store.close()  # every connection; the next use opens new ones
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + free, before[1]))
    try:
        with pytest.raises(StoreUnavailable) if free == 0 else suppress(StoreUnavailable):
            store.lease([lease_of(0)], "node", SECOND, NINE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert store.lease([lease_of(0)], "node", SECOND, NINE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
class TestAServerThatDies:
    @pytest.fixture
    def server(self, kind, request):
        return request.getfixturevalue(f"{kind}_server")

    def test_nothing_is_half_written_and_the_next_call_finds_it_again(self, store, server, monkeypatch):
        enter(store, planned(occurrence(TEN)))
        at_the_end_of_a_commit(store, server.kill, monkeypatch)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            store.commit(BATCH)
        with pytest.raises(StoreUnavailable, match="did not answer"):
            store.load()
        server.start()
        assert keys(store) == [occurrence(TEN)]
        assert list(store.load().jobs) == []
        assert list(store.claim(None, 10)) == []
        assert store.counters() == {"entries.scheduler": 1}
        assert store.commit(BATCH).refused == frozenset()
        assert len(keys(store)) == 301

    def test_an_idle_connection_costs_one_call(self, store, server):
        store.load()
        server.kill()
        server.start()
        with pytest.raises(StoreUnavailable):
            store.commit(BATCH)
        assert store.commit(BATCH).refused == frozenset()

    def test_errors_do_not_tell_the_password(self, store, server):
        server.kill()
        try:
            with pytest.raises(StoreUnavailable) as away:
                store.load()
        finally:
            server.start()
        assert server.password not in str(away.value)
        assert f"127.0.0.1:{server.port}" in str(away.value)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SERVERS)
class TestNodesThatRace:
    def test_a_gap_waits_for_an_occurrence_inside_it_to_be_decided(self, opened, monkeypatch):
        one, other = opened(), opened()
        refused: list[frozenset[object]] = []

        def enter_gap() -> None:
            try:
                enter(other, gap(NINE, ELEVEN, 3), by="node-2")
            except GapRefused as told:
                refused.append(told.keys)

        racing = threading.Thread(target=enter_gap)

        def race() -> None:
            racing.start()
            racing.join(0.5)  # as long as it takes to see that it waits
            assert refused == []

        at_the_end_of_a_commit(one, race, monkeypatch)
        enter(one, planned(occurrence(TEN)), by="node-1")
        racing.join()
        assert refused == [{occurrence(NINE)}]
        assert keys(one) == [occurrence(TEN)]

    def test_the_same_occurrences_are_entered_once_by_many(self, opened):
        nodes = [opened() for _ in range(4)]
        wanted = [occurrence(NINE + n * SECOND) for n in range(400)]
        refused: dict[int, int] = {}
        begin = threading.Barrier(len(nodes))

        def plan(number: int) -> None:
            # Each in another order: sorting is what keeps them from deadlock.
            order = wanted[number * 100 :] + wanted[: number * 100]
            begin.wait()
            refused[number] = sum(
                len(enter(nodes[number], *map(planned, order[start : start + 40]), by=f"node-{number}"))
                for start in range(0, len(order), 40)
            )

        threads = [threading.Thread(target=plan, args=(number,)) for number in range(len(nodes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert keys(nodes[0]) == wanted
        assert sum(refused.values()) == 3 * len(wanted)
        assert nodes[0].counters() == {"entries.scheduler": len(wanted)}

    def test_a_deadlock_is_broken_and_both_continue(self, opened):
        one, other = opened(), opened()
        enter(one, planned(occurrence(NINE)), planned(occurrence(TEN)))
        meeting = threading.Barrier(2)
        tries: list[RunKey] = []

        def crossing(store, first: RunKey, second: RunKey) -> None:
            def work(connection) -> None:
                tries.append(first)
                store._update(connection, [change_row(became(first, RUNNING, fence=1))])
                if tries.count(first) == 1:
                    meeting.wait(30)  # both hold one row before either wants the other's
                store._update(connection, [change_row(became(second, RUNNING, fence=1))])

            store._write(work)

        crossed = threading.Thread(target=crossing, args=(other, occurrence(TEN), occurrence(NINE)))
        crossed.start()
        crossing(one, occurrence(NINE), occurrence(TEN))
        crossed.join()
        assert len(tries) >= 3
        assert [row(one, occurrence(at)).state for at in (NINE, TEN)] == [RUNNING, RUNNING]

    def test_a_takeover_waits_for_the_commit_of_the_owner(self, opened, monkeypatch):
        one, other = opened(), opened()
        one.lease([lease_of(7)], "node-1", 1, NINE)
        taken: list[int] = []

        def take_over() -> None:
            taken.extend(lease.epoch for lease in other.lease([lease_of(7)], "node-2", DAY, NINE))

        racing = threading.Thread(target=take_over)

        def race() -> None:
            racing.start()
            racing.join(0.5)
            assert taken == []

        at_the_end_of_a_commit(one, race, monkeypatch)
        one.commit(Batch(by="node-1", entries=[planned(occurrence())], epochs={7: 1}))
        racing.join()
        assert taken == [2]

    def test_a_node_that_freezes_inside_a_commit_blocks_no_other_node(self, opened, monkeypatch):
        """Its session is ended by the server, so that the other has its locks before the frozen one wakes up."""
        frozen, other = opened(), opened()
        frozen.lease([lease_of(7)], "node-1", 1, NINE)

        def take_over() -> None:
            other.lease([lease_of(7)], "node-2", DAY, NINE)
            enter(other, planned(occurrence()), by="node-2")

        at_the_end_of_a_commit(frozen, take_over, monkeypatch)
        with pytest.raises((Fenced, StoreUnavailable)):
            frozen.commit(Batch(by="node-1", entries=[planned(occurrence())], epochs={7: 1}))
        assert row(frozen, occurrence()).decided_by == "node-2"


class TestManyNodes:
    def test_a_lease_has_one_holder_however_many_ask(self, opened):
        nodes = [opened() for _ in range(3)]
        names = [lease_of(bucket) for bucket in range(64)]
        seen: dict[int, list] = {}
        begin = threading.Barrier(len(nodes))

        def ask(number: int) -> None:
            begin.wait()
            order = names[number * 20 :] + names[: number * 20]
            seen[number] = [nodes[number].lease(order, f"node-{number}", DAY, NINE) for _ in range(3)][-1]

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(nodes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        holders = [{lease.name: (lease.holder, lease.epoch) for lease in leases} for leases in seen.values()]
        assert holders[0].keys() == set(names)
        assert holders[0] == holders[1] == holders[2]
        assert {epoch for _, epoch in holders[0].values()} == {1}

    def test_counters_of_many_nodes_are_summed(self, opened):
        for number in range(3):
            enter(opened(), planned(occurrence(NINE + number)), by=f"node-{number}")
        assert opened().counters() == {"entries.scheduler": 3}

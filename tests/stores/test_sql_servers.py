"""What is special about each database server: its clock, its refusals, its notifications, its plans."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, cast

import psycopg
import pytest
import sqlalchemy as sa

from evertick.errors import SettingsError, StoreError, StoreUnavailable
from evertick.model.instant import DAY, MINUTE
from evertick.model.ledger import Claim
from evertick.model.lifecycle import FAILED, LOST, RUNNING, SUCCEEDED, Trigger
from evertick.model.run import RunKey
from evertick.store import Batch, JobRecord, RunFilter
from evertick.stores import open_store
from evertick.stores.sql import postgres
from evertick.stores.sql.mysql import refuse_old
from evertick.stores.sql.postgres import COPY_FROM
from evertick.stores.sql.reads import select_open_runs, select_pages
from evertick.stores.sql.server_store import ServerStore
from tests.stores.builders import NINE, SECOND, asked, became, enter, gap, occurrence, planned, row

SERVERS = {"postgres": "fresh_postgres", "mysql": "fresh_mysql"}
slow_servers = [pytest.param(name, marks=pytest.mark.slow) for name in SERVERS]


@pytest.fixture
def url(kind, request, tmp_path):
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/evertick.db"
    return request.getfixturevalue(SERVERS[kind])()


@pytest.fixture
def store(url):
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.mark.parametrize("kind", slow_servers)
def test_leases_are_judged_by_the_clock_of_the_server(store):
    (lease,) = store.lease(["a"], "node-1", 30 * MINUTE, now=NINE - 365 * DAY)
    assert abs(lease.expires_at - 30 * MINUTE - time.time_ns() // 1_000) < 5 * MINUTE


@pytest.mark.parametrize("kind", slow_servers)
def test_a_node_that_freezes_with_leases_locked_does_not_keep_them_from_others(url, store):
    """It has checked its epochs and written nothing yet; then its machine sleeps, with the connection open."""
    store.lease(["bucket:1"], "frozen", 1_000, NINE)
    other = open_store(url)
    frozen = store._writer.connect()
    try:
        frozen.begin()
        store._check_epochs(frozen, {1: 1})
        deadline = time.monotonic() + 60
        held = [lease.holder for lease in other.lease(["bucket:1"], "other", MINUTE, NINE)]
        while held != ["other"]:
            assert time.monotonic() < deadline, "the lease of the frozen node cannot be taken"
            held = [lease.holder for lease in other.lease(["bucket:1"], "other", MINUTE, NINE)]
    finally:
        frozen.invalidate()
        frozen.close()
        other.close()


@pytest.mark.parametrize("kind", slow_servers)
def test_one_of_several_nodes_gets_the_last_slot_of_a_queue(url, store):
    stores = [store, *(open_store(url) for _ in range(3))]
    try:
        for round_number in range(10):
            keys = [occurrence(NINE + round_number * SECOND, f"job-{number}") for number in range(len(stores))]
            jobs = [key.job_id for key in keys]
            enter(store, *map(planned, keys))

            def launch(one, key, jobs=jobs):
                batch = Batch(by="x", changes=[became(key, RUNNING)], claims=[Claim("database", 1, jobs, [key])])
                return one.commit(batch).crowded

            with ThreadPoolExecutor(len(stores)) as threads:
                crowded = frozenset().union(*threads.map(launch, stores, keys))
            assert len(crowded) == len(stores) - 1
            store.record([became(key, SUCCEEDED) for key in keys])
    finally:
        for one in stores[1:]:
            one.close()


@pytest.mark.parametrize("kind", slow_servers)
def test_a_read_of_the_whole_ledger_may_take_longer_than_a_write(store):
    longest = {"postgresql": "SHOW idle_in_transaction_session_timeout"}.get(
        store._writer.dialect.name, "SELECT @@idle_readonly_transaction_timeout"
    )
    with store._snapshot() as connection:
        assert connection.exec_driver_sql(longest).scalar_one() in (0, "0")
        if store._writer.dialect.name == "postgresql":
            assert connection.exec_driver_sql("SHOW transaction_timeout").scalar_one() == "0"
    with store._writer.connect() as connection:
        assert connection.exec_driver_sql(longest).scalar_one() in (4, "4s")


@pytest.mark.parametrize("kind", slow_servers)
def test_a_migration_may_pause_between_two_statements(store):
    settings = {"postgresql": ["SHOW idle_in_transaction_session_timeout"]}.get(
        store._writer.dialect.name,
        ["SELECT @@idle_readonly_transaction_timeout", "SELECT @@idle_write_transaction_timeout"],
    )
    with store._migration_lock() as connection:
        assert all(connection.exec_driver_sql(one).scalar_one() in (60, "1min") for one in settings)
    with store._writer.connect() as connection:
        assert all(connection.exec_driver_sql(one).scalar_one() in (4, "4s") for one in settings)


@pytest.mark.parametrize("kind", ["sqlite", *slow_servers])
def test_leases_are_renewed_taken_and_given_up_in_whole_statements(store):
    """Many statements sent in one go are no transaction that is idle to PostgreSQL when the node freezes amid them."""
    names = [f"bucket:{number}" for number in range(20)]
    store.lease(names[:10], "node-1", MINUTE, NINE)
    store.lease(names[5:10], "node-1", 0, NINE)
    many = []
    sa.event.listen(store._writer, "before_cursor_execute", lambda *call: call[-1] and many.append(call[2]))
    store.lease(["new", *names], "node-1", 2 * MINUTE, NINE)
    store.lease(names[:3], "node-1", 0, NINE)
    assert [statement for statement in many if not statement.startswith("INSERT")] == []
    epochs = {held.name: held.epoch for held in store.lease((), "", 0, NINE)}
    assert epochs == {"new": 1, **dict.fromkeys(names[3:], 1), **dict.fromkeys(names[5:10], 2)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres"])
class TestPostgres:
    def test_a_node_that_freezes_amid_many_statements_does_not_keep_its_leases_from_others(self, url, monkeypatch):
        """What it sent has no end yet: to the server that is a transaction at work, not one that is idle."""
        other = open_store(url)
        monkeypatch.setattr(postgres, "TRANSACTION_SECONDS", 6)
        store = open_store(url)
        first = store.lease(["bucket:1"], "frozen", 1, NINE)
        frozen = cast("ServerStore", store)._writer.connect()
        try:
            frozen.begin()
            driver: Any = frozen.connection.driver_connection
            with suppress(psycopg.Error), driver.pipeline():
                driver.execute("SELECT 1 FROM evertick_leases WHERE name = 'bucket:1' FOR UPDATE")
                driver.pgconn.send_flush_request()
                driver.pgconn.flush()
                (held,) = other.lease(["bucket:1"], "other", MINUTE, NINE)
                assert (held.name, held.holder, held.epoch) == ("bucket:1", "other", 2), (first, held)
        finally:
            frozen.invalidate()
            frozen.close()
            store.close()
            other.close()

    def test_a_read_only_database_is_refused(self, url, postgres_server):
        open_store(url).close()
        name = url.rpartition("/")[2]
        postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        with pytest.raises(StoreUnavailable, match=r"is read-only\. Point the store at the primary"):
            open_store(url)

    def test_a_database_that_turns_read_only_is_refused_on_reconnect(self, url, store, postgres_server):
        name = url.rpartition("/")[2]
        postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        enter(store, planned(occurrence()))  # sessions that exist keep their setting
        postgres_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        with pytest.raises(StoreUnavailable, match="did not answer"):
            store.load()
        with pytest.raises(StoreUnavailable, match="is read-only"):
            store.load()

    def test_a_waiting_node_is_notified_of_a_request(self, url, store):
        assert store.wait_for_requests(0)  # the first time: what came before was told to nobody
        assert not store.wait_for_requests(0)
        told: list[bool] = []
        waiting = threading.Thread(target=lambda: told.append(store.wait_for_requests(60)))
        waiting.start()
        other = open_store(url)
        enter(other, planned(occurrence()))
        other.commit(Batch(by="cli", requests=[asked()]))
        waiting.join(60)
        other.close()
        assert told == [True]

    def test_a_request_announced_between_two_waits_is_not_missed(self, store):
        store.wait_for_requests(0)
        store.commit(Batch(by="cli", requests=[asked()]))
        assert store.wait_for_requests(60)

    def test_a_listener_that_lost_its_server_listens_again(self, store, postgres_server):
        store.wait_for_requests(0)
        postgres_server.kill()
        postgres_server.start()
        with pytest.raises(StoreUnavailable):
            store.wait_for_requests(60)
        assert store.wait_for_requests(0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mysql"])
class TestMysql:
    def test_a_read_only_server_is_refused(self, url, mysql_server):
        mysql_server.execute("SET GLOBAL read_only = 1")
        try:
            with pytest.raises(StoreUnavailable, match=r"is read-only\. Point the store at the primary"):
                open_store(url)
        finally:
            mysql_server.execute("SET GLOBAL read_only = 0")

    def test_a_name_that_does_not_fit_is_refused_in_words_and_never_cut(self, store):
        with pytest.raises(StoreError, match="255"):
            enter(store, planned(occurrence(job="x" * 256)))
        assert enter(store, planned(occurrence(job="x" * 255))) == frozenset()

    def test_blanks_at_the_end_of_a_name_count(self, store):
        enter(store, planned(occurrence(job="a")), planned(occurrence(job="a ")))
        store.record([became(occurrence(job="a "), FAILED)])
        assert row(store, occurrence(job="a ")).state is FAILED
        assert row(store, occurrence(job="a")).state is not FAILED


@pytest.mark.parametrize(
    ("version", "product"),
    [
        pytest.param("8.0.36", "MySQL", id="MySQL 8.0"),
        pytest.param("9.1.0-log", "MySQL", id="MySQL 9"),
        pytest.param("10.6.0-MariaDB", "MariaDB", id="MariaDB 10.6"),
        pytest.param("5.5.5-10.11.19-MariaDB-0+deb12u1", "MariaDB", id="MariaDB behind an old prefix"),
        pytest.param("11.4.2-MariaDB", "MariaDB", id="MariaDB 11"),
    ],
)
def test_a_server_that_is_new_enough(version, product):
    assert refuse_old(version) == product


@pytest.mark.parametrize("version", ["5.7.44", "8.0.16", "10.5.9-MariaDB", "5.5.5-10.3.1-MariaDB"])
def test_a_server_that_is_too_old_is_refused_in_words(version):
    with pytest.raises(SettingsError, match=r"needs (MySQL 8\.0\.17|MariaDB 10\.6) or newer"):
        refuse_old(version)


@pytest.mark.parametrize("kind", ["sqlite", *slow_servers])
def test_text_that_no_database_takes_is_kept_readable(store):
    broken = "a\0b\udcffc é"
    store.commit(
        Batch(
            by="node-1", entries=[planned(occurrence(), detail=broken)], jobs=[JobRecord("report", NINE, error=broken)]
        )
    )
    store.record([became(occurrence(), FAILED, detail=broken)])
    assert row(store, occurrence()).detail == "a\ufffdb?c é" == store.load().jobs[0].error


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres"])
@pytest.mark.parametrize("changes", [1, COPY_FROM], ids=["one", "many"])
def test_a_change_finds_its_line_by_its_key_however_many_are_open(store, changes):
    """The planner counts when few are open; then a burst is entered, and each change looked through all of it."""
    burst = [occurrence(NINE, f"job-{number:04}") for number in range(1_000)]
    enter(store, *(planned(occurrence(NINE + at * SECOND, "before"), SUCCEEDED) for at in range(2_000)))
    with store._writer.begin() as connection:
        connection.exec_driver_sql("ANALYZE evertick_runs")
    enter(store, *map(planned, burst))

    with store._writer.begin() as connection:
        assert store._record(connection, [became(key, RUNNING) for key in burst[:changes]]) == frozenset()
        looked_at = connection.exec_driver_sql(
            "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read FROM pg_stat_xact_user_tables "
            "WHERE relname = 'evertick_runs'"
        ).scalar_one()
    assert changes <= looked_at < 10 * changes


def plan_of(store, statement) -> str:
    def explain(connection) -> str:
        text = statement.compile(connection, compile_kwargs={"literal_binds": True})
        how = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
        return "\n".join(map(str, connection.exec_driver_sql(f"{how} {text}")))

    return store.read(explain)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", *slow_servers])
def test_a_long_history_is_read_through_indexes(store, kind):
    wanted = [RunKey(f"job-{n % 500:03}", NINE + n // 500 * SECOND) for n in range(100_000)]
    open_runs = 1_000
    # In parts: between the statements of a large one a busy machine may be idle for longer than a server allows.
    for start in range(0, len(wanted) - open_runs, 9_000):
        enter(store, *(planned(key, SUCCEEDED) for key in wanted[start : start + 9_000]))
    enter(store, *map(planned, wanted[-open_runs:]))
    enter(store, *(gap(NINE - DAY, NINE - 1, 9, job=f"job-{n:03}") for n in range(500)))
    middle = wanted[50_000]
    one_job = RunFilter(job_ids=["job-007"])
    recent = RunFilter(since=wanted[-200].scheduled_for)
    statements = {
        "open": (select_open_runs(None), "evertick_runs_open"),
        "open of a bucket": (select_open_runs([3, 4]), "evertick_runs_open"),
        "one job": (select_pages(one_job, None, 100)[0][0], "evertick_runs_by_job"),
        "one job, behind": (select_pages(one_job, middle, 100)[0][0], "evertick_runs_by_job"),
        "newest": (select_pages(RunFilter(), None, 100)[0][0], None),
        "behind": (select_pages(RunFilter(), middle, 100)[0][0], None),
        "oldest": (select_pages(RunFilter(oldest_first=True), middle, 100)[0][0], None),
        "recent": (select_pages(recent, None, 100)[0][0], None),
        "gaps that reach": (select_pages(recent, None, 100)[1][0], "evertick_gaps"),
    }
    (caught_up,) = select_pages(RunFilter(triggers=[Trigger.CATCHUP]), middle, 100)[0]
    statements["rare: caught up"] = (caught_up, "evertick_runs_by_trigger")
    if kind != "postgres":
        bad = select_pages(RunFilter(states=[FAILED, LOST], since=NINE), middle, 100, has_ends=True)[0]
        statements |= {f"rare: not well {number}": (one, "evertick_runs_by_end") for number, one in enumerate(bad)}
    primary = {"sqlite": "PRIMARY KEY", "postgres": "evertick_runs_pkey", "mysql": "PRIMARY"}[kind]
    sorting = {"sqlite": "TEMP B-TREE", "postgres": "Sort", "mysql": "filesort"}[kind]
    whole_table = {"sqlite": "SCAN evertick_runs\n", "postgres": "Seq Scan on evertick_runs", "mysql": "'ALL'"}[kind]
    for name, (statement, index) in statements.items():
        plan = plan_of(store, statement)
        assert whole_table not in plan, (name, plan)
        if index is None:
            assert primary in plan or (kind == "sqlite" and "SCAN evertick_runs" in plan), (name, plan)
            assert sorting not in plan, (name, plan)
        else:
            assert index in plan, (name, plan)
            # PostgreSQL may sort what its statistics say is next to nothing.
            assert sorting not in plan or not name.startswith("rare") or kind == "postgres", (name, plan)

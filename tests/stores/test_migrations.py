"""Is a database of any version upgraded correctly, also when several nodes start at once?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from evertick.errors import SchemaTooNew
from evertick.model.lifecycle import FAILED, RUNNING
from evertick.model.run import Change
from evertick.store import Batch, JobRecord, RunFilter, StoredBlackout
from evertick.stores import open_store as open_any_store
from evertick.stores.sql import migrations
from evertick.stores.sql.schema import BY_END, METADATA
from evertick.stores.sql.store import SqlStore
from tests.stores.builders import enter, keys, occurrence, planned

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
    opened = open_store(url)
    yield opened
    opened.close()


def execute(store, *statements: str) -> None:
    with store._writer.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_an_empty_database_gets_the_newest_schema(store):
    assert store.schema().version == migrations.newest()


def differences(store) -> list[object]:
    """Between the tables of a database and those that the statements are made from."""

    def is_ours(thing, name, kind, *_) -> bool:
        # What not every database can have is not part of the schema; that it is used where it is, plans tell.
        return name not in ("ended_as", BY_END) and (kind != "table" or name.startswith("evertick_"))

    with store._writer.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": is_ours})
        return compare_metadata(context, METADATA)


def test_the_steps_make_the_tables_that_the_statements_use(store):
    assert differences(store) == []


def test_opening_again_changes_nothing(url, store):
    enter(store, planned(occurrence()))
    assert store.migrate() == 0
    again = open_store(url)
    try:
        assert again.schema() == store.schema()
        assert keys(again) == [occurrence()]
    finally:
        again.close()


def test_a_database_of_a_newer_evertick_is_refused_and_named(url, store):
    newer = migrations.newest() + 1
    execute(store, f"INSERT INTO evertick_schema (version, evertick) VALUES ({newer}, '9.8.7')")
    with pytest.raises(SchemaTooNew) as refused:
        open_store(url)
    assert f"schema version {newer}" in str(refused.value)
    assert "pip install 'evertick>=9.8.7'" in str(refused.value)


def test_an_interrupted_migration_resumes_where_it_stopped(url, store):
    """MySQL commits after every table: what a crash leaves behind is some of them, and no version."""
    enter(store, planned(occurrence()))
    on = " ON evertick_runs" if "mysql" in url else ""
    execute(
        store,
        "DELETE FROM evertick_schema",
        "DROP TABLE evertick_requests",
        f"DROP INDEX evertick_runs_by_job{on}",
    )
    assert store.migrate() == len(migrations.STEPS)
    with store._writer.connect() as connection:
        tables = sa.inspect(connection).get_table_names()
        indexes = {index["name"] for index in sa.inspect(connection).get_indexes("evertick_runs")}
    assert "evertick_requests" in tables
    assert "evertick_runs_by_job" in indexes
    assert keys(store) == [occurrence()]


def pretend_unreleased(store, version: int) -> None:
    execute(
        store,
        f"DELETE FROM evertick_schema WHERE version > {migrations.FIRST}",
        f"UPDATE evertick_schema SET version = {version}, serves = 1",
    )


def test_a_ledger_of_a_version_before_the_first_release_is_upgraded_and_keeps_its_lines(url, store):
    """Of the first of them, so that everything that came later has to be added."""
    enter(store, planned(occurrence()))
    on = " ON evertick_runs" if "mysql" in url else ""
    later = [f"DROP INDEX evertick_runs_by_trigger{on}", "DROP TABLE evertick_definitions"]
    if "postgresql" not in url:
        later += [f"DROP INDEX {BY_END}{on}", "ALTER TABLE evertick_runs DROP COLUMN ended_as"]
    if "mysql" in url:
        later += ["ALTER TABLE evertick_runs MODIFY executor VARCHAR(255) NOT NULL DEFAULT ''"]
    later += [f"ALTER TABLE evertick_runs DROP COLUMN {name}" for name in ("steps", "definition", "earlier", "facts")]
    later += [f"ALTER TABLE evertick_jobs DROP COLUMN {name}" for name in ("skip_next", "definition", "asked_at")]
    execute(store, *later)
    pretend_unreleased(store, 1)
    execute(store, "ALTER TABLE evertick_schema DROP COLUMN serves")
    assert store.migrate() == len(migrations.STEPS)
    assert differences(store) == []
    assert [row.steps for row in store.query(RunFilter()).rows] == [""]
    store.record([Change(occurrence(), RUNNING, 1, steps="[]")])
    assert [row.steps for row in store.query(RunFilter()).rows] == ["[]"]
    assert not [*store.query(RunFilter(states=[FAILED])).rows]


def test_a_ledger_of_the_last_version_before_the_first_release_needs_nothing_new(store):
    enter(store, planned(occurrence()))
    pretend_unreleased(store, migrations.FIRST - 1)
    assert store.migrate() == len(migrations.STEPS)
    assert differences(store) == []
    assert keys(store) == [occurrence()]


def test_a_ledger_from_before_deadlines_gets_their_columns_and_serves_the_version_before(store):
    columns = ("deadlines_through", "late_since")
    execute(
        store,
        f"DELETE FROM evertick_schema WHERE version > {migrations.FIRST}",
        *(f"ALTER TABLE evertick_jobs DROP COLUMN {name}" for name in columns),
    )
    assert store.migrate() == migrations.newest() - migrations.FIRST
    assert differences(store) == []
    assert store.schema().serves == migrations.FIRST
    store.commit(Batch(by="a1/1#1", jobs=[JobRecord("report", 1, deadlines_through=5, late_since=7)]))
    assert [(record.deadlines_through, record.late_since) for record in store.load().jobs] == [(5, 7)]


def test_a_ledger_from_before_added_blackouts_gets_their_table_and_serves_the_version_before(store):
    execute(store, "DELETE FROM evertick_schema WHERE version > 14", "DROP TABLE evertick_blackouts")
    assert store.migrate() == migrations.newest() - 14
    assert differences(store) == []
    assert store.schema().serves == migrations.FIRST
    store.commit(Batch(by="cli", blackouts=[StoredBlackout("b1", "{}")]))
    assert store.blackouts() == {"b1": "{}"}


START = """
import sys
from evertick.stores import open_store
sys.stdin.readline()
store = open_store(sys.argv[1])
print(*store.schema())
store.close()
"""


@pytest.mark.slow
def test_nodes_that_start_together_migrate_once(url):
    folder = Path(__file__).parent.parent.parent
    nodes = [
        subprocess.Popen(
            [sys.executable, "-c", START, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        for _ in range(4)
    ]
    for node in nodes:
        assert node.stdin is not None
        node.stdin.write("\n")
        node.stdin.flush()
    answers = [node.communicate(timeout=180) for node in nodes]
    assert [errors for _, errors in answers] == [""] * len(nodes)
    assert len({answer for answer, _ in answers}) == 1
    store = open_store(url)
    try:
        rows = store.read(lambda connection: connection.exec_driver_sql("SELECT version FROM evertick_schema").all())
        assert [version for (version,) in rows] == list(range(migrations.FIRST, migrations.newest() + 1))
    finally:
        store.close()

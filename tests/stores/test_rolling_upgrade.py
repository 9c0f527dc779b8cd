"""Can nodes of the previous version continue while a node of the next version has upgraded the database?

Nodes are replaced one after another, so for some minutes the old code works on the new schema. It can, as long as every
step only adds: what the old statements name stays as it was, and what they do not name need not be said.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from evertick.errors import SchemaTooNew, StoreError
from evertick.model.instant import HOUR
from evertick.store import Batch, RunFilter
from evertick.stores import open_store as open_any_store
from evertick.stores.sql import migrations
from evertick.stores.sql.migrations import SchemaEditor, Step, newest
from evertick.stores.sql.store import SqlStore
from tests.stores.builders import NINE, asked, enter, occurrence, planned

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


class Column(NamedTuple):
    type: str
    is_nullable: bool
    default: str | None


class Shape(NamedTuple):
    columns: dict[tuple[str, str], Column]
    keys: dict[str, tuple[str, ...]]
    unique: frozenset[tuple[str, ...]]


def shape_of(connection: sa.Connection) -> Shape:
    look = sa.inspect(connection)
    names = [name for name in look.get_table_names() if name.startswith("evertick_")]
    columns = {
        (name, one["name"]): Column(str(one["type"]), one["nullable"], one["default"])
        for name in names
        for one in look.get_columns(name)
    }
    unique = {
        (name, *map(str, index["column_names"]))
        for name in names
        for index in look.get_indexes(name)
        if index["unique"]
    }
    keys = {name: tuple(look.get_pk_constraint(name)["constrained_columns"]) for name in names}
    return Shape(columns, keys, frozenset(unique))


def serves(old: Column, new: Column | None) -> bool:
    """Whether code that knows a column as it was can use what became of it: the same, or room for longer texts."""
    if new is None or new[1:] != old[1:]:
        return False
    was, now = (re.fullmatch(r"VARCHAR\((\d+)\)", one.type) for one in (old, new))
    is_longer = was is not None and now is not None and int(was[1]) <= int(now[1])
    return old.type == new.type or is_longer


@pytest.mark.parametrize(
    ("new", "is_fine"),
    [
        pytest.param(Column("VARCHAR(20)", False, None), True, id="room for longer texts"),
        pytest.param(Column("VARCHAR(5)", False, None), False, id="room for shorter ones only"),
        pytest.param(Column("INTEGER", False, None), False, id="another type"),
        pytest.param(Column("VARCHAR(10)", True, None), False, id="may be nothing now"),
        pytest.param(None, False, id="gone"),
    ],
)
def test_what_the_previous_version_can_continue_with(new, is_fine):
    assert serves(Column("VARCHAR(10)", False, None), new) is is_fine


def breaks(before: Shape, after: Shape) -> list[str]:
    """What the version before could not go on with."""
    changed = [name for name, old in before.columns.items() if not serves(old, after.columns.get(name))]
    old_tables = {table for table, _ in before.columns}
    added = [name for name in after.columns if name[0] in old_tables and name not in before.columns]
    needed = [name for name in added if not after.columns[name].is_nullable and after.columns[name].default is None]
    keys = [table for table, key in before.keys.items() if after.keys.get(table) != key]
    unique = {one for one in after.unique - before.unique if one[0] in old_tables}
    return [*(f"{table}.{name}" for table, name in [*changed, *needed]), *keys, *map(str, sorted(unique))]


def add_what_may_be_empty(editor: SchemaEditor) -> None:
    editor.add_column("evertick_runs", sa.Column("mark", sa.String(40), nullable=True))
    editor.add_column("evertick_jobs", sa.Column("rank", sa.Integer(), nullable=False, server_default=sa.text("0")))
    editor.add_table(sa.Table("evertick_marks", sa.MetaData(), sa.Column("batch", sa.String(200), primary_key=True)))


def add_what_must_be_said(editor: SchemaEditor) -> None:
    editor.add_column("evertick_jobs", sa.Column("owner", sa.String(40), nullable=False))


def take_away(editor: SchemaEditor) -> None:
    editor.operations.drop_column("evertick_requests", "answer")


def allow_each_once(editor: SchemaEditor) -> None:
    editor.operations.create_index("evertick_one_holder", "evertick_leases", ["holder"], unique=True)


@pytest.mark.parametrize(
    ("step", "broken"),
    [
        pytest.param(add_what_may_be_empty, [], id="adds"),
        pytest.param(add_what_must_be_said, ["evertick_jobs.owner"], id="needs what old statements lack"),
        pytest.param(take_away, ["evertick_requests.answer"], id="takes away"),
        pytest.param(allow_each_once, ["('evertick_leases', 'holder')"], id="refuses what was fine"),
    ],
)
def test_only_a_step_that_adds_serves_the_version_before(url, step, broken):
    open_store(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        before = shape_of(connection)
        step(SchemaEditor(connection))
        after = shape_of(connection)
    engine.dispose()
    assert breaks(before, after) == broken


def become_next(monkeypatch, *, is_breaking: bool = False) -> None:
    """Pretend to be the next version, which takes one more step."""
    step = Step(add_what_may_be_empty, is_breaking=is_breaking)
    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, step))


def test_the_next_version_takes_its_step_and_keeps_what_is_there(url, monkeypatch):
    with closing(open_store(url)) as store:
        enter(store, planned(occurrence()))
    become_next(monkeypatch)
    with closing(open_store(url)) as store:
        assert store.schema()[::2] == (newest(), migrations.oldest_served())
        assert [row.key for row in store.query(RunFilter()).rows] == [occurrence()]
        assert store.read(lambda connection: connection.exec_driver_sql("SELECT mark FROM evertick_runs").all())


def test_an_old_version_may_start_behind_a_step_that_only_adds(url, monkeypatch):
    """In the middle of a roll nodes of both versions come and go; and a rollback needs it too."""
    with monkeypatch.context() as upgrade:
        become_next(upgrade)
        open_store(url).close()
    with closing(open_store(url)) as store:
        assert store.schema().version > newest()
        assert enter(store, planned(occurrence())) == frozenset()
        assert store.migrate() == 0


def test_an_old_version_that_starts_behind_a_step_that_breaks_is_refused(url, monkeypatch):
    """It would not know what the new columns mean."""
    with monkeypatch.context() as upgrade:
        become_next(upgrade, is_breaking=True)
        open_store(url).close()
    with pytest.raises(SchemaTooNew, match=r"this is Evertick \S+, which knows versions up to .* Install Evertick"):
        open_store(url)


def test_a_step_that_breaks_is_not_taken_while_others_use_the_ledger(request, url, monkeypatch):
    with closing(open_store(url)) as store:
        store.lease(["node:node-1/abc"], "node-1/abc", HOUR, now=NINE)
    become_next(monkeypatch, is_breaking=True)
    if "sqlite" in request.node.callspec.id:
        open_store(url).close()  # a file has a lock of its own; a lease in it may be of somebody long gone
        return
    with pytest.raises(StoreError, match=r"its running nodes cannot use: node-1\. Stop all of them"):
        open_store(url)


def test_a_request_that_only_a_newer_version_knows_waits_for_it(url):
    with closing(open_store(url)) as store:
        store.commit(Batch(by="cli", requests=[asked("r1"), asked("r2")]))
        with store._writer.begin() as connection:
            connection.exec_driver_sql("UPDATE evertick_requests SET kind = 'dream' WHERE id = 'r1'")
        assert [request.id for request in store.claim(None, 10)] == ["r2"]

"""Can nodes of the version before go on while the next version's first node has upgraded the database?

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
from evertick.stores import open_store
from evertick.stores.sql import migrations
from evertick.stores.sql.migrations.making import Making
from tests.stores.building import NINE, asked, enter, occurrence, planned

SERVERS = {"postgres": "fresh_postgres", "mysql": "fresh_mysql"}
STEPS = [number for number, step in enumerate(migrations.STEPS, 1) if not step.is_breaking]


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
    unique = {(name, *index["column_names"]) for name in names for index in look.get_indexes(name) if index["unique"]}
    keys = {name: tuple(look.get_pk_constraint(name)["constrained_columns"]) for name in names}
    return Shape(columns, keys, frozenset(unique))


@pytest.fixture
def shapes(url):
    """What the database looks like after each step."""
    engine = sa.create_engine(url)
    found = []
    with engine.begin() as connection:
        making = Making(connection)
        migrations.make_versions(making)
        for step in migrations.STEPS:
            step.apply(making)
            found.append(shape_of(connection))
    engine.dispose()
    return found


def serves(old: Column, new: Column | None) -> bool:
    """Whether code that knows a column as it was can use what became of it: the same, or room for longer texts."""
    if new is None or new[1:] != old[1:]:
        return False
    lengths = [re.fullmatch(r"VARCHAR\((\d+)\)", one.type) for one in (old, new)]
    is_longer = all(lengths) and int(lengths[0][1]) <= int(lengths[1][1])
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
def test_what_the_version_before_can_go_on_with(new, is_fine):
    assert serves(Column("VARCHAR(10)", False, None), new) is is_fine


def test_no_step_takes_away_or_changes_what_the_version_before_uses(shapes):
    for number in STEPS:
        before, after = shapes[number - 2], shapes[number - 1]
        changed = {name: (old, after.columns.get(name)) for name, old in before.columns.items()}
        assert {name: pair for name, pair in changed.items() if not serves(*pair)} == {}, f"step {number}"
        assert before.keys.items() <= after.keys.items(), f"step {number}"


def test_no_step_asks_for_what_the_version_before_does_not_know(shapes):
    for number in STEPS:
        before, after = shapes[number - 2], shapes[number - 1]
        old_tables = {table for table, _ in before.columns}
        added = {name: one for name, one in after.columns.items() if name not in before.columns}
        needed = [name for name, one in added.items() if name[0] in old_tables and not one.is_nullable]
        assert [name for name in needed if after.columns[name].default is None] == [], f"step {number}"
        assert {one for one in after.unique if one[0] in old_tables} <= before.unique, f"step {number}"


def test_a_line_written_by_the_first_version_is_read_by_this_one(url, shapes):
    """Into a database of this version, as the old node would: naming only what it knows."""
    store = open_store(url)
    enter(store, planned(occurrence()))
    old = sorted(name for table, name in shapes[0].columns if table == "evertick_runs")
    table = sa.Table("evertick_runs", sa.MetaData(), *(sa.Column(name) for name in old))
    with store._writer.begin() as connection:
        row = dict(connection.execute(sa.select(*(table.c[name] for name in old))).mappings().one())
        connection.execute(sa.insert(table).values({**row, "job_id": "from-an-old-node"}))
    found = {row.key.job_id for row in store.query(RunFilter(), limit=10).rows}
    assert found == {"report", "from-an-old-node"}
    store.close()


def pretend_to_be_older(monkeypatch) -> None:
    """As the version before the last step."""
    monkeypatch.setattr(migrations, "NEWEST", migrations.NEWEST - 1)


def test_an_old_version_may_start_behind_a_step_that_only_adds(url, monkeypatch):
    """In the middle of a roll nodes of both versions come and go; and who goes back to the old one wants it too."""
    open_store(url).close()
    pretend_to_be_older(monkeypatch)
    with closing(open_store(url)) as store:
        assert store.schema().version > migrations.NEWEST
        assert enter(store, planned(occurrence())) == frozenset()
        assert store.migrate() == 0


def break_the_last_step(monkeypatch) -> None:
    *others, last = migrations.STEPS
    monkeypatch.setattr(migrations, "STEPS", (*others, last._replace(is_breaking=True)))


def test_an_old_version_that_starts_behind_a_step_that_breaks_is_refused(url, monkeypatch):
    """It would not know what the new columns mean."""
    break_the_last_step(monkeypatch)
    open_store(url).close()
    pretend_to_be_older(monkeypatch)
    with pytest.raises(SchemaTooNew, match=r"this is Evertick \S+, which knows versions up to .* Install Evertick"):
        open_store(url)


def test_a_step_that_breaks_is_not_taken_while_others_use_the_ledger(request, url, monkeypatch):
    with monkeypatch.context() as before, closing(open_store(url)) as store:
        pretend_to_be_older(before)
        with store._writer.begin() as connection:
            connection.exec_driver_sql(f"DELETE FROM evertick_schema WHERE version > {migrations.NEWEST}")
        store.lease(["node:node-1/abc"], "node-1/abc", HOUR, now=NINE)
    break_the_last_step(monkeypatch)
    if "sqlite" in request.node.callspec.id:
        open_store(url).close()  # a file has a lock of its own; a lease in it may be of somebody long gone
        return
    with pytest.raises(StoreError, match=r"cannot be shared with the nodes that use it: node-1\. Stop them all"):
        open_store(url)


def test_a_request_that_only_a_newer_version_knows_waits_for_it(url):
    with closing(open_store(url)) as store:
        store.commit(Batch(by="cli", requests=[asked("r1"), asked("r2")]))
        with store._writer.begin() as connection:
            connection.exec_driver_sql("UPDATE evertick_requests SET kind = 'dream' WHERE id = 'r1'")
        assert [request.id for request in store.claim(None, 10)] == ["r2"]

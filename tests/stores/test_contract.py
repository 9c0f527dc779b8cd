"""Does every store keep the contract, and do all of them give the same answers?"""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from evertick.store import Capabilities
from evertick.stores import open_reader, open_store
from tests.ledgers import new_ledger
from tests.stores import (
    contract,
    contract_claims,
    contract_counts,
    contract_entries,
    contract_items,
    contract_overview,
    contract_reads,
)
from tests.stores.differential import compare

SERVERS = {"postgres": "postgres_server", "mysql": "mysql_server"}
STORES = [
    "memory",
    "files",
    "sqlite",
    "sqlite, as a command reads it",
    *(pytest.param(name, marks=pytest.mark.slow) for name in SERVERS),
]


@pytest.fixture(scope="module")
def databases():
    """One database per server for all of these tests: making one takes longer than most of them."""
    made: dict[Any, Any] = {}
    yield made
    for database in made.values():
        database.close()


@pytest.fixture(params=STORES)
def url(request, tmp_path, databases):
    """Where an empty store of each kind may be opened."""
    match request.param:
        case "memory":
            return "memory:"
        case "files":
            return f"files://{tmp_path}/pipelines"
        case "sqlite" | "sqlite, as a command reads it":
            return new_ledger(tmp_path / "evertick.db")
        case server if server not in databases:
            databases[server] = Database(request.getfixturevalue(SERVERS[server]).fresh())
        case server:
            databases[server].empty()
    return databases[request.param].url


class Database:
    """Made once and emptied before each test, by a connection that stays."""

    def __init__(self, url):
        self.url = url
        self._engine = sa.create_engine(url)
        self._tables = None

    def empty(self):
        """Delete all rows but the one that says which schema this is."""
        with self._engine.begin() as connection:
            if self._tables is None:  # the first test has made them
                self._tables = sorted(set(sa.inspect(connection).get_table_names()) - {"evertick_schema"})
            for table in self._tables:
                connection.execute(sa.text(f"DELETE FROM {table}"))

    def close(self):
        self._engine.dispose()


@pytest.fixture
def open_here(request, url):
    """Opens the store: as a scheduler does, or as a command does."""
    is_read = request.node.callspec.params["url"] == "sqlite, as a command reads it"
    return partial(open_reader if is_read else open_store, url)


@pytest.fixture
def opened(open_here):
    """The stores this test has open: one, until it reopens it."""
    stores = [open_here()]
    yield stores
    stores[-1].close()


@pytest.fixture
def store(opened):
    return opened[-1]


@pytest.fixture
def reopen(opened, url, open_here):
    def closed_and_opened():
        if url != "memory:":  # which is gone with its owner, and lives as long as it
            opened[-1].close()
            opened.append(open_here())
        return opened[-1]

    return closed_and_opened


class TestEntries(contract_entries.EntryContract):
    pass


class TestGaps(contract_entries.GapContract):
    pass


class TestCommit(contract.CommitContract):
    pass


class TestRecord(contract.RecordContract):
    pass


class TestClaims(contract_claims.ClaimContract):
    pass


class TestLeases(contract.LeaseContract):
    pass


class TestSkips(contract_entries.SkipContract):
    pass


class TestLoad(contract_reads.LoadContract):
    pass


class TestQuery(contract_reads.QueryContract):
    pass


class TestRequests(contract_reads.RequestContract):
    pass


class TestSchedules(contract_reads.ScheduleContract):
    pass


class TestCompact(contract_reads.CompactContract):
    pass


class TestCounters(contract_reads.CounterContract):
    pass


class TestNewest(contract_overview.NewestContract):
    pass


class TestTally(contract_overview.TallyContract):
    pass


class TestOutcomes(contract_counts.OutcomeContract):
    pass


class TestItems(contract_items.ItemContract):
    pass


class TestPause(contract_overview.PauseContract):
    pass


CAPABILITIES = {
    "memory": set(),
    "files": {"next_run_files"},
    "sqlite": {"change_stamps", "integrity_checks", "backups"},
    "sqlite, as a command reads it": {"change_stamps", "integrity_checks", "backups"},
    "postgres": {"announcements"},
    "mysql": set(),
}


def test_a_store_declares_what_only_some_can_do(request, store):
    names = {one.name for one in fields(Capabilities)}
    declared = {name for name in names if getattr(store.capabilities, name) is not None}
    assert declared == CAPABILITIES[request.node.callspec.params["url"]]


class TestElsewhere(contract_overview.ElsewhereContract):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_random_history_is_answered_as_by_the_reference(store, reopen, seed):
    compare(store, reopen, seed, steps=400)

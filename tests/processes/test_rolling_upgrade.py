"""Can nodes be replaced by the next version one after another, under load, and back again?

The next version is made for it (`next_version.py`): one more step of the schema, which adds a column and a table and
uses both. It works beside the present one on one ledger, and each meets what the other has written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from evertick.model.instant import MINUTE
from evertick.stores import open_store
from evertick.stores.sql import migrations
from evertick.stores.sql.store import SqlStore
from tests.processes import proof
from tests.processes.cluster import Node
from tests.processes.load import ALL, JOBS, SERVERS, configs, prove, stop_in_order, wait_until_shared
from tests.processes.next_version import VERSION, make_next_version


@pytest.fixture(params=SERVERS)
def url(request):
    return request.getfixturevalue(request.param)()


class Roll:
    """Nodes of which each can be replaced by one of either version."""

    def __init__(self, url: str, folder: Path, stack: ExitStack) -> None:
        self._configs = configs(url, folder, 3)
        self._stack = stack
        self.seen: list[Node] = []
        self.nodes = [self._start(number, None) for number in range(len(self._configs))]

    def _start(self, number: int, version: Path | None) -> Node:
        node = Node(self._configs[number], version)
        self._stack.callback(node.close)
        self.seen.append(node)
        return node

    def replace(self, number: int, version: Path | None) -> None:
        """Stop one in order, start another in its place, and let all of them work."""
        self.nodes[number].stop()
        self.nodes[number] = self._start(number, version)
        self.work()

    def work(self) -> None:
        """Until the jobs are shared by all, and each node has launched all of its own since."""
        wait_until_shared(self.nodes)
        for node in self.nodes:
            node.wait_for_own_launches()


@pytest.fixture
def roll(url, tmp_path) -> Iterator[Roll]:
    with ExitStack() as stack:
        yield Roll(url, tmp_path, stack)


@pytest.mark.slow
def test_nodes_are_replaced_one_after_another_and_nothing_is_lost_or_decided_twice(roll, url, tmp_path):
    new, old = make_next_version(tmp_path / "next"), None
    roll.work()
    roll.replace(0, new)
    assert schema_of(url) == (migrations.newest() + 1, VERSION, migrations.FIRST)
    roll.replace(1, old)  # a machine that is started again before its turn has come
    roll.replace(1, new)
    roll.replace(2, new)
    roll.replace(0, old)  # and somebody who does not like the new one goes back
    stop_in_order(roll.nodes)
    prove(url, roll.seen)
    assert proof.started_twice(proof.launches_of(*sorted({node.attempts for node in roll.seen}))) == []
    with closing(open_store(url)) as store:
        assert isinstance(store, SqlStore)
        by_both = store.read(
            lambda connection: connection.exec_driver_sql(
                "SELECT count(*), count(mark), (SELECT count(*) FROM evertick_marks) FROM evertick_runs"
            ).one()
        )
    lines, marked, batches = by_both
    assert batches
    assert JOBS < marked < lines - JOBS, "only one of the versions has entered anything"


@pytest.mark.slow
def test_a_version_that_cannot_share_the_ledger_waits_until_the_others_have_stopped(fresh_postgres, tmp_path):
    url, new = fresh_postgres(), make_next_version(tmp_path / "next", is_breaking=True)
    # With a lease that no slow machine can cost it.
    (config,) = configs(url, tmp_path, 1, lease_us=10 * MINUTE)
    with closing(Node(config)) as old:
        old.wait_for_launches(ALL)
        with closing(Node(config, new)) as refused:
            assert refused.wait() != 0
            words = refused.last_words()
        assert "its running nodes cannot use: node-0. Stop all of them" in words
        assert schema_of(url).version == migrations.newest()
        old.wait_for_launches(ALL, old.mark())  # and it goes on undisturbed
        old.stop()
    with closing(Node(config, new)) as newer:
        newer.wait_for_launches(ALL)
        with closing(Node(config)) as late:
            assert late.wait() != 0
            words = late.last_words()
        assert f"written by Evertick {VERSION}" in words
        assert f"pip install 'evertick>={VERSION}'" in words
        newer.stop()


def schema_of(url: str) -> migrations.Schema:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            return migrations.read_schema(connection)
    finally:
        engine.dispose()

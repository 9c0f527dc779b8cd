"""Does a named queue hold its limit when several nodes start its runs, and one of them dies?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.disk_executor import ends_in, launches_in
from tests.processes import proof
from tests.processes.cluster import Node, cluster
from tests.processes.load import SERVERS, configs

LIMIT = 2


@pytest.fixture(params=SERVERS)
def url(request):
    return request.getfixturevalue(request.param)()


def most_at_once(files: list[Path]) -> int:
    """Of all attempts on all nodes; one that never ended is left out, because its node has died with it."""
    changes = []
    for file in files:
        ends = ends_in(file)
        for one in launches_in(file):
            if (end := ends.get((one.run_id, one.attempt))) is not None and end > one.at:
                changes += [(one.at, 1), (end, -1)]
    most = present = 0
    for _, change in sorted(changes):
        present += change
        most = max(most, present)
    return most


@pytest.mark.slow
def test_the_limit_of_a_queue_holds_for_all_nodes_together(url, tmp_path):
    with cluster(*configs(url, tmp_path, 3, queue_limit=LIMIT, takes_us=400_000)) as nodes:
        for node in nodes:
            node.wait_for_word("launched")
        nodes[0].kill()
        for node in nodes[1:]:
            wait_for_many(node)
            node.stop()
        files = [node.attempts for node in nodes]
        assert 1 <= most_at_once(files) <= LIMIT
        proof.verified(url)
        rows, launches = proof.rows_of(url), proof.launches_of(*files)
        assert proof.unknown_to_the_ledger(rows, launches) == []
        assert proof.launched_behind_an_owner(launches) == []


def wait_for_many(node: Node) -> None:
    """Until it has got a place again and again."""
    node.wait_for(lambda said: sum(line.startswith("launched") for line in said) >= 10, node.mark())

"""The ledger cannot be written for a while: is anything lost, and does planning resume afterwards?"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.processes import proof
from tests.processes.cluster import cluster
from tests.processes.node import Config, jobs_of

JOBS = 12
ALL = {job.id for job in jobs_of(Config("", "", seconds=JOBS))}
FULL_BYTES = 96 * 1024
"""No file may grow beyond this while the disk is full: the ledger has, the executor's own file has not."""


@pytest.mark.slow
def test_a_database_that_is_killed_and_comes_back_under_a_running_node(postgres_server, fresh_postgres, tmp_path):
    url, attempts = fresh_postgres(), tmp_path / "attempts"
    with cluster(Config(url, str(attempts), seconds=JOBS)) as (node,):
        node.wait_for_launches(ALL)
        mark = node.mark()
        postgres_server.kill()
        try:
            node.wait_for_word("store.away", mark)
        finally:
            postgres_server.start()
        node.wait_for_word("store.back", mark)
        node.wait_for_launches(ALL, node.mark())
        node.wait_until_settled()
        node.stop()
    _prove(url, attempts)


@pytest.mark.slow
def test_a_disk_that_is_full_for_a_while(tmp_path):
    url, attempts = f"sqlite:///{tmp_path}/evertick.db", tmp_path / "attempts"
    with cluster(Config(url, str(attempts), seconds=JOBS)) as (node,):
        while _size(tmp_path / "evertick.db-wal") <= FULL_BYTES:
            node.wait_for_launches(ALL, node.mark())
        assert _size(attempts) < FULL_BYTES // 2
        mark = node.mark()
        unlimited = resource.RLIM_INFINITY
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (FULL_BYTES, unlimited))
        node.wait_for_word("store.away", mark)
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
        node.wait_for_word("store.back", mark)
        node.wait_for_launches(ALL, node.mark())
        node.wait_until_settled()
        node.stop()
    _prove(url, attempts)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _prove(url: str, attempts: Path) -> None:
    assert proof.verified(url).runs > 2 * JOBS
    rows, launches = proof.rows_of(url), proof.launches_of(attempts)
    assert proof.started_twice(launches) == []
    assert proof.unknown_to_the_ledger(rows, launches) == []
    assert proof.left_behind(rows, launches) == []

"""A ledger on this machine has one scheduler at a time: who gets it, and when."""

from __future__ import annotations

import pytest

from evertick.service import Service, open_store
from tests.processes import proof
from tests.processes.cluster import Node, cluster
from tests.processes.node import REFUSED, Config, jobs_of

JOBS = 12
ALL = {job.id for job in jobs_of(Config("", "", seconds=JOBS))}


@pytest.fixture(params=["sqlite", "files"])
def url(request, tmp_path):
    return f"sqlite:///{tmp_path}/evertick.db" if request.param == "sqlite" else f"files://{tmp_path}/pipelines"


@pytest.mark.slow
def test_a_second_scheduler_is_refused_and_takes_over_at_once_when_the_first_is_killed(url, tmp_path):
    config = Config(url, str(tmp_path / "attempts"), seconds=JOBS)
    with cluster(config) as (first,):
        first.wait_for_launches(ALL)
        second = Node(config)
        try:
            assert second.wait() == REFUSED
        finally:
            second.close()
        assert f"process {first.pid}" in second.said[-1]
        first.wait_for_launches(ALL, first.mark())  # and goes on undisturbed
        first.kill()
        with cluster(config) as (third,):
            third.wait_for_launches(ALL)
            third.stop()
    proof.verified(url)
    launches = proof.launches_of(tmp_path / "attempts")
    assert proof.started_twice(launches) == []
    assert proof.launched_behind_an_owner(launches) == []


@pytest.mark.parametrize("name", ["node-1", "node-2"], ids=["under the same name", "under another name"])
def test_whoever_owns_the_ledger_next_has_newer_epochs(tmp_path, name):
    """Otherwise the one before, should it wake up again, could still write."""
    url = f"sqlite:///{tmp_path}/evertick.db"
    store = open_store(url)
    first, second = (Service(url, list, {}, node=node) for node in ("node-1", name))
    before = first._own_everything(store).epochs
    after = second._own_everything(store).epochs
    store.close()
    assert before.keys() == after.keys()
    assert all(after[bucket] > before[bucket] for bucket in before)

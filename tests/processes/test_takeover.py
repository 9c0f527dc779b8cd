"""What becomes of a node's jobs when it dies, sleeps past its lease, or has no lease at all?"""

from __future__ import annotations

import signal
import time
from collections import Counter
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from evertick.errors import Fenced
from evertick.loop.fire import FENCE_BITS
from evertick.model.bucket import bucket_of
from evertick.model.instant import SECOND
from evertick.model.ledger import Batch
from evertick.service import open_store
from evertick.testing.disk_executor import launches_in
from tests.processes import proof
from tests.processes.cluster import Node, cluster, launched
from tests.processes.node import Config, jobs_of

JOBS = 48
TAKEOVER_US = 10 * SECOND
"""What is promised: a dead node's jobs fire again on the others within this, under the default lease."""
SERVERS = [pytest.param("fresh_postgres", id="PostgreSQL"), pytest.param("fresh_mysql", id="MariaDB")]
ALL = {job.id for job in jobs_of(Config("", "", seconds=JOBS))}


@pytest.fixture(params=SERVERS)
def url(request):
    return request.getfixturevalue(request.param)()


def configs(url: str, folder: Path, count: int, **known: object) -> list[Config]:
    return [
        replace(Config(url, str(folder / f"attempts-{number}"), f"node-{number}", seconds=JOBS), **known)
        for number in range(count)
    ]


def wait_until_shared(nodes: list[Node]) -> None:
    """Until each has its share of the jobs, and none is anybody else's too."""
    while True:
        shares = [node.owned() for node in nodes]
        if all(shares) and set.union(*shares) == ALL and sum(map(len, shares)) == JOBS:
            return
        nodes[0].wait_a_moment()


def prove(url: str, nodes: list[Node]) -> None:
    proof.verified(url)
    files = [node.attempts for node in nodes]
    launches = proof.launches_of(*files)
    rows = proof.rows_of(url)
    assert proof.unknown_to_the_ledger(rows, launches) == []
    assert proof.launched_behind_an_owner(launches) == []
    assert proof.unfinished(rows) == []
    for file in files:
        assert proof.started_twice(launches_in(file)) == []


@pytest.mark.slow
def test_the_jobs_of_a_killed_node_fire_on_the_others_within_ten_seconds(url, tmp_path, record_property):
    with cluster(*configs(url, tmp_path, 3)) as nodes:
        victim, *others = nodes
        wait_until_shared(nodes)
        orphans = victim.owned()
        victim.wait_for_launches(orphans, victim.mark())
        victim.kill()
        died_at = max(one.at for one in launches_in(victim.attempts))
        marks = [node.mark() for node in others]
        while not orphans <= set.union(*(launched(node.said[mark:]) for node, mark in zip(others, marks, strict=True))):
            others[0].wait_a_moment()
        for node in others:
            node.wait_until_settled()
            node.stop()
        later = [one for one in proof.launches_of(*(node.attempts for node in others)) if one.at > died_at]
        taken = [min(one.at for one in later if one.run_id.startswith(f"{job}@")) - died_at for job in orphans]
        record_property("takeover_seconds", max(taken) / SECOND)
        assert max(taken) < TAKEOVER_US
        prove(url, nodes)


@pytest.mark.slow
def test_a_node_that_slept_past_its_lease_writes_and_launches_nothing_of_what_is_no_longer_its_own(url, tmp_path):
    with cluster(*configs(url, tmp_path, 2, lease_us=2 * SECOND)) as nodes:
        sleeper, other = nodes
        wait_until_shared(nodes)
        own = sleeper.owned()
        # Behind a burst, not inside one: what it was about to start when it fell asleep is nobody's fault.
        sleeper.wait_for_launches(own, sleeper.mark())
        sleeper.wait_until_settled()
        sleeper.signal(signal.SIGSTOP)
        other.wait_for_launches(own, other.mark())
        old = {
            bucket_of(one.run_id.partition("@")[0]): one.fence >> FENCE_BITS for one in launches_in(sleeper.attempts)
        }
        with closing(open_store(url)) as store, pytest.raises(Fenced):
            store.commit(Batch(by="from the past", epochs=old))
        mark = sleeper.mark()
        sleeper.signal(signal.SIGCONT)
        sleeper.wait_for_word("buckets.lost", mark)
        sleeper.wait_for(lambda said: launched(said) and "settled" in said, mark)  # and it has found its place again
        sleeper.stop()
        other.stop()
        prove(url, nodes)


@pytest.mark.slow
def test_a_run_that_may_be_tried_once_is_not_tried_again_by_the_node_that_takes_over(fresh_postgres, tmp_path):
    """A node that cannot write that it starts a run, and dies: the next one could not know, so it must not have."""
    url = fresh_postgres()
    with cluster(*configs(url, tmp_path, 2, lease_us=2 * SECOND, at_most_once=True)) as nodes:
        victim, other = nodes
        wait_until_shared(nodes)
        own = victim.owned()
        victim.wait_for_launches(own, victim.mark())
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            connection.execute("LOCK TABLE evertick_runs IN EXCLUSIVE MODE")  # nobody can write what became of a run
            due_at = (time.time_ns() // 1_000 // SECOND + 1) * SECOND
            while time.time_ns() // 1_000 < due_at + SECOND // 4:
                victim.wait_a_moment()
            victim.kill()
        other.wait_for_launches(own, other.mark())
        other.wait_until_settled()
        other.stop()
        launches = proof.launches_of(*(node.attempts for node in nodes))
        starts = Counter(one.run_id for one in launches)
        assert [run_id for run_id, times in starts.items() if times > 1] == []
        prove(url, nodes)


@pytest.mark.slow
def test_without_any_leadership_the_unique_key_alone_keeps_history_free_of_duplicates(fresh_postgres, tmp_path):
    url = fresh_postgres()
    open_store(url).close()
    # Each sleeps in turn until another has entered what it would have, and wakes up believing that it is still its own.
    with cluster(*configs(url, tmp_path, 3, is_leaderless=True, seconds=0, quarters=JOBS)) as nodes:
        for node in nodes:
            node.wait_for(lambda said: sum(line.startswith("launched") for line in said) >= 5 * JOBS)
            assert len(node.owned()) == JOBS, "somebody leads, so nothing would be proven"
        for sleeper, awake in pairwise([*nodes, nodes[0]]):
            sleeper.signal(signal.SIGSTOP)
            before, _ = lines_and_deciders(url)
            while (now := lines_and_deciders(url)) < (before + JOBS, 0) or now[1] < 2:
                awake.wait_a_moment()
            sleeper.signal(signal.SIGCONT)
        for node in nodes:
            node.signal(signal.SIGTERM)
        for node in nodes:
            assert node.wait() == 0
        report = proof.verified(url)
        assert report.runs > 10 * JOBS


def lines_and_deciders(url: str) -> tuple[int, int]:
    """How many lines the ledger has, and how many nodes have entered some."""
    question = "SELECT count(*), count(DISTINCT split_part(decided_by, '/', 1)) FROM evertick_runs"
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row[0], row[1]

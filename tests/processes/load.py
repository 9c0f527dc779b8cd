"""The load of several schedulers on one server, and what must hold afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.disk_executor import launches_in
from tests.processes import proof
from tests.processes.cluster import Node
from tests.processes.node import Config, jobs_of

JOBS = 24  # enough that each of three nodes has some; more would keep a busy machine from ever catching up
ALL = {job.id for job in jobs_of(Config("", "", seconds=JOBS))}
SERVERS = [pytest.param("fresh_postgres", id="PostgreSQL"), pytest.param("fresh_mysql", id="MariaDB")]


def configs(url: str, folder: Path, count: int, **known: Any) -> list[Config]:
    return [
        replace(Config(url, str(folder / f"attempts-{number}"), f"node-{number}", seconds=JOBS), **known)
        for number in range(count)
    ]


def wait_until_shared(nodes: Sequence[Node]) -> None:
    """Until each has its share of the jobs, and none is anybody else's too."""

    def is_shared() -> bool:
        shares = [node.owned() for node in nodes]
        return all(shares) and set.union(*shares) == ALL and sum(map(len, shares)) == JOBS

    nodes[0].wait_until(is_shared)


def stop_in_order(nodes: Sequence[Node]) -> None:
    """One after another; the last one has taken over what the others left waiting, and seen it through."""
    *others, last = nodes
    for node in others:
        node.stop()
    last.wait_until(lambda: last.owned() == ALL)
    last.wait_until_settled()
    last.stop()


def prove(url: str, nodes: Sequence[Node]) -> None:
    proof.verified(url)
    files = sorted({node.attempts for node in nodes})
    launches = proof.launches_of(*files)
    rows = proof.rows_of(url)
    assert proof.unknown_to_the_ledger(rows, launches) == []
    assert proof.launched_behind_an_owner(launches) == []
    assert proof.unfinished(rows) == []
    for file in files:
        assert proof.started_twice(launches_in(file)) == []

"""Very many jobs are due in the same second: is each of them run once?"""

from __future__ import annotations

import os
import time

import pytest

from evertick.model.instant import SECOND
from evertick.model.lifecycle import SUCCEEDED
from tests.processes import proof
from tests.processes.cluster import cluster
from tests.processes.node import Config
from tests.share import share

JOBS = int(os.environ.get("EVERTICK_AT_ONCE", "0")) or share(1_000, 20_000)
"""`make faults` says how many."""


@pytest.mark.slow
def test_all_jobs_that_are_due_in_one_second_run_once(tmp_path, record_property):
    record_property("faults", JOBS)
    url, attempts = f"sqlite:///{tmp_path}/evertick.db", tmp_path / "attempts"
    lead_us = 5 * SECOND + JOBS * 500  # until a scheduler has read them
    due_at = (time.time_ns() // 1_000 + lead_us) // SECOND * SECOND
    config = Config(url, str(attempts), at_once=JOBS, due_at=due_at, tells_launches=False, look_seconds=1.0)
    with cluster(config) as (node,):
        node.wait_until(lambda: attempts.exists() and attempts.read_bytes().count(b'"finished"') >= JOBS)
        node.stop()
    assert proof.verified(url).runs == JOBS
    launches = proof.launches_of(attempts)
    assert len(launches) == JOBS
    assert proof.started_twice(launches) == []
    assert {(row.state, row.key.scheduled_for) for row in proof.rows_of(url)} == {(SUCCEEDED, due_at)}

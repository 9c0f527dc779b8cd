"""How a scheduler stops."""

from __future__ import annotations

from time import monotonic

import pytest

from evertick.model.lifecycle import RETRYING
from evertick.node import PATIENCE_SECONDS
from tests.processes import proof
from tests.processes.cluster import cluster
from tests.processes.node import Config, jobs_of


@pytest.mark.slow
def test_runs_between_two_attempts_are_not_waited_for(tmp_path):
    """There is nothing to wait for: the next attempt is made by whoever starts next."""
    config = Config(f"sqlite:///{tmp_path}/evertick.db", str(tmp_path / "attempts"), seconds=3, retry_seconds=3_600)
    with cluster(config) as (node,):
        node.wait_for_launches({job.id for job in jobs_of(config)})
        asked_at = monotonic()
        node.stop()
        # Not how fast, but which of two: at once, or when patience is over.
        assert monotonic() - asked_at < PATIENCE_SECONDS / 2
    assert {row.state for row in proof.rows_of(config.url) if row.attempt} == {RETRYING}
    proof.verified(config.url)

"""Whether the storm of `make soak-nodes` works: some short faults."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.processes.storm_nodes import Storm


@pytest.mark.slow
def test_faults_of_nodes_and_members_cost_no_run_and_make_no_second_one(tmp_path, fresh_postgres):
    with ExitStack() as stack:
        storm = Storm(tmp_path, fresh_postgres(), nodes=2, members=1, seed=0, stack=stack)
        storm.trouble_seconds = 1.0
        for trouble in (storm.ask_twice, storm.cut_off_a_member, storm.freeze_a_member, storm.kill_a_node):
            trouble()
        storm.settle()
        assert "succeeded" in storm.check()

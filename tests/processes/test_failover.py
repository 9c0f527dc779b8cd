"""A primary is killed and its replica takes over: is every answered commit still there?"""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.processes import proof
from tests.processes.cluster import cluster
from tests.processes.node import Config, jobs_of
from tests.processes.replica import Address, Primary, Replica

JOBS = 12
ALL = {job.id for job in jobs_of(Config("", "", seconds=JOBS))}


@pytest.mark.slow
def test_a_replica_that_takes_over_has_all_that_was_answered(tmp_path):
    attempts = tmp_path / "attempts"
    primary = Primary()
    replica = Replica(primary)
    with primary, replica, closing(Address(primary.port)) as address:
        primary.wait_for_replica()
        url = primary.fresh().replace(f":{primary.port}/", f":{address.port}/")
        with cluster(Config(url, str(attempts), seconds=JOBS)) as (node,):
            node.wait_for_launches(ALL)
            mark = node.mark()
            primary.kill()
            node.wait_for_word("store.away", mark)
            replica.promote()
            address.lead_to(replica.port)
            node.wait_for_word("store.back", mark)
            node.wait_for_launches(ALL, node.mark())
            node.wait_until_settled()
            node.stop()
        assert proof.verified(url).runs > 2 * JOBS
        rows, launches = proof.rows_of(url), proof.launches_of(attempts)
        assert proof.started_twice(launches) == []
        assert proof.unknown_to_the_ledger(rows, launches) == []
        assert proof.left_behind(rows, launches) == []

"""Two schedulers with one ledger and one fleet: runs on a member survive both of them."""

from __future__ import annotations

import pytest

from evertick.model.instant import SECOND
from evertick.model.lifecycle import SUCCEEDED
from tests.fleet.local_fleet import LONG_US, Heard, Process, wait_for
from tests.processes.proof import rows_of, verified

pytestmark = pytest.mark.slow

JOBS = ("one", "two", "three", "four", "five", "six")


@pytest.mark.parametrize("strategy", ["ROUND", "SHARDING_BROADCAST"])
def test_the_other_node_continues_what_runs(strategy, tmp_path, local_fleet, fresh_postgres):
    local_fleet.join("ex-a")
    local_fleet.join("ex-b")
    local_fleet.open(Heard(), "ex-a", "ex-b")
    url = fresh_postgres()
    went, began, go = tmp_path / "ended", tmp_path / "began", tmp_path / "go"
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for name in JOBS:
        (jobs / f"{name}.yaml").write_text(
            f"schedule: '* * * * * *'\nrouting: {strategy}\nonExecutorLost: fail\n"
            f"command: echo $EVERTICK_RUN_ID >> {began}; until test -e {go}; do sleep 0.05; done;"
            f" echo $EVERTICK_RUN_ID >> {went}\n"
        )

    def serve(node: str) -> Process:
        settings = tmp_path / f"{node}.toml"
        # No shorter than the members' own: they are given nothing otherwise.
        lease = f"{LONG_US // SECOND}s"
        settings.write_text(
            f'state = "{tmp_path / node}"\nstore = "{url}"\nnode = "{node}"\n[fleet]\nlease = "{lease}"\n'
        )
        words = (
            "serve",
            str(jobs),
            "--config",
            str(settings),
            "--fleet",
            local_fleet.url,
            "--no-web",
            "--patience",
            "30",
        )
        return Process(*words, log=tmp_path / f"{node}.log")

    def running(path) -> set[str]:
        return set(path.read_text().split()) if path.exists() else set()

    nodes = {name: serve(name) for name in ("a", "b")}
    try:
        wait_for(lambda: {run.partition("@")[0] for run in running(began)} == set(JOBS), "every job to begin")
        nodes.pop("a").kill()
        # All of the dead node's jobs have another owner, and what they run is still theirs.
        wait_for(lambda: _owners(url) == {"b"}, "the other node to have everything")
        held = running(began)
        go.touch()
        wait_for(lambda: held <= running(went), "them to end")
        wait_for(
            lambda: held <= {row.key.run_id for row in rows_of(url) if row.state is SUCCEEDED}, "the ledger to know"
        )
    finally:
        for node in nodes.values():
            assert node.stop() == 0
    verified(url)
    shards = 2 if strategy == "SHARDING_BROADCAST" else 1
    told = began.read_text().split()
    assert {told.count(run) for run in held} == {shards}


def _owners(url: str) -> set[str]:
    from contextlib import closing

    from evertick.stores import open_store

    with closing(open_store(url)) as store:
        leases = store.lease((), "nobody", 0, 0)
    return {lease.holder.partition("/")[0] for lease in leases if lease.name.startswith("bucket:")}

"""What happens to a local run whose node is killed, stopped, frozen or cut off? It never runs twice at once."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from evertick.executors.keeper.procfs import is_alive
from evertick.model.attempts import read_attempts
from evertick.model.instant import SECOND, to_text
from evertick.model.lifecycle import CANCELLED, LOST, RUNNING, SKIPPED, SUCCEEDED, SkipReason
from evertick.model.loss import LossReason
from evertick.model.run import LedgerRow
from tests.processes.served import Served, ServedCluster, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster_of(fresh_postgres, tmp_path):
    made: list[ServedCluster] = []

    def make(**known: str) -> ServedCluster:
        made.append(ServedCluster(tmp_path, fresh_postgres(), **known))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.close()


def triggered(cluster: ServedCluster) -> tuple[Served, int]:
    """A run that goes on, the node that has it, and its process."""
    cluster.command("trigger", "long")
    ((_, _, pid),) = cluster.wait_for_attempts(1)
    return cluster.holder(), pid


def end_scheduler(node: Served) -> None:
    node.kill()


def end_both(node: Served) -> None:
    (keeper,) = node.keepers()
    node.kill()
    os.kill(keeper, signal.SIGKILL)


def freeze(node: Served) -> None:
    os.kill(node.pid, signal.SIGSTOP)


def cut_off(node: Served) -> None:
    node.cable.cut()


def thaw(node: Served) -> None:
    os.kill(node.pid, signal.SIGCONT)


def connect(node: Served) -> None:
    node.cable.mend()


@pytest.mark.parametrize(
    ("harm", "heal"),
    [
        pytest.param(end_scheduler, Served.start, id="its scheduler is killed"),
        pytest.param(end_both, Served.start, id="its scheduler and its keeper are killed"),
        pytest.param(freeze, thaw, id="its scheduler stands still"),
        pytest.param(cut_off, connect, id="the database cannot be reached"),
    ],
)
def test_another_node_tries_again_only_when_the_first_attempt_has_ended(cluster_of, harm, heal):
    cluster = cluster_of()
    node, pid = triggered(cluster)
    harm(node)
    (_, _, first), (_, attempt, second) = cluster.wait_for_attempts(2)
    assert (first, attempt) == (pid, 2)
    assert not is_alive(pid)
    assert cluster.met_another() == []
    heal(node)
    cluster.let_go()
    wait_for(lambda: cluster.row().finished_at, "its end")
    assert (cluster.row().state, cluster.row().attempt) == (SUCCEEDED, 2)
    assert len(cluster.attempts()) == 2
    assert second != pid


def test_an_unrecorded_run_ends_before_another_node_starts_it(cluster_of):
    """Its scheduler loses the database, starts it by the lease that it still has, and is killed with its keeper."""
    # A machine with much else to do may need seconds to start it: the lease must last as long.
    cluster = cluster_of(lease="15s", runs_lease="2m")
    node = cluster.owner()
    due = time.time_ns() // 1_000 + 10 * SECOND
    cluster.define(schedule=f"schedule: {{at: '{to_text(due)}'}}\n")
    wait_for(cluster.rows, "it to be entered")
    wait_for(lambda: time.time_ns() // 1_000 >= due - SECOND, "it to be nearly due")
    node.cable.cut()
    ((_, _, pid),) = cluster.wait_for_attempts(1)
    end_both(node)
    assert is_alive(pid)
    (run, *_), (again, attempt, second) = cluster.wait_for_attempts(2)
    assert (again, attempt) == (run, 1), "the ledger knew of it"
    assert cluster.met_another() == []
    assert not is_alive(pid)
    assert second != pid


def test_a_keeper_that_is_killed_alone_costs_the_attempt_and_no_second_one_begins_before_its_end(cluster_of):
    cluster = cluster_of()
    node, pid = triggered(cluster)
    (keeper,) = node.keepers()
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: [one for one in node.keepers() if one != keeper], "the next keeper")
    assert is_alive(pid)
    assert len(cluster.attempts()) == 1
    cluster.let_go()
    cluster.wait_for_attempts(2)
    wait_for(lambda: cluster.row().finished_at, "its end")
    assert cluster.met_another() == []


def test_a_node_that_is_stopped_in_order_finds_its_runs_when_it_is_back_and_the_others_leave_them_alone(cluster_of):
    cluster = cluster_of()
    node, pid = triggered(cluster)
    other = next(one for one in cluster.nodes.values() if one is not node)
    node.stop()
    # Longer than the lease of a node that was killed: the other has had every reason to give the run up.
    wait_for(
        lambda: "was stopped; unless it is back" in cluster.command("why", "long"), "the other to know that it waits"
    )
    log = cluster.folder / f"{other.name}.log"
    assert is_alive(pid)
    assert "run.lost" not in log.read_text()
    node.start()
    wait_for(lambda: "was stopped; unless it is back" not in cluster.command("why", "long"), "it to be back")
    cluster.let_go()
    wait_for(lambda: cluster.row().finished_at, "its end")
    assert (cluster.row().state, cluster.row().attempt) == (SUCCEEDED, 1)
    assert len(cluster.attempts()) == 1


def test_a_run_that_another_node_than_the_owner_of_its_job_has_is_cancelled(cluster_of):
    cluster = cluster_of()
    node, other = cluster.nodes.values()
    other.stop()
    names = [f"job-{number}" for number in range(6)]
    for name in names:
        cluster.define(name=name)
    wait_for(lambda: all(name in cluster.command("list") for name in names), "the jobs to be known")
    for name in names:
        cluster.command("trigger", name)
    # On a slow machine a launch may be recorded too late: its attempt is lost, and another one begins.
    wait_for(lambda: all(cluster.row(name).state is RUNNING for name in names), "all to run")
    other.start()
    cluster.wait_until_shared_out()
    while not (moved := [name for name in names if cluster.owner(name) is other]):
        # All of them stayed; a process that is new has another share.
        other.stop()
        other.start()
        cluster.wait_until_shared_out()
    run_id, attempt = cluster.row(moved[0]).key.run_id, cluster.row(moved[0]).attempt
    *_, pid = next(one for one in cluster.attempts() if one[:2] == (run_id, attempt))
    cluster.command("cancel", run_id)
    row = wait_for(lambda: next((row for row in cluster.rows(moved[0]) if row.finished_at), None), "its end")
    assert (row.state, row.attempt, row.executor) == (CANCELLED, attempt, f"local@{node.name}")
    assert not is_alive(pid)
    assert len(cluster.attempts()) == len(names)


def test_the_runs_of_a_node_that_an_operator_forgets_are_retried_at_once(cluster_of):
    """It was stopped and announced its return within five minutes; then its machine went."""
    cluster = cluster_of()
    node, pid = triggered(cluster)
    assert "is alive" in cluster.refusal("nodes", "forget", node.name, "--yes")
    node.stop()
    for one in (*node.keepers(), pid):
        os.kill(one, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid), "its run to be gone with its machine")
    assert f"evertick nodes forget {node.name}" in cluster.command("why", "long")
    (told,) = [
        one for one in json.loads(cluster.command("nodes", "list", "-o", "json"))["items"] if not one["is_alive"]
    ]
    assert (told["node"], told["is_expected_back"], told["active"]) == (node.name, True, 1)
    assert len(cluster.attempts()) == 1
    forgotten = json.loads(cluster.command("nodes", "forget", node.name, "--yes", "-o", "json"))
    assert [run["if_lost"] for run in forgotten["runs"]] == ["retrying"]
    cluster.wait_for_attempts(2)
    cluster.let_go()
    wait_for(lambda: cluster.row().finished_at, "its end")
    assert (cluster.row().state, cluster.row().attempt) == (SUCCEEDED, 2)
    assert [one.loss for one in read_attempts(cluster.row().earlier)] == [LossReason.NODE_FORGOTTEN]


def test_the_next_occurrence_does_not_overlap_a_run_that_may_be_tried_once(cluster_of):
    """The job is due every two seconds, and its first run goes on while its node is dead."""
    cluster = cluster_of(schedule="schedule: {every: 2s}\n", policy="onExecutorLost: fail\noverlap: skip\n")
    cluster.wait_for_attempts(1)
    # It may begin while its job moves to the node that joins now: then the ledger learns of its start at its end.
    node = cluster.holder(has_started=False)
    node.kill()
    runs = [run for run, _, _ in cluster.wait_for_attempts(2)]
    assert len(set(runs)) == 2
    assert cluster.met_another() == []

    def rows() -> dict[str, LedgerRow]:
        return {row.key.run_id: row for row in cluster.rows()}

    # How a run ended is written behind: its process may be seen before.
    wait_for(lambda: rows()[runs[0]].state is not RUNNING or None, "the end of the first run to be recorded")
    assert rows()[runs[0]].state is LOST
    assert any(row.state is SKIPPED and row.reason is SkipReason.OVERLAP for row in rows().values())

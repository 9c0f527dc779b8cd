"""Are the nodes shown for which others wait, and can an operator end that wait?"""

from __future__ import annotations

import pytest

from evertick.definitions.source import Folder
from evertick.errors import Conflict, NotFound
from evertick.loop.messages import NodesSeen
from evertick.model.attempts import AttemptRecord, with_attempt
from evertick.model.instant import MINUTE, to_datetime
from evertick.model.ledger import NODE_PREFIX, STOPPED_PREFIX, RunsHeld, nodes_forgotten, runs_held, runs_lease
from evertick.model.lifecycle import LOST, RETRYING, RUNNING
from evertick.model.loss import LossReason
from evertick.model.policy import OnExecutorLost
from evertick.operations.ledger_rows import run_summary
from evertick.operations.local import LocalOperations
from evertick.operations.why import explain_occurrence
from evertick.store import RunFilter
from tests.loop.harness import at as clock
from tests.loop.test_fleet import taken_over
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key

NOW, UNTIL = at(4.5), at(4.5) + 10 * MINUTE
AT_MOST_ONCE = job(TEXT + "onExecutorLost: fail\n")


class Ledger:
    """A run of the node `east`, which holds it by a lease, and the operations of another node."""

    def __init__(self, store, *, one=None, is_alive=False, is_stopped=False) -> None:
        self.store, known = store, one or job()
        fill(store, entry(4), watermark=4, one=known)
        change(store, key(4), RUNNING, at(4), attempt=1, executor="local@east", started_at=at(4))
        stopped = [f"{STOPPED_PREFIX}east/f1"] if is_stopped else []
        store.lease([runs_lease("east", "f1"), *stopped], "east/f1", 10 * MINUTE, NOW)
        store.lease([f"{NODE_PREFIX}west/1"], "west/1", MINUTE, NOW)
        if is_alive:
            store.lease([f"{NODE_PREFIX}east/1"], "east/1", MINUTE, NOW)
        folder = Folder(jobs={"etl": known})
        self.operations = LocalOperations(store, lambda: folder, now=lambda: NOW, is_scheduler_running=lambda: True)

    def node(self, name):
        (found,) = [one for one in self.operations.nodes().items if one.node == name]
        return found

    def leases(self):
        return self.store.lease((), "", 0, NOW)


@pytest.mark.parametrize("is_stopped", [False, True], ids=["silent", "stopped in order"])
def test_a_node_that_is_waited_for_is_shown_with_its_runs(store, is_stopped):
    east = Ledger(store, is_stopped=is_stopped).node("east")
    assert (east.is_alive, east.is_expected_back, east.active) == (False, is_stopped, 1)
    assert east.awaited_until == to_datetime(UNTIL)
    (run,) = east.runs
    assert (run.run, run.job, run.job_name, run.state, run.if_lost) == (
        key(4).run_id,
        "etl",
        "etl",
        "running",
        "retrying",
    )


def test_a_node_that_is_alive_is_not_waited_for(store):
    assert Ledger(store, is_alive=True).node("east").awaited_until is None


def test_the_future_of_a_run_follows_from_its_policy_and_its_losses(store):
    assert Ledger(store, one=AT_MOST_ONCE).node("east").runs[0].if_lost == "lost"


def test_a_run_that_was_lost_twice_already_is_not_retried_again(store):
    ledger = Ledger(store)
    text = ""
    for attempt in (1, 2):
        text = with_attempt(text, AttemptRecord(attempt, LOST))
    change(store, key(4), RETRYING, at(4.1), attempt=2, earlier=text)
    change(store, key(4), RUNNING, at(4.2), attempt=3, executor="local@east")
    assert ledger.node("east").runs[0].if_lost == "lost"


def test_a_forgotten_node_holds_nothing_and_the_mark_names_the_operator(store):
    ledger = Ledger(store, is_stopped=True)
    told = ledger.operations.forget_node("east", by="ann")
    assert (told.node, told.was_alive, told.active) == ("east", False, 1)
    assert runs_held(ledger.leases()) == {}
    assert nodes_forgotten(ledger.leases()) == {"east": "ann"}
    assert [one.node for one in ledger.operations.nodes().items] == ["west"]


def test_a_node_that_is_alive_is_forgotten_by_force_only(store):
    ledger = Ledger(store, is_alive=True)
    with pytest.raises(Conflict, match="is alive"):
        ledger.operations.forget_node("east")
    assert list(runs_held(ledger.leases())) == ["east"]
    assert ledger.operations.forget_node("east", force=True).was_alive
    assert runs_held(ledger.leases()) == {}


def test_forgetting_twice_changes_nothing_and_reports_it(store):
    ledger = Ledger(store)
    ledger.operations.forget_node("east", by="ann")
    with pytest.raises(Conflict, match="no scheduler waits for it"):
        ledger.operations.forget_node("east", by="bob")
    assert nodes_forgotten(ledger.leases()) == {"east": "ann"}


def test_an_unknown_node_is_named_with_its_nearest(store):
    with pytest.raises(NotFound) as refused:
        Ledger(store).operations.forget_node("eats")
    assert "east" in refused.value.suggestions


# --- why an attempt was lost


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        pytest.param([], LossReason.NODE_GONE, id="its node held nothing"),
        pytest.param([{"holding": ("east",)}], LossReason.LEASE_EXPIRED, id="its lease has run out"),
        pytest.param([{"forgotten": {"east": "ann"}}], LossReason.NODE_FORGOTTEN, id="an operator said so"),
    ],
)
@pytest.mark.parametrize("policy", list(OnExecutorLost))
def test_the_reason_of_a_loss_is_a_field_of_its_attempt(seen, reason, policy):
    here = taken_over(on_executor_lost=policy)
    gone = NodesSeen(frozenset({"node"}))
    for one in seen:
        held = {name: RunsHeld(clock("10:30")) for name in one.get("holding", ())}
        gone = gone._replace(forgotten=one.get("forgotten", {}))
        here.say(NodesSeen(frozenset({"node"}), held) if held else gone)
    here.say(gone)
    row = here.line("09:00")
    if policy is OnExecutorLost.FAIL:
        assert run_summary(row).loss == reason
        told = explain_occurrence(here.store, "a", None, {}, here.now)
        assert any(sentence.startswith(f"lost ({reason}): ") for sentence in told.sentences), told.sentences
    else:
        data = LocalOperations(here.store, lambda: Folder(jobs=here.jobs), now=lambda: here.now).run(row.key.run_id)
        assert [one.loss for one in data.attempts] == [reason, None]
        assert data.loss is None


def test_a_reason_that_only_a_newer_version_knows_is_none(store):
    fill(store, entry(4), watermark=4)
    change(store, key(4), LOST, at(4), attempt=1, facts='{"loss":"eaten-by-a-bear"}')
    (row,) = store.query(RunFilter(job_ids=["etl"]), limit=1).rows
    assert run_summary(row).loss is None

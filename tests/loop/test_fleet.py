"""Several nodes: a lease that may have ended, runs on other nodes, and shares of the buckets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.loop.effects import Reconcile
from evertick.loop.messages import ForwardedReport, LeaseRenewed, NodesSeen, RunFinished, RunLost
from evertick.model.attempts import read_attempts
from evertick.model.instant import MINUTE, SECOND
from evertick.model.ledger import BUCKETS, Batch, Request, RequestKind, RunsHeld, share_of
from evertick.model.lifecycle import FAILED, LOST, SUCCEEDED, RunState
from evertick.model.policy import OnExecutorLost
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from evertick.operations.requests import message_of
from tests.loop.executor import Act
from tests.loop.harness import FOREVER, World, at, catching_up, job, retries, world

MINUTELY = EverySpec(MINUTE)
NINE = RunKey("a", at("09:00"))


# --- the lease


def test_nothing_is_launched_once_the_lease_may_be_over():
    here = world(job("a", MINUTELY))
    here.say(LeaseRenewed(at("08:30:30")))
    here.run_until("08:33")
    assert here.launches == []


def test_occurrences_due_without_a_lease_are_settled_by_policy_when_it_is_renewed():
    here = world(job("a", MINUTELY, **catching_up("all")))
    here.say(LeaseRenewed(at("08:30:30")))
    here.run_until("08:33:10")
    here.say(LeaseRenewed(at("09:30")))
    here.run_until("08:34:10")
    assert here.started() == ["08:31", "08:32", "08:33", "08:34"]


def test_a_lease_that_is_renewed_in_time_changes_nothing():
    here = world(job("a", MINUTELY))
    for minute in range(31, 34):
        here.say(LeaseRenewed(here.now + 90 * SECOND))
        here.run_until(f"08:{minute}:10")
    assert here.started() == ["08:31", "08:32", "08:33"]


# --- runs on other nodes


def taken_over(**policy):
    """A node takes over a job whose run is going on at another node, `east`."""
    here = world(job(**policy))
    here.act("a", FOREVER)
    here.executor.name = "local@east"
    here.run_until("09:00:10")
    here.executor.attempts.clear()
    here.restart(after=SECOND)
    here.act("a", Act())
    return here


def test_a_run_on_another_node_continues_and_occupies_its_job():
    here = taken_over()
    here.say(NodesSeen(frozenset({"node", "east"})))
    here.run_until("10:00:10")
    assert here.ledger() == ["09:00 running", "10:00 skipped overlap"]


def test_the_end_of_a_run_on_another_node_arrives_through_the_ledger():
    here = taken_over()
    here.say(ForwardedReport("report/1", RunFinished(NINE, 1, here.now, SUCCEEDED)))
    assert here.ledger() == ["09:00 succeeded"]


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param({}, ["09:00 succeeded"], id="at least once: it is tried again"),
        pytest.param({"on_executor_lost": OnExecutorLost.FAIL}, ["09:00 lost"], id="at most once: it is lost"),
    ],
)
def test_a_run_on_a_node_that_is_gone_is_lost(policy, lines):
    here = taken_over(**policy)
    here.say(NodesSeen(frozenset({"node"})))
    here.run_for(10 * SECOND)
    assert here.ledger() == lines


@pytest.mark.parametrize("report", [RunFinished(NINE, 1, at("09:00"), SUCCEEDED), RunLost(NINE, 1, "killed")])
def test_an_earlier_attempt_here_with_the_same_number_does_not_end_a_run_on_another_node(report):
    """A node died before the ledger knew of its launch; when it is back, its keeper tells how that attempt ended."""
    here = taken_over()
    here.say(NodesSeen(frozenset({"node", "east"})))
    here.say(report)
    here.run_until("10:00:10")
    assert here.ledger() == ["09:00 running", "10:00 skipped overlap"]


def forward(
    here: World,
    request_id: str = "report/1",
    end: RunState = SUCCEEDED,
    node: str = "east",
    executor: str = "",
) -> None:
    """A node puts how its run ended into the ledger; the owner has not looked since."""
    payload = {"run_id": NINE.run_id, "attempt": 1, "at": here.now, "state": end, "exit_code": 0, "detail": ""}
    payload |= {"node": node, "executor": executor}
    report = Request(request_id, RequestKind.REPORT, "a", json.dumps(payload), here.now)
    here.store.commit(Batch(by=request_id, requests=[report]))


GONE = NodesSeen(frozenset({"node"}))


def test_reports_of_a_node_that_left_count_although_its_departure_is_seen_first():
    here = taken_over()
    here.say(NodesSeen(frozenset({"node", "east"})))
    forward(here)
    here.say(GONE)
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 succeeded"]
    assert len(here.launches) == 1


def test_what_a_node_forwarded_to_an_owner_that_left_too_counts_for_the_next_owner():
    here = taken_over()
    here.say(NodesSeen(frozenset({"node", "east"})))
    forward(here)
    here.restart(after=SECOND, told=[GONE])
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 succeeded"]
    assert len(here.launches) == 1


def test_a_lost_attempt_is_reported_of_although_the_next_one_waits_for_the_ledger():
    here = taken_over()
    here.restart(after=SECOND, told=[LeaseRenewed(at("10:00")), GONE])
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 succeeded"]
    assert [(one.attempt, one.loss) for one in read_attempts(here.line("09:00").earlier)] == [(1, "node-gone")]


def test_reports_from_before_are_answered_before_an_executor_is_asked():
    """What it does not know is launched again under the same number, and an old report would be taken for a new one."""
    here = world(job())
    here.act("a", FOREVER)
    here.executor.name = "local@node"
    here.run_until("09:00:10")
    forward(here, end=LOST, node="node")
    here.crash(after=SECOND)
    here.told_first = [LeaseRenewed(at("10:00")), NodesSeen(frozenset({"node"}))]
    here.is_ledger_away = True
    here.begin()
    assert not [effect for _, _, effects in here.turns for effect in effects if isinstance(effect, Reconcile)]
    here.is_ledger_away = False
    here.write()
    here.settle()
    assert [effect for _, _, effects in here.turns for effect in effects if isinstance(effect, Reconcile)]
    here.say(*map(message_of, here.store.claim(None, 10)))
    assert here.store.claim(None, 10) == []
    assert here.ledger() == ["09:00 running"]


def test_what_a_node_forwarded_and_reads_itself_counts_for_the_next_owner():
    """It had the job again for a moment, and lost it before its executor had answered how the run ended."""
    here = world(job())
    here.act("a", FOREVER)
    here.executor.name = "local@node"
    here.run_until("09:00:10")
    forward(here, node="node")
    here.crash(after=SECOND)
    here.told_first = [LeaseRenewed(at("10:00")), NodesSeen(frozenset({"node"}))]
    here.executor.remembers_after_us = MINUTE
    here.begin()
    here.run_for(SECOND)
    here.say(here.lost(*range(BUCKETS)))
    (request,) = here.store.claim(None, 10)
    assert json.loads(request.payload)["state"] == SUCCEEDED


@pytest.mark.parametrize("executor", ["fleet:ex-a", "fleet:*ex-a,ex-b+", "fleet:*ex-a+,ex-b+"])
def test_what_a_node_forwarded_of_the_fleet_and_reads_itself_counts_while_the_members_are_away(executor):
    """Also of a broadcast that has succeeded on all members: none of them has a part of it any more."""
    here = world(job())
    here.act("a", FOREVER)
    here.executor.name = "fleet:*ex-a,ex-b"
    here.run_until("09:00:10")
    forward(here, node="node", executor=executor)
    here.crash(after=SECOND)
    here.told_first = [LeaseRenewed(at("10:00")), NodesSeen(frozenset({"node"}))]
    here.executor.remembers_after_us = MINUTE
    here.begin()
    here.run_for(SECOND)
    assert here.ledger() == ["09:00 succeeded"]


def test_a_report_behind_a_thousand_other_requests_is_found():
    here = taken_over()
    asked = [Request(f"t{number:04}", RequestKind.TRIGGER, "a", "{}", at("08:00")) for number in range(1_500)]
    here.store.commit(Batch(by="x", requests=asked))
    forward(here, "report/z")
    here.say(GONE)
    assert here.ledger()[0] == "09:00 succeeded"


def test_a_node_that_is_back_before_the_ledger_was_read_keeps_its_run():
    here = taken_over()
    here.is_ledger_away = True
    here.say(GONE)
    here.say(NodesSeen(frozenset({"node", "east"})))
    here.is_ledger_away = False
    here.write()
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 running"]
    here.say(GONE)
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 succeeded"]


@pytest.mark.parametrize("is_stopped", [False, True], ids=["silent", "stopped in order"])
def test_a_run_of_a_node_that_holds_its_runs_occupies_its_job_until_that_lease_is_over(is_stopped):
    here = taken_over(on_executor_lost=OnExecutorLost.FAIL)
    here.say(NodesSeen(frozenset({"node"}), {"east": RunsHeld(at("10:30"), is_stopped)}))
    here.run_until("10:00:10")
    assert here.ledger() == ["09:00 running", "10:00 skipped overlap"]
    here.say(NodesSeen(frozenset({"node"})))
    here.run_until("11:00:10")
    assert here.ledger() == ["09:00 lost", "10:00 skipped overlap", "11:00 succeeded"]


def from_another_folder(held: bool):
    """This node is back under its name with an empty state folder; the old one may be somewhere still."""
    here = world(job(on_executor_lost=OnExecutorLost.FAIL))
    here.act("a", FOREVER)
    here.executor.name = "local@node"
    here.run_until("09:00:10")
    here.executor.attempts.clear()
    here.restart(after=SECOND, told=[NodesSeen(frozenset({"node"}), {"node": RunsHeld(at("10:30"))} if held else {})])
    here.act("a", Act())
    return here


def test_what_ran_with_another_state_folder_is_waited_for_and_then_lost():
    here = from_another_folder(held=True)
    here.run_until("10:00:10")
    assert here.ledger() == ["09:00 running", "10:00 skipped overlap"]
    here.say(NodesSeen(frozenset({"node"})))
    here.run_for(SECOND)
    assert here.ledger() == ["09:00 lost", "10:00 skipped overlap"]


@pytest.mark.parametrize("end", [FAILED, LOST])
def test_the_next_attempt_of_a_run_of_another_node_is_not_lost_with_that_node(end):
    here = taken_over(retry=retries(1))
    here.act("a", FOREVER)
    here.say(ForwardedReport("report/1", RunFinished(NINE, 1, here.now, end)))
    here.run_for(2 * MINUTE)
    here.say(NodesSeen(frozenset({"node"})))
    here.run_for(MINUTE)
    assert here.events("run.lost") == (["run.lost"] if end is LOST else [])
    assert here.line("09:00").attempt == 2
    assert here.ledger() == ["09:00 running"]


def test_a_node_that_leaves_after_reporting_a_failure_does_not_prevent_the_retry():
    here = taken_over(retry=retries(1))
    here.say(ForwardedReport("report/1", RunFinished(NINE, 1, here.now, FAILED)))
    here.say(NodesSeen(frozenset({"node"})))
    here.run_for(2 * MINUTE)
    assert here.ledger() == ["09:00 succeeded"]


# --- shares


@given(st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=12))
def test_the_shares_of_all_nodes_are_all_buckets_each_once_and_differ_by_one_at_most(nodes):
    shares = [share_of(node, nodes) for node in nodes]
    assert sorted(bucket for share in shares for bucket in share) == list(range(BUCKETS))
    assert max(map(len, shares)) <= -(-BUCKETS // len(nodes))


@given(st.sets(st.text(min_size=1, max_size=8), min_size=2, max_size=8))
def test_every_node_computes_the_same_shares_from_the_same_list_in_any_order(nodes):
    ordered = sorted(nodes)
    assert [share_of(node, ordered) for node in ordered] == [share_of(node, ordered[::-1]) for node in ordered]


def test_a_node_that_is_not_among_the_live_has_no_share():
    assert share_of("ghost", ["a", "b"]) == frozenset()

"""Crashes between two writes, and stalls: what is answered is done, and what may not be launched is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.dispatch.lookup import stops
from evertick.loop.effects import Commit, LookUpStops, Stop
from evertick.loop.fire import FENCE_BITS
from evertick.loop.messages import (
    CancelRun,
    ForwardedReport,
    LeaseRenewed,
    Message,
    NodesSeen,
    OrphansFound,
    RunFinished,
    RunHeartbeat,
    RunStarted,
    RunUnknown,
    StopsSeen,
)
from evertick.model.facts import read_facts
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import After
from evertick.model.ledger import BUCKETS, Batch, Request, RequestKind, bucket_of
from evertick.model.lifecycle import CANCELLED, LOST, SKIPPED, SUCCEEDED, SkipReason
from evertick.model.run import Change, RunKey
from tests.loop.executor import Act
from tests.loop.harness import FOREVER, WAIT, World, at, job, world
from tests.loop.test_chains import after, claim
from tests.loop.test_fleet import taken_over
from tests.simulator.loop_driver import LoopDriver

NINE, TEN = RunKey("a", at("09:00")), RunKey("a", at("10:00"))


def dies_after_one_commit(here: World, *messages: Message) -> None:
    """The loop takes these; the first of what it writes gets through, and then the process is gone."""
    here.is_ledger_away = True
    here.inbox += messages
    here.turn()
    here.write(batches=1)
    here.writes.clear()
    here.is_ledger_away = False


# --- an answer, and what it is about


def test_a_cancel_that_is_answered_survives_a_crash():
    here = world(job(overlap=WAIT))
    here.act("a", FOREVER)
    here.run_until("10:00:10")
    here.store.commit(Batch(by="x", requests=[Request("c", RequestKind.CANCEL, "a", "{}", here.now)]))
    dies_after_one_commit(here, CancelRun("c", "a", TEN))
    here.restart()
    assert here.store.claim(None, 10) == []
    assert here.ledger() == ["09:00 running", "10:00 cancelled"]


@pytest.mark.parametrize(("end", "line"), [(SUCCEEDED, "09:00 succeeded"), (LOST, "09:00 launching")])
def test_a_report_from_another_node_that_is_answered_is_not_forgotten_in_a_crash(end, line):
    here = taken_over()
    dies_after_one_commit(here, ForwardedReport("report/1", RunFinished(NINE, 1, here.now, end)))
    assert here.ledger() == [line]


def test_successes_that_led_to_a_run_are_not_used_up_by_a_crash():
    here = world(job("a"), replace(after("a"), schedules=job().schedules, definition="as it was"))
    here.act("a", FOREVER)
    here.run_until("09:00:05")
    here.finish("a")
    here.is_ledger_away = True
    claim(here)
    assert here.started("z") == ["09:00"]
    here.write(batches=1)
    here.writes.clear()
    here.is_ledger_away = False
    here.executor.attempts.clear()  # the executor never heard of it
    here.executor.forget_what_is_coming()
    here.restart()
    claim(here)
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded"]


# --- a batch that is refused


@pytest.mark.parametrize(
    "buckets", [pytest.param([bucket_of("a")], id="for its job"), pytest.param(range(BUCKETS), id="for all jobs")]
)
def test_a_success_that_others_wait_for_is_reported_although_its_batch_was_fenced(buckets):
    here = world(job("a"), replace(job("z"), schedules=(), after=After(("a",))))
    here.act("a", FOREVER)
    here.run_until("09:00:05")
    here.steal(*buckets)
    here.finish("a")
    here.run_for(SECOND)
    assert here.ledger() == ["09:00 succeeded"]
    assert [request.job_id for request in here.store.claim(None, 10)] == ["z"]


def test_a_success_that_the_ledger_refuses_starts_no_job_after_it():
    """The next owner had skipped the run, because it could not know that the node before it had started it."""
    here = world(job("a"), replace(job("z"), schedules=(), after=After(("a",))))
    here.act("a", FOREVER)
    here.run_until("09:00:05")
    here.steal(bucket_of("a"))
    here.store.record([Change(NINE, SKIPPED, here.now, 9 << FENCE_BITS, reason=SkipReason.OVERLAP)])
    here.finish("a")
    here.run_for(SECOND)
    assert here.ledger() == ["09:00 skipped overlap"]
    assert [request.kind for request in here.store.claim(None, 10)] == [RequestKind.REPORT]


# --- a lease that is over


@pytest.mark.parametrize(
    "set_back_us",
    [pytest.param(0, id="the clock goes on"), pytest.param(20 * SECOND, id="the clock is set back by as much")],
)
def test_a_node_that_slept_beyond_its_lease_launches_nothing_before_it_is_renewed(set_back_us):
    here = world(job())
    here.say(LeaseRenewed(at("09:00:02")))
    here.run_until("08:59:58")
    here.stall(20 * SECOND)  # the time since boot counts the time in which a machine sleeps
    here.jump(-set_back_us)
    here.run_for(5 * SECOND)
    assert here.launches == []
    here.say(LeaseRenewed(at("09:30")))
    here.run_for(5 * SECOND)
    assert here.ledger() == ["09:00 succeeded"]


# --- answers that come late


def test_an_old_answer_that_nothing_is_known_of_a_run_does_not_end_it():
    here = world(job())
    here.act("a", FOREVER)
    here.run_until("09:00:10")
    here.say(RunUnknown(NINE, 1))
    here.run_for(MINUTE)
    assert here.started() == ["09:00"]
    assert here.ledger() == ["09:00 running"]


# --- runs of jobs that went to another node


def reports(here: World) -> list[str]:
    return [request.kind for request in here.store.claim(None, 10) if request.kind is RequestKind.REPORT]


def given_away() -> World:
    """A node whose job went to another one while its run was being launched."""
    here = world(job())
    here.act("a", FOREVER)
    here.run_until("09:00:05")
    here.say(here.lost(bucket_of("a")))
    here.say(RunStarted(NINE, 1, here.now, lease_us=30 * SECOND))
    return here


def test_a_silent_run_of_a_job_that_went_away_is_reported_as_lost_by_the_node_that_has_it():
    here = given_away()
    here.run_for(20 * SECOND)
    assert reports(here) == []
    here.run_for(20 * SECOND)
    assert reports(here) == [RequestKind.REPORT]


def test_a_run_of_a_deleted_job_continues_while_its_executor_reports_it():
    here = given_away()
    for _ in range(10):
        here.run_for(20 * SECOND)
        here.say(RunHeartbeat(NINE, 1))
    assert reports(here) == []


def test_a_run_of_a_job_that_went_away_is_ended_once_when_its_owner_wants_it():
    """Its handlers would be ended by being asked once more."""
    here = world(job())
    here.act("a", Act(lasts_us=None, stop_takes_us=MINUTE))
    here.run_until("09:00:05")
    here.say(here.lost(bucket_of("a")))
    here.run_for(10 * SECOND)
    assert here.stops == []
    here.want_stop(NINE)
    here.run_for(30 * SECOND)
    assert [(stop.key, stop.detail) for _, stop in here.stops] == [(NINE, "cancelled by its owner")]
    here.run_for(MINUTE)
    assert reports(here) == [RequestKind.REPORT]
    assert len(here.stops) == 1


def test_an_owner_is_seen_although_the_clock_was_set_back():
    here = given_away()
    here.run_for(10 * SECOND)
    here.jump(-HOUR)
    here.want_stop(NINE)
    here.run_for(10 * SECOND)
    assert [stop.key for _, stop in here.stops] == [NINE]


def test_a_run_that_another_node_has_is_wanted_ended_in_the_ledger():
    here = world(job())
    here.act("a", FOREVER)
    here.executor.name = "local@east"
    here.run_until("09:00:05")
    here.restart(after=SECOND, told=[NodesSeen(frozenset({"node", "east"}))])
    here.run_for(SECOND)
    here.say(CancelRun("r1", "a", NINE, by="anna"))
    assert read_facts(here.line("09:00").facts).stop == "cancelled by anna"
    here.say(ForwardedReport("report/1", RunFinished(NINE, 1, here.now, CANCELLED), "east"))
    assert here.ledger() == ["09:00 cancelled"]


def test_the_next_process_of_a_node_ends_what_an_owner_wanted_ended_while_it_was_away():
    first = LoopDriver(job(), now=at("08:59:50"))
    first.own()
    first.run_until(at("09:00:05"))
    owner = LoopDriver(job(), store=first.store, node="b", now=first.now)
    owner.say(NodesSeen(frozenset({"a", "b"})))
    owner.own()
    owner.say(CancelRun("r1", "a", NINE, by="anna"))
    owner.write()
    second = LoopDriver(job(), store=first.store, now=first.now)
    second.say(OrphansFound(second.store.load().open_runs))
    (asked,) = [one for one in second.effects if isinstance(one, LookUpStops)]
    second.say(*stops(second.store, asked), *stops(second.store, asked))
    assert [one for one in second.effects if isinstance(one, Stop)] == [Stop(NINE, 1, "cancelled by anna")]


def test_a_node_that_restarts_reports_many_runs_in_one_write_and_asks_about_them_in_one_query(monkeypatch):
    """A write and a query for each would delay the plans of a node that crashes again and again until it has none."""
    jobs = [job(f"j{number}") for number in range(30)]
    first = LoopDriver(*jobs, now=at("08:59:50"))
    first.own()
    first.run_until(at("09:00:05"))
    second = LoopDriver(*jobs, store=first.store, now=first.now)
    orphans = second.store.load().open_runs
    second.say(OrphansFound(orphans))
    (asked,) = [one for one in second.effects if isinstance(one, LookUpStops)]
    queries = []
    query = second.store.query
    monkeypatch.setattr(second.store, "query", lambda *where: queries.append(where) or query(*where))
    assert len(asked.keys) == len(orphans) == 30
    assert stops(second.store, asked) == [StopsSeen([])]
    assert len(queries) == 1

    decided = second.say(*(RunUnknown(row.key, 1) for row in orphans))
    (written,) = [one for one in decided.effects if isinstance(one, Commit)]
    assert {request.job_id for request in written.batch.requests} == {row.key.job_id for row in orphans}
    assert len({request.id for request in written.batch.requests}) == 30

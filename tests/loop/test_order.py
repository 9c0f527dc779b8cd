"""Which run starts first: by instant, by priority, one after another."""

from __future__ import annotations

import pytest

from evertick.loop.effects import Commit, Launch, Record
from evertick.loop.messages import BackfillJob
from evertick.model.instant import MILLISECOND, MINUTE, SECOND
from evertick.model.lifecycle import FAILED, SUCCEEDED
from evertick.model.schedule import AtSpec, EverySpec
from tests.loop.harness import (
    FOREVER,
    HOURLY,
    LATEST,
    REPLACE,
    SKIP,
    WAIT,
    Act,
    at,
    catching_up,
    clock_of,
    is_chronological,
    job,
    parallel,
    retries,
    world,
)
from tests.simulator.loop_driver import LoopDriver

MINUTELY = EverySpec(MINUTE)


def order(here):
    return [launch.key.job_id for _, launch in here.launches]


# --- within one instant


def test_every_run_is_launched_at_its_exact_instant():
    here = world(job("a", MINUTELY))
    here.run_until("08:35")
    assert (
        [clock_of(when) for when, _ in here.launches] == here.started() == [f"08:{minute}" for minute in range(31, 36)]
    )


def test_a_launch_does_not_wait_for_the_plan_of_what_comes_later():
    driver = LoopDriver(job("a", EverySpec(SECOND), overlap=parallel(100)))
    driver.own()
    driver.run_until(driver.now + 3 * SECOND)
    fired = driver.say(after_us=SECOND)
    assert [type(effect) for effect in fired.effects] == [Record, Launch]
    assert fired.wake_at == driver.now
    assert [type(effect) for effect in driver.say().effects] == [Commit]


def test_within_one_instant_the_higher_priority_goes_first():
    here = world(job("low", MINUTELY, priority=-1), job("none", MINUTELY), job("high", MINUTELY, priority=9))
    here.run_until("08:31")
    assert order(here) == ["high", "none", "low"]


def test_within_one_priority_the_job_that_has_waited_longest_goes_first():
    here = world(job("often", EverySpec(10 * SECOND)), job("seldom", MINUTELY))
    here.run_until("08:31")
    assert order(here)[-2:] == ["seldom", "often"]


def test_an_earlier_instant_goes_before_a_higher_priority():
    here = world(
        job("later", AtSpec(at("08:31:01")), priority=9),
        job("earlier", AtSpec(at("08:31"))),
    )
    here.run_until("08:30:59")
    here.stall(3 * SECOND)
    here.settle()
    assert order(here) == ["earlier", "later"]


def test_intervals_below_a_second_are_met_at_each_instant():
    here = world(job("a", EverySpec(250 * MILLISECOND), overlap=parallel(9)))
    here.run_until("08:30:02")
    assert here.started() == [
        *("08:30:00.25", "08:30:00.5", "08:30:00.75", "08:30:01"),
        *("08:30:01.25", "08:30:01.5", "08:30:01.75", "08:30:02"),
    ]
    assert all(when == launch.key.scheduled_for for when, launch in here.launches)


def test_lateness_is_measured_for_every_run():
    here = world(job("a", MINUTELY))
    here.run_until("08:33:10")
    assert here.state.statistics.lateness.count == 3
    assert here.state.statistics.lateness.worst_us == 0
    here.run_until("08:33:58")
    here.stall(7 * SECOND)
    here.run_for(SECOND)
    assert here.state.statistics.lateness.worst_us == 5 * SECOND


def test_percentiles_of_lateness_leave_out_what_waited_and_what_was_caught_up():
    here = world(job("a", MINUTELY, **catching_up("all")))
    here.act("a", Act(lasts_us=90 * SECOND), Act())
    here.run_until("08:33:10")
    assert here.started() == ["08:31", "08:32", "08:33"]
    assert here.state.statistics.lateness.count == 2, "the second had to wait for the first"
    here.restart(after=10 * MINUTE)
    here.run_until("08:43:50")
    assert len(here.started()) == 13
    assert here.state.statistics.lateness.count == 0
    here.run_until("08:44:10")
    assert (here.state.statistics.lateness.count, here.state.statistics.lateness.worst_us) == (1, 0)


def test_requested_runs_are_counted_apart_from_when_they_were_asked_for():
    here = world(job("a", HOURLY, overlap=WAIT))
    here.act("a", Act(lasts_us=20 * SECOND))
    here.trigger(request_id="one")
    here.trigger(request_id="two")
    here.say(BackfillJob("three", "a", [at("03:00")], WAIT))
    here.run_for(MINUTE)
    assert len(here.started()) == 3
    assert here.state.statistics.lateness.count == 0
    assert here.state.statistics.request_delay.count == 3
    assert here.state.statistics.request_delay.worst_us == 20 * SECOND


# --- overlap


def test_skip_gives_way_to_a_run_that_is_still_going():
    here = world(job("a", MINUTELY, overlap=SKIP))
    here.act("a", Act(lasts_us=90 * SECOND), Act())
    here.run_until("08:33:10")
    assert here.ledger() == ["08:31 succeeded", "08:32 skipped overlap", "08:33 succeeded"]


def test_a_skip_names_the_run_that_blocked_it():
    here = world(job("a", MINUTELY, overlap=SKIP))
    here.act("a", FOREVER)
    here.run_until("08:32:01")
    assert "2026-03-02T08:31:00Z" in here.line("08:32").detail


def test_wait_queues_in_order_and_runs_one_at_a_time():
    here = world(job("a", MINUTELY, overlap=WAIT))
    here.act("a", Act(lasts_us=200 * SECOND), Act())
    here.run_until("08:35:30")
    assert is_chronological(here.started())
    assert here.started() == ["08:31", "08:32", "08:33", "08:34", "08:35"]
    assert here.most_at_once() == 1


def test_latest_lets_one_wait_and_the_newest_take_its_place():
    here = world(job("a", MINUTELY, overlap=LATEST))
    here.act("a", Act(lasts_us=200 * SECOND), Act())
    here.run_until("08:34:50")
    assert here.ledger() == [
        *("08:31 succeeded", "08:32 skipped superseded", "08:33 skipped superseded", "08:34 succeeded"),
    ]


def test_replace_waits_until_the_old_run_has_really_ended():
    here = world(job("a", MINUTELY, overlap=REPLACE))
    here.act("a", Act(lasts_us=None, stop_takes_us=20 * SECOND), Act())
    here.run_until("08:32:19")
    assert here.ledger() == ["08:31 running", "08:32 waiting"]
    here.run_until("08:32:30")
    assert here.ledger() == ["08:31 cancelled", "08:32 succeeded"]
    assert here.most_at_once() == 1
    assert "replaced by the run of 2026-03-02T08:32:00Z" in here.line("08:31").detail


def test_a_run_that_is_replaced_is_asked_to_stop_once_and_is_not_retried():
    here = world(job("a", MINUTELY, overlap=REPLACE, retry=retries(5)))
    here.act("a", Act(lasts_us=None, stop_takes_us=150 * SECOND), Act())
    here.run_until("08:35:30")
    assert len([stop for _, stop in here.stops if stop.key.scheduled_for == at("08:31")]) == 1
    assert here.ledger()[:4] == [
        *("08:31 cancelled", "08:32 skipped superseded", "08:33 skipped superseded", "08:34 succeeded"),
    ]


def test_a_replaced_run_that_succeeds_before_it_can_be_stopped_has_succeeded():
    here = world(job("a", MINUTELY, overlap=REPLACE))
    here.act("a", Act(lasts_us=65 * SECOND, stop_takes_us=20 * SECOND), Act())
    here.run_until("08:32:30")
    assert here.ledger() == ["08:31 succeeded", "08:32 succeeded"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_parallel_runs_at_most_its_number_at_once(limit):
    here = world(job("a", EverySpec(10 * SECOND), overlap=parallel(limit)))
    here.act("a", Act(lasts_us=55 * SECOND))
    here.run_until("08:33")
    assert here.most_at_once() == limit
    assert is_chronological(here.started())


def test_beyond_the_cap_the_oldest_that_wait_are_skipped():
    here = world(job("a", MINUTELY, overlap=WAIT, backlog_max=2))
    here.act("a", FOREVER)
    here.run_until("08:35:10")
    assert here.ledger() == [
        *("08:31 running", "08:32 skipped cap", "08:33 skipped cap", "08:34 waiting", "08:35 waiting"),
    ]


def test_a_run_by_hand_obeys_the_same_rule():
    here = world(job("a", overlap=SKIP))
    here.act("a", FOREVER)
    here.trigger("a", "r1")
    here.trigger("a", "r2")
    here.run_for(SECOND)
    assert here.ledger() == ["08:30 running manual", "08:30 skipped overlap manual"]


# --- already succeeded


def test_an_occurrence_is_skipped_when_a_run_by_hand_succeeded_since_the_one_before():
    here = world(job("a", MINUTELY, skip_if_successful=True))
    here.run_until("08:31:20")
    here.trigger()
    here.run_until("08:33:10")
    assert here.ledger() == [
        *("08:31 succeeded", "08:31:20 succeeded manual", "08:32 skipped already-succeeded", "08:33 succeeded"),
    ]


def test_the_success_of_the_occurrence_before_does_not_count():
    here = world(job("a", MINUTELY, skip_if_successful=True))
    here.run_until("08:34:10")
    assert here.started() == ["08:31", "08:32", "08:33", "08:34"]


def test_a_success_is_remembered_over_a_restart():
    here = world(job("a", MINUTELY, skip_if_successful=True))
    here.run_until("08:31:20")
    here.trigger()
    here.run_until("08:31:30")
    here.restart(after=SECOND)
    here.run_until("08:32:10")
    assert here.line("08:32").reason == "already-succeeded"


def test_an_edit_of_the_schedule_forgets_the_success():
    here = world(job("a", MINUTELY, skip_if_successful=True))
    here.run_until("08:31:20")
    here.trigger()
    here.run_until("08:31:30")
    here.define(job("a", EverySpec(2 * MINUTE), skip_if_successful=True))
    here.run_until("08:32:10")
    assert here.line("08:32").state is SUCCEEDED


def test_a_failed_run_by_hand_skips_nothing():
    here = world(job("a", MINUTELY, skip_if_successful=True))
    here.act("a", Act(state=FAILED), Act())
    here.trigger()
    here.run_until("08:31:10")
    assert here.line("08:31").state is SUCCEEDED

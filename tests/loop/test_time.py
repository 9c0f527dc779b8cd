"""Time going wrong is an event: detected, counted, reported, and handled by policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.messages import BackfillJob, PauseJob, ResumeJob
from evertick.model.constraint import MaxExpectedRunTime
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND
from evertick.model.lifecycle import FAILED
from evertick.model.schedule import CronSpec, EverySpec
from evertick.settings.parts import LoopSettings
from tests.loop.harness import CALM, FOREVER, HOURLY, WAIT, Act, at, catching_up, clock_of, job, retries, world

MINUTELY = EverySpec(MINUTE)
ALL = catching_up("all")
AT_NINE_FIVE = (CronSpec("5 9 * * *", "UTC"),)


# --- the clock


@pytest.mark.parametrize("away", ["jump", "stall", "restart"])
@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param({}, ["09:00 skipped missed", "10:00 skipped missed", "11:00 skipped missed"], id="no window"),
        pytest.param(ALL, [f"{hour} succeeded catchup" for hour in ("09:00", "10:00", "11:00")], id="all"),
    ],
)
def test_a_jump_a_stall_and_a_downtime_are_settled_the_same_way(away, policy, lines):
    here = world(job(**policy))
    {"jump": here.jump, "stall": here.stall, "restart": here.restart}[away](3 * HOUR)
    here.run_for(MINUTE)
    assert here.ledger() == lines


def test_a_jump_forward_is_counted_and_reported():
    here = world(job())
    here.jump(3 * HOUR)
    here.run_for(CALM.interval_us)
    assert here.log_of("clock.jumped")["by_us"] == 3 * HOUR
    assert here.state.statistics.clock_jumps == 1
    assert here.state.statistics.stalls == 0


def test_a_stall_is_counted_and_reported_and_is_not_a_clock_jump():
    here = world(job())
    here.stall(HOUR)
    here.run_for(SECOND)
    assert here.log_of("loop.stalled")["for_us"] >= HOUR
    assert (here.state.statistics.clock_jumps, here.state.statistics.stalls) == (0, 1)


def test_a_clock_set_back_decides_nothing_a_second_time():
    here = world(job("a", MINUTELY, **ALL))
    here.run_until("08:35:30")
    here.jump(-3 * MINUTE)
    here.run_until("08:36:10")
    assert here.ledger() == [f"08:{minute} succeeded" for minute in range(31, 37)]
    assert here.started() == [f"08:{minute}" for minute in range(31, 37)]
    assert here.log_of("clock.jumped")["by_us"] == -3 * MINUTE


def test_a_clock_set_back_does_not_take_the_watermark_with_it():
    here = world(job("a", MINUTELY))
    here.run_until("08:35:30")
    before = here.state.watermark_of(here.state.jobs["a"])
    here.jump(-DAY)
    here.run_for(MINUTE)
    assert here.state.watermark_of(here.state.jobs["a"]) == before
    here.restart()
    assert here.state.watermark_of(here.state.jobs["a"]) >= before


@pytest.mark.parametrize(
    ("policy", "acts"),
    [
        pytest.param({"retry": retries(1)}, [Act(state=FAILED), Act()], id="between two attempts"),
        pytest.param({}, [Act(refused=True), Act()], id="refused by its executor"),
    ],
)
@pytest.mark.parametrize("way", ["jump", "restart and jump"])
def test_a_clock_set_back_makes_no_run_wait_longer(policy, acts, way):
    here = world(job(**policy))
    here.act("a", *acts)
    here.run_until("09:00:02" if "retry" in policy else "09:00")
    if way == "restart and jump":
        here.crash()
        here.now -= 2 * HOUR
        here.begin()
    else:
        here.jump(-2 * HOUR)
    here.run_for(3 * MINUTE)
    assert here.ledger() == ["09:00 succeeded"]


def test_a_clock_set_back_does_not_stretch_the_pace_of_a_backfill():
    here = world(job())
    here.say(BackfillJob("b", "a", [at("05:00"), at("06:00"), at("07:00")], WAIT, MINUTE))
    here.run_for(SECOND)
    here.jump(-DAY)
    here.run_for(3 * MINUTE)
    assert here.started() == ["05:00", "06:00", "07:00"]


def test_a_clock_set_back_does_not_keep_a_deleted_job_longer():
    here = world(job(overlap=WAIT))
    here.act("a", FOREVER)
    here.run_until("10:00:10")
    here.delete("a")
    here.jump(-DAY)
    here.run_for(2 * MINUTE)
    assert here.ledger() == ["09:00 running", "10:00 cancelled"]


def test_a_job_paused_before_the_clock_was_set_back_can_be_resumed():
    here = world(job())
    here.say(PauseJob("p", "a", submitted_at=here.now))
    here.jump(-HOUR)
    here.run_for(SECOND)
    here.say(ResumeJob("r", "a", submitted_at=here.now))
    assert here.state.jobs["a"].paused_at is None


def test_a_clock_set_back_does_not_let_ended_runs_gather_in_memory():
    here = world(job("a", MINUTELY))
    here.run_until("08:35:30")
    here.jump(-DAY)
    here.run_for(MINUTE)
    assert not here.state.unwritten_ends


def test_a_run_is_expected_to_take_as_long_as_before_when_the_clock_was_set_back():
    expected = MaxExpectedRunTime(MINUTE)
    here = world(replace(job(), constraints=(expected,)))
    here.act("a", FOREVER)
    here.run_until("09:00:10")
    here.jump(-DAY)
    here.run_for(2 * MINUTE)
    assert here.events("run.behind") == ["run.behind"]


def test_an_occurrence_entered_ahead_and_passed_in_a_stall_is_settled_by_policy():
    here = world(job(**catching_up("skip")))
    here.run_until("08:59:57")
    here.stall(150 * MINUTE)
    here.run_for(10 * SECOND)
    assert here.ledger() == ["09:00 succeeded catchup", "10:00 skipped overlap", "11:00 skipped overlap"]


@pytest.mark.parametrize(
    ("late_us", "line"),
    [
        pytest.param(20 * SECOND, "09:00 succeeded", id="inside the grace it is on time"),
        pytest.param(40 * SECOND, "09:00 skipped missed", id="beyond it, it is missed"),
    ],
)
@pytest.mark.parametrize("entered_ahead", [True, False])
def test_a_short_stall_over_an_occurrence(late_us, line, entered_ahead):
    here = world(job())
    here.run_until("08:59:58" if entered_ahead else "08:59:50")
    here.stall(at("09:00") - here.now + late_us)
    here.run_for(5 * SECOND)
    assert here.ledger() == [line]


def test_ten_years_of_sleep_are_a_few_lines():
    here = world(job("a", EverySpec(SECOND)), job("b", EverySpec(SECOND), **catching_up("all", window=None)))
    here.stall(3_652 * DAY)
    here.settle()
    assert len(here.rows("a")) < 50
    assert len(here.rows("b")) < 1_050


def test_nothing_due_costs_a_turn_each_loop_interval_and_no_launch():
    here = world(job())
    here.run_until("08:40")
    assert len(here.turns) < 2 * 600 + 100
    assert here.launches == []


# --- stop and restart schedules


def test_a_stop_schedule_ends_the_run_that_is_going():
    here = world(job("a", HOURLY, stops=AT_NINE_FIVE))
    here.act("a", FOREVER)
    here.run_until("09:05:10")
    assert here.ledger() == ["09:00 cancelled"]
    assert clock_of(here.stops[0][0]) == "09:05"


def test_a_stop_schedule_ends_a_run_that_was_started_by_hand_too():
    here = world(job("a", HOURLY, stops=AT_NINE_FIVE))
    here.act("a", FOREVER)
    here.run_until("09:03")
    here.finish("a")
    here.trigger()
    here.run_until("09:05:10")
    assert here.ledger() == ["09:00 succeeded", "09:03 cancelled manual"]


def test_a_stop_with_nothing_to_stop_is_nothing():
    here = world(job("a", HOURLY, stops=AT_NINE_FIVE))
    here.run_until("09:06")
    assert here.stops == []
    assert here.ledger() == ["09:00 succeeded"]


@pytest.mark.parametrize(
    ("stalled_until", "stopped"),
    [
        pytest.param("09:05:20", True, id="within the grace it fires"),
        pytest.param("09:05:40", False, id="beyond it, not at all"),
    ],
)
def test_a_stop_that_was_missed(stalled_until, stopped):
    here = world(job("a", HOURLY, stops=AT_NINE_FIVE))
    here.act("a", FOREVER)
    here.run_until("09:04:50")
    here.stall(at(stalled_until) - here.now)
    here.run_for(5 * SECOND)
    assert bool(here.stops) is stopped


def test_stops_are_not_caught_up_after_a_downtime():
    here = world(job("a", HOURLY, stops=AT_NINE_FIVE, restarts=(CronSpec("6 9 * * *", "UTC"),), **ALL))
    here.act("a", FOREVER)
    here.run_until("09:04")
    here.restart(after=20 * MINUTE)
    here.run_for(MINUTE)
    assert here.stops == []
    assert here.ledger() == ["09:00 running"]


def test_a_restart_schedule_leaves_a_job_alone_that_is_not_running():
    here = world(job("a", HOURLY, restarts=AT_NINE_FIVE))
    here.run_until("09:05:10")
    assert here.ledger() == ["09:00 succeeded"]


def test_a_restart_schedule_ends_the_old_run_and_starts_a_new_one():
    here = world(job("a", HOURLY, restarts=AT_NINE_FIVE))
    here.act("a", FOREVER, Act())
    here.run_until("09:05:10")
    assert here.ledger() == ["09:00 cancelled", "09:05 succeeded"]


def test_a_paused_job_is_neither_stopped_nor_restarted_by_its_schedules():
    here = world(job("a", HOURLY, restarts=AT_NINE_FIVE))
    here.act("a", FOREVER)
    here.run_until("09:04")
    here.say(PauseJob("p", "a"))
    here.run_until("09:06")
    assert here.ledger() == ["09:00 running"]


def test_an_edit_gives_a_job_a_stop_schedule():
    here = world(job("a", HOURLY))
    here.act("a", FOREVER)
    here.run_until("09:04")
    here.define(job("a", HOURLY, stops=AT_NINE_FIVE))
    here.run_until("09:05:10")
    assert here.ledger() == ["09:00 cancelled"]


# --- how often the loop wakes


@pytest.mark.parametrize(
    ("schedule", "wakes"),
    [
        pytest.param(HOURLY, 15, id="nothing is due: every other second"),
        pytest.param(EverySpec(SECOND), 30, id="something is due each second"),
    ],
)
def test_half_a_minute_of_the_loop(schedule, wakes):
    here = world(job("a", schedule), start="08:30", settings=LoopSettings())
    here.run_for(10 * SECOND)
    before = len({when for _, when, _ in here.turns})
    here.run_for(30 * SECOND)
    assert len({when for _, when, _ in here.turns}) - before in range(wakes, wakes + 10)


def test_an_occurrence_that_becomes_due_in_a_lull_starts_on_time():
    here = world(job("later"), start="08:30", settings=LoopSettings())
    here.run_for(10 * SECOND)
    here.define(job("later"), job("soon", CronSpec("0,3,7,13 31 8 * * *", "UTC")))
    here.run_until("08:31:20")
    assert all(when == launch.key.scheduled_for for when, launch in here.launches)
    assert here.started("soon") == ["08:31", "08:31:03", "08:31:07", "08:31:13"]


def test_a_jump_in_a_lull_is_noticed_within_two_intervals():
    here = world(job(), start="08:30", settings=LoopSettings())
    here.run_for(10 * SECOND)
    here.jump(3 * HOUR)
    here.run_for(2 * SECOND)
    assert here.log_of("clock.jumped")["by_us"] == 3 * HOUR

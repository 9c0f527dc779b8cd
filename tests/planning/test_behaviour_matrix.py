"""What happens to missed occurrences, scenario by policy, through the whole loop; and the corner cases."""

from __future__ import annotations

from typing import Any

import pytest

from evertick.loop.messages import DefinitionsChanged, DefinitionsResynced, PauseJob, ResumeJob
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.policy import Missed
from evertick.model.schedule import AtSpec, CronSpec, EverySpec
from tests.loop.harness import FOREVER, HOURLY, LATEST, SKIP, WAIT, Act, at, catching_up, is_chronological, job, world

MINUTELY = EverySpec(MINUTE)
NO_WINDOW: dict[str, Any] = {}
FIRST, ALL, NEWEST = catching_up("skip"), catching_up("all"), catching_up("latest")
POLICIES = [
    pytest.param(NO_WINDOW, id="no window"),
    pytest.param(FIRST, id="skip"),
    pytest.param(ALL, id="all"),
    pytest.param(NEWEST, id="latest"),
]


# --- the matrix


@pytest.mark.parametrize("policy", POLICIES)
def test_first_deploy_runs_from_now_only(policy):
    here = world(job("a", MINUTELY, **policy))
    here.run_until("08:32:10")
    assert here.ledger() == ["08:31 succeeded", "08:32 succeeded"]


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param(
            NO_WINDOW, ["09:00 skipped missed", "10:00 skipped missed", "11:00 skipped missed"], id="no window"
        ),
        pytest.param(FIRST, ["09:00 succeeded catchup", "10:00 skipped overlap", "11:00 skipped overlap"], id="skip"),
        pytest.param(ALL, ["09:00 succeeded catchup", "10:00 succeeded catchup", "11:00 succeeded catchup"], id="all"),
        pytest.param(
            NEWEST, ["09:00 skipped superseded", "10:00 skipped superseded", "11:00 succeeded catchup"], id="latest"
        ),
    ],
)
@pytest.mark.parametrize("lasts_us", [SECOND, 20 * SECOND], ids=["short runs", "longer runs"])
def test_a_restart_after_three_hours_of_downtime(policy, lines, lasts_us):
    here = world(job(**policy))
    here.act("a", Act(lasts_us=lasts_us))
    here.restart(after=3 * HOUR)
    here.run_for(2 * MINUTE)
    assert here.ledger() == lines


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param(NO_WINDOW, ["09:00 skipped {}", "10:00 skipped {}", "11:00 skipped {}"], id="no window"),
        pytest.param(FIRST, ["09:00 succeeded catchup", "10:00 skipped overlap", "11:00 skipped overlap"], id="skip"),
        pytest.param(ALL, ["09:00 succeeded catchup", "10:00 succeeded catchup", "11:00 succeeded catchup"], id="all"),
        pytest.param(
            NEWEST, ["09:00 skipped superseded", "10:00 skipped superseded", "11:00 succeeded catchup"], id="latest"
        ),
        pytest.param(
            catching_up("all", window=HOUR),
            ["09:00 skipped {}", "10:00 skipped {}", "11:00 succeeded catchup"],
            id="all within an hour",
        ),
    ],
)
@pytest.mark.parametrize("way", ["disabled", "paused"])
def test_a_job_held_for_three_hours_and_released(way, policy, lines):
    here = world(job(**policy))
    here.run_until("08:30:10")
    if way == "disabled":
        here.define(job(enabled=False, **policy))
    else:
        here.say(PauseJob("p", "a"))
    here.run_until("08:30:20")
    here.stall(3 * HOUR)
    here.settle()
    assert here.ledger() == []
    if way == "disabled":
        here.define(job(**policy))
    else:
        here.say(ResumeJob("r", "a"))
    here.run_for(MINUTE)
    assert here.ledger() == [line.format(way) for line in lines]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_restart_that_missed_nothing_decides_nothing(policy):
    here = world(job(**policy))
    here.run_until("09:00:10")
    here.restart(after=MINUTE)
    here.run_until("09:05")
    assert here.ledger() == ["09:00 succeeded"]


@pytest.mark.parametrize(
    "away_us",
    [
        pytest.param(3 * HOUR - SECOND, id="a second before a due time"),
        pytest.param(3 * HOUR, id="at a due time"),
        pytest.param(3 * HOUR + SECOND, id="a second after a due time"),
        pytest.param(3 * HOUR + 30 * SECOND, id="the grace after a due time"),
    ],
)
@pytest.mark.parametrize("lasts_us", [0, SECOND, 20 * SECOND], ids=["instant runs", "short runs", "longer runs"])
def test_latest_starts_exactly_one_run_after_a_downtime(away_us, lasts_us):
    here = world(job(**NEWEST), start="09:00:10")
    here.act("a", Act(lasts_us=lasts_us))
    here.restart(after=at("09:00") + away_us - here.now)
    here.run_for(2 * MINUTE)
    assert here.ledger() == ["10:00 skipped superseded", "11:00 skipped superseded", "12:00 succeeded"]


@pytest.mark.parametrize("away_us", [-SECOND, SECOND], ids=["a second before", "a second after"])
def test_latest_starts_one_run_after_a_downtime_that_an_older_one_waited_through(away_us):
    here = world(job(**NEWEST), start="08:59")
    here.act("a", FOREVER)
    here.run_until("10:01")
    assert here.ledger() == ["09:00 running", "10:00 waiting"]
    here.crash(at("12:00") + away_us - here.now)
    here.executor.finish("a", SUCCEEDED)
    here.act("a", Act())
    here.begin()
    here.run_for(MINUTE)
    assert here.ledger() == [
        *("09:00 succeeded", "10:00 skipped superseded", "11:00 skipped superseded", "12:00 succeeded"),
    ]


@pytest.mark.parametrize(
    ("late_us", "lines"),
    [
        pytest.param(5 * SECOND, ["09:00 succeeded"], id="exactly the threshold late: it runs as on time"),
        pytest.param(5 * SECOND + 1, ["09:00 skipped missed"], id="a microsecond more: it is a misfire"),
    ],
)
def test_the_edge_of_the_misfire_threshold(late_us, lines):
    here = world(job(grace_us=5 * SECOND, run_missed_one_off=False), start="08:59")
    here.stall(MINUTE + late_us)
    here.run_for(SECOND)
    assert here.ledger() == lines


# --- a job comes, changes and goes


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_added_to_a_running_scheduler_has_no_history(policy):
    here = world()
    here.run_for(MINUTE)
    here.define(job("a", MINUTELY, **policy))
    here.run_until("08:32:10")
    assert here.ledger() == ["08:32 succeeded"]


def test_a_new_job_without_a_window_has_a_watermark_for_the_day_it_gets_one():
    here = world(job())
    here.restart(after=3 * HOUR, jobs=[job(**ALL)])
    here.run_for(MINUTE)
    assert here.started() == ["09:00", "10:00", "11:00"]


def test_a_job_deleted_while_its_backlog_drains_leaves_the_run_under_way_alone():
    here = world(job(**ALL))
    here.act("a", Act(lasts_us=2 * MINUTE))
    here.restart(after=3 * HOUR)
    here.delete("a")
    here.run_for(5 * MINUTE)
    assert here.ledger() == ["09:00 succeeded catchup", "10:00 cancelled catchup", "11:00 cancelled catchup"]


def test_a_window_given_by_an_edit_on_a_healthy_scheduler_finds_nothing_missed():
    here = world(job("a", MINUTELY))
    here.run_for(2 * MINUTE)
    here.define(job("a", MINUTELY, **ALL))
    here.run_until("08:33:10")
    assert here.ledger() == ["08:31 succeeded", "08:32 succeeded", "08:33 succeeded"]


def test_a_window_taken_away_during_a_drain_leaves_every_occurrence_accounted_for():
    here = world(job(**ALL))
    here.act("a", Act(lasts_us=30 * SECOND))
    here.restart(after=3 * HOUR)
    here.define(job())
    here.run_for(5 * MINUTE)
    assert [line.split()[0] for line in here.ledger()] == ["09:00", "10:00", "11:00"]
    assert here.forgotten() == []
    assert not any(line.split()[1] in ("waiting", "planned") for line in here.ledger())


def test_a_new_expression_is_the_one_that_is_caught_up_after_a_downtime():
    here = world(job(**ALL))
    here.restart(after=2 * HOUR, jobs=[job("a", CronSpec("20 * * * *", "UTC"), **ALL)])
    here.run_for(MINUTE)
    assert here.started() == ["09:20", "10:20"]


def test_an_overlap_rule_that_changed_holds_from_the_next_occurrence_on():
    here = world(job("a", MINUTELY, overlap=SKIP))
    here.act("a", FOREVER)
    here.run_until("08:32:10")
    here.define(job("a", MINUTELY, overlap=WAIT))
    here.run_until("08:33:10")
    assert here.ledger() == ["08:31 running", "08:32 skipped overlap", "08:33 waiting"]


def test_a_renamed_job_is_one_that_went_and_one_that_is_new():
    here = world(job("old", MINUTELY, **ALL))
    here.run_until("08:31:10")
    here.jobs = {"new": job("new", MINUTELY, **ALL)}
    here.say(DefinitionsChanged(jobs=[here.jobs["new"]], removed=["old"]))
    here.run_until("08:32:10")
    assert here.ledger("old") == ["08:31 succeeded"]
    assert here.ledger("new") == ["08:32 succeeded"]


def test_a_thousand_jobs_copied_at_once_are_all_planned_at_the_next_turn():
    here = world()
    here.define(*(job(f"j{number}", MINUTELY) for number in range(1_000)))
    here.run_until("08:31:05")
    assert len(here.launches) == 1_000


def test_definition_events_that_were_lost_are_made_good_by_a_resync():
    here = world(job("a", MINUTELY), job("b", MINUTELY))
    here.say(DefinitionsResynced([job("b", MINUTELY), job("c", MINUTELY)]))
    here.run_until("08:31:05")
    assert sorted(launch.key.job_id for _, launch in here.launches) == ["b", "c"]


# --- scheduling


def test_live_occurrences_join_the_end_of_a_backlog_and_none_is_lost():
    here = world(job("a", MINUTELY, **ALL))
    here.act("a", Act(lasts_us=15 * SECOND))
    here.restart(after=10 * MINUTE)
    here.run_until("08:45")
    started = here.started()
    assert is_chronological(started)
    assert started[:14] == [f"08:{minute}" for minute in range(31, 45)]


def test_a_backlog_drains_as_fast_as_its_runs_finish():
    here = world(job("a", MINUTELY, **ALL))
    here.restart(after=20 * MINUTE)
    here.run_for(30 * SECOND)
    assert len(here.started()) == 20


def test_two_schedules_are_merged_in_time_order_and_a_shared_instant_is_one_run():
    here = world(job("a", HOURLY, CronSpec("30 9 * * *", "UTC"), CronSpec("0 10 * * *", "UTC"), **ALL))
    here.restart(after=2 * HOUR)
    here.run_for(MINUTE)
    assert here.started() == ["09:00", "09:30", "10:00"]


def test_two_live_schedules_due_at_one_instant_are_one_run():
    here = world(job("a", MINUTELY, CronSpec("* * * * *", "UTC")))
    here.run_until("08:31:05")
    assert here.ledger() == ["08:31 succeeded"]


def test_a_paused_job_keeps_its_backlog_and_continues_with_it():
    here = world(job(**ALL))
    here.act("a", FOREVER)
    here.restart(after=3 * HOUR)
    here.say(PauseJob("p", "a"))
    here.act("a", Act())
    here.finish("a")
    here.run_for(MINUTE)
    assert here.started() == ["09:00"]
    here.say(ResumeJob("r", "a"))
    here.run_for(MINUTE)
    assert here.started() == ["09:00", "10:00", "11:00"]


def test_a_caught_up_occurrence_is_not_skipped_because_a_later_run_succeeded():
    here = world(job(skip_if_successful=True, **ALL))
    here.stall(3 * HOUR)
    here.trigger()
    here.run_for(MINUTE)
    assert here.ledger()[:3] == ["09:00 succeeded catchup", "10:00 succeeded catchup", "11:00 succeeded catchup"]


def test_a_run_asked_for_between_planning_and_due_time_meets_the_occurrence_by_the_overlap_rule():
    here = world(job())
    here.act("a", FOREVER)
    here.run_until("08:59:58")
    here.trigger()
    here.run_until("09:00:05")
    assert here.ledger() == ["08:59:58 running manual", "09:00 skipped overlap"]


# --- one-offs


def test_a_one_off_already_past_at_first_sight_is_entered_as_missed():
    here = world(job("a", AtSpec(at("08:00"))))
    here.run_for(MINUTE)
    assert here.ledger() == ["08:00 skipped missed"]
    assert here.started() == []


@pytest.mark.parametrize(
    ("late_us", "lines"),
    [
        pytest.param(2 * SECOND, ["08:30 succeeded"], id="a little late: the watcher's delay"),
        pytest.param(30 * SECOND, ["08:30 succeeded"], id="exactly the grace late"),
        pytest.param(30 * SECOND + 1, ["08:30 skipped missed"], id="more than the grace late"),
    ],
)
@pytest.mark.parametrize("way", ["new", "edited", "back", "at the start", "edited while away", "paused"])
def test_a_one_off_that_is_past_when_it_is_first_seen(way, late_us, lines):
    one_off, other = job("a", AtSpec(at("08:30"))), job("a", AtSpec(at("1d00:00")))
    first_seen = at("08:30") + late_us
    match way:
        case "new":
            here = world(start="08:00")
            here.run_until(first_seen)
            here.define(one_off)
        case "edited":
            here = world(other, start="08:00")
            here.run_until(first_seen)
            here.define(one_off)
        case "back":
            here = world(other, start="08:00")
            here.run_until(first_seen - SECOND)
            here.delete("a")
            here.run_until(first_seen)
            here.define(one_off)
        case "paused":
            here = world(other, start="08:00")
            here.say(PauseJob("p", "a"))
            here.run_until(first_seen)
            here.define(one_off)
            assert here.started() == []
            here.run_for(HOUR)
            here.say(ResumeJob("r", "a"))
            lines = [line.replace("succeeded", "succeeded catchup") for line in lines]
        case "at the start":
            here = world(start="08:00")
            here.crash(first_seen - here.now)
            here.jobs = {"a": one_off}
            here.begin()
        case "edited while away":
            here = world(other, start="08:00")
            here.run_until(first_seen - SECOND)
            here.crash(SECOND)
            here.jobs = {"a": one_off}
            here.begin()
            lines = [line for line in lines if "missed" not in line]  # what it was before is not known
    here.run_for(MINUTE)
    assert here.ledger() == lines
    assert here.forgotten() == []
    assert here.state.catchup is None


def test_a_one_off_that_ran_is_not_run_again_because_its_file_is_written_again():
    one_off = job("a", AtSpec(at("08:30")), grace_us=HOUR)
    here = world(one_off, start="08:29")
    here.run_until("08:31")
    here.delete("a")
    here.run_until("08:33")
    here.define(one_off)
    here.run_until("08:35")
    here.restart(after=SECOND, jobs=[job("a", AtSpec(at("08:30")), AtSpec(at("09:00")), grace_us=HOUR)])
    here.run_for(MINUTE)
    assert here.ledger() == ["08:30 succeeded"]
    assert here.started() == ["08:30"]


@pytest.mark.parametrize(
    ("policy", "keep", "lines"),
    [
        pytest.param({}, None, ["09:00 succeeded catchup"], id="it runs on resuming"),
        pytest.param(catching_up("all", window=MINUTE), None, ["09:00 succeeded catchup"], id="whatever the window"),
        pytest.param(
            {"run_missed_one_off": False}, None, ["09:00 skipped paused"], id="unless missed: none is written"
        ),
        pytest.param({}, Missed.NONE, ["09:00 skipped paused"], id="or nothing is what was asked for"),
    ],
)
def test_a_one_off_that_came_while_its_job_was_paused(policy, keep, lines):
    here = world(job("a", AtSpec(at("09:00")), **policy))
    here.say(PauseJob("p", "a"))
    here.stall(3 * HOUR)
    here.settle()
    here.say(ResumeJob("r", "a", keep))
    here.run_for(MINUTE)
    assert here.ledger() == lines


@pytest.mark.parametrize(
    ("policy", "lines"),
    [
        pytest.param({}, ["09:00 succeeded catchup"], id="it runs late"),
        pytest.param(catching_up("all", window=MINUTE), ["09:00 succeeded catchup"], id="whatever the window"),
        pytest.param({"run_missed_one_off": False}, ["09:00 skipped missed"], id="unless missed: none is written"),
    ],
)
def test_a_one_off_missed_in_a_downtime(policy, lines):
    here = world(job("a", AtSpec(at("09:00")), **policy))
    here.restart(after=3 * HOUR)
    here.run_for(MINUTE)
    assert here.ledger() == lines


# --- what a person chooses on resuming


@pytest.mark.parametrize(
    ("keep", "started"),
    [
        pytest.param(None, ["11:00"], id="nothing: the job's own policy"),
        pytest.param(Missed.NONE, [], id="none"),
        pytest.param(Missed.LATEST, ["11:00"], id="latest"),
        pytest.param(Missed.ALL, ["09:00", "10:00", "11:00"], id="all"),
    ],
)
def test_a_choice_on_resuming_goes_before_the_policy(keep, started):
    policy: dict[str, Any] = (
        {"missed": Missed.LATEST, "overlap": WAIT} if keep else {"missed": Missed.LATEST, "overlap": LATEST}
    )
    here = world(job(**policy))
    here.say(PauseJob("p", "a"))
    here.stall(3 * HOUR)
    here.say(ResumeJob("r", "a", keep))
    here.run_for(MINUTE)
    assert here.started() == started


def test_a_choice_on_resuming_is_for_that_stretch_alone():
    here = world(job())
    here.say(PauseJob("p", "a"))
    here.stall(3 * HOUR)
    here.say(ResumeJob("r", "a", Missed.ALL))
    here.run_for(MINUTE)
    here.stall(3 * HOUR)
    here.run_for(MINUTE)
    assert here.ledger()[3:] == [f"{hour} skipped missed" for hour in ("12:00", "13:00", "14:00")]

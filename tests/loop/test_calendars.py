"""Promises about days that a calendar excludes: every occurrence of them is in the ledger, once, and none runs."""

from __future__ import annotations

from functools import partial

from evertick.loop.messages import PauseJob, ResumeJob
from evertick.model.calendar import Calendar, CalendarRule, Shift
from evertick.model.facts import read_facts
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.planning.verify import verify_ledger
from tests.loop.harness import FOREVER, QUIET, WAIT, at, catching_up, job, parallel
from tests.loop.harness import world as busy_world

world = partial(busy_world, settings=QUIET)

TODAY = at("00:00") // DAY
OFF = Calendar("company", days=(TODAY,), labels=("Founders' Day",))
HOURLY = CronSpec("0 * * * *", "UTC")


def under(
    schedule: CronSpec | EverySpec = HOURLY, calendar: Calendar = OFF, shift: Shift | None = None
) -> CalendarSpec:
    return CalendarSpec(schedule, CalendarRule((calendar,), (), shift), "UTC")


def is_sound(here) -> bool:
    contents = here.store.contents()
    return verify_ledger(contents.schedules, contents.jobs, contents.floors, contents.rows).is_sound


def test_an_occurrence_of_an_excluded_day_is_skipped_with_the_name_of_the_day():
    here = world(job("a", under()))
    here.run_until("10:30")
    assert here.ledger() == ["09:00 skipped calendar", "10:00 skipped calendar"]
    row = here.rows("a")[0]
    assert row.detail == "Founders' Day is in the calendar company"
    facts = read_facts(row.facts)
    assert (facts.calendar, facts.day) == ("company", "Founders' Day")
    assert not here.launches


def test_a_manual_run_and_a_one_off_ignore_the_calendar():
    here = world(job("a", under(), AtSpec(at("09:00"))))
    here.trigger("a")
    here.run_until("09:30")
    assert here.ledger() == ["08:30 succeeded manual", "09:00 succeeded"]


def test_the_next_day_in_the_zone_of_the_job_runs_again():
    tokyo = CalendarSpec(HOURLY, CalendarRule((OFF,)), "Asia/Tokyo")
    here = world(job("a", tokyo), start="13:30")
    here.run_until("16:30")
    assert here.ledger() == ["14:00 skipped calendar", "15:00 succeeded", "16:00 succeeded"]


def test_catch_up_leaves_the_excluded_day_out():
    here = world(
        job("a", under(calendar=Calendar("b", days=(TODAY + 1,))), **catching_up("all", 9 * DAY)), start="21:30"
    )
    here.restart(after=27 * HOUR)
    here.run_for(MINUTE)
    assert here.ledger() == [
        "22:00 succeeded catchup",
        "23:00 succeeded catchup",
        "1d00:00..1d23:00 skipped calendar x24",
        "2d00:00 succeeded catchup",
    ]
    assert is_sound(here)


def test_a_pause_over_an_excluded_day_leaves_two_reasons():
    here = world(job("a", under(calendar=Calendar("b", days=(TODAY + 1,)))), start="21:30")
    here.say(PauseJob("p", "a"))
    here.run_until("2d01:30")
    here.say(ResumeJob("r", "a", None, here.now))
    here.run_for(MINUTE)
    assert here.ledger() == [
        "22:00 skipped paused",
        "23:00 skipped paused",
        "1d00:00..1d23:00 skipped calendar x24",
        "2d00:00 skipped paused",
        "2d01:00 skipped paused",
    ]
    assert is_sound(here)


def test_a_shifted_occurrence_runs_on_the_other_day_and_both_times_are_in_the_ledger():
    daily = CronSpec("0 9 2 * *", "UTC")
    here = world(job("a", under(daily, shift=Shift.NEXT)))
    here.run_until("1d10:00")
    assert here.ledger() == ["09:00 skipped calendar", "1d09:00 succeeded"]
    assert read_facts(here.rows("a")[0].facts).moved_to == at("1d09:00")
    assert is_sound(here)


def test_a_changed_calendar_is_an_edit_and_verify_judges_each_stretch_by_its_own():
    here = world(job("a", HOURLY))
    here.run_until("09:30")
    here.define(job("a", under()))
    here.run_until("10:30")
    here.define(job("a", HOURLY))
    here.run_until("11:30")
    assert here.ledger() == ["09:00 succeeded", "10:00 skipped calendar", "11:00 succeeded"]
    assert is_sound(here)


def test_an_edit_just_before_an_excluded_occurrence_lets_it_run():
    here = world(job("a", under()))
    here.run_until("08:59:57")
    here.define(job("a", HOURLY))
    here.run_until("09:30")
    assert here.ledger() == ["09:00 succeeded"]


def test_a_crash_between_plan_and_due_time_decides_an_excluded_occurrence_once():
    here = busy_world(job("a", under(EverySpec(10 * SECOND))), start="08:59:56")
    here.run_for(3 * SECOND)
    here.restart(after=HOUR)
    here.run_for(SECOND)
    assert [line.split()[-2:] for line in here.ledger()[:2]] == [["skipped", "calendar"], ["calendar", "x356"]]
    assert is_sound(here)
    assert not here.launches


def test_jobs_without_a_calendar_keep_their_group():
    specs: tuple[ScheduleSpec, ...] = (HOURLY,)
    here = world(job("a", *specs), job("b", *specs), job("c", under()))
    here.run_until("09:30")
    assert here.ledger("c") == ["09:00 skipped calendar"]
    assert here.ledger("a") == here.ledger("b") == ["09:00 succeeded"]


def test_a_waiting_run_whose_day_an_edit_excludes_is_decided_once():
    here = world(job("a", HOURLY, overlap=WAIT))
    here.act("a", FOREVER)
    here.run_until("10:30")
    assert here.ledger() == ["09:00 running", "10:00 waiting"]
    here.define(job("a", under(), overlap=WAIT))
    here.run_until("11:30")
    assert here.ledger() == ["09:00 running", "10:00 skipped superseded", "11:00 skipped calendar"]
    assert here.forgotten() == []
    assert is_sound(here)


def test_an_excluded_occurrence_that_is_due_while_another_owner_answers_does_not_run():
    """A node that takes the job over asks what became of its runs, and lets the due ones wait for the answer."""
    here = world(job("a", under(calendar=Calendar("b", days=(TODAY + 1,))), overlap=parallel(3)), start="22:30")
    here.act("a", FOREVER)
    here.run_until("23:59:58")
    here.executor.remembers_after_us = 10 * MINUTE
    here.restart(after=SECOND)
    here.run_for(30 * MINUTE)
    assert here.ledger() == ["23:00 running", "1d00:00 skipped calendar"]
    assert is_sound(here)


def test_an_excluded_occurrence_does_not_run_because_its_calendar_is_removed_before_a_restart():
    here = world(job("a", under(), **catching_up("latest", DAY)))
    here.run_until("08:59:58")
    assert here.ledger() == ["09:00 planned"]
    here.restart(after=10 * MINUTE, jobs=[job("a", CronSpec("30 2 * * *", "UTC"), **catching_up("latest", DAY))])
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 skipped calendar"]
    assert here.rows("a")[0].detail == "Founders' Day is excluded by the calendar company"
    assert not here.launches
    assert is_sound(here)

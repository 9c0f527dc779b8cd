"""Promises about deadlines: each that passes without a success is reported once, and no other is."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from evertick.loop.messages import PauseJob, ResumeJob
from evertick.model.calendar import Calendar, CalendarRule
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_text
from evertick.model.lifecycle import FAILED
from evertick.model.policy import Expectation
from evertick.model.schedule import CalendarSpec, CronSpec
from tests.loop.harness import FOREVER, HOURLY, QUIET, Act, at, catching_up, clock_of, job, retries
from tests.loop.harness import world as busy_world

world = partial(busy_world, settings=QUIET)

WITHIN = Expectation(within_us=20 * MINUTE)
BY = Expectation(by="10:30", timezone="UTC")
BROKEN = Act(state=FAILED)
SLOW = Act(lasts_us=30 * MINUTE)


def missed(here, name: str = "a") -> list[str]:
    """The deadlines that were reported: the occurrence and its deadline."""
    told = [log.fields for log in here.logs if log.event == "job.deadline_missed" and log.fields["job"] == name]
    return [f"{_clock(one['scheduled_for'])} by {_clock(one['deadline'])}" for one in told]


def _clock(text: object) -> str:
    return clock_of(from_text(str(text)))


def late_since(here, name: str = "a") -> str | None:
    (record,) = [record for record in here.store.load().jobs if record.job_id == name]
    return None if record.late_since is None else clock_of(record.late_since)


def test_a_run_that_succeeds_in_time_is_not_reported():
    here = world(job(expectation=WITHIN))
    here.run_until("11:30")
    assert missed(here) == []
    assert late_since(here) is None
    assert not here.spins


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(BROKEN, id="it failed"),
        pytest.param(FOREVER, id="it is still running"),
        pytest.param(SLOW, id="it succeeds too late"),
        pytest.param(Act(refused=True), id="no executor takes it"),
    ],
)
def test_a_deadline_that_passes_without_a_success_is_reported_once(act):
    here = world(job(expectation=WITHIN))
    here.act("a", act)
    here.run_until("09:19:59")
    assert missed(here) == []
    here.run_until("09:59")
    assert missed(here) == ["09:00 by 09:20"]
    assert here.state.statistics.deadlines_missed == 1


def test_a_job_is_late_until_it_succeeds():
    here = world(job(expectation=WITHIN))
    here.act("a", BROKEN, BROKEN, Act())
    here.run_until("10:30")
    assert (late_since(here), here.state.late_jobs) == ("09:20", {"a"})
    here.run_until("11:01")
    assert (late_since(here), here.state.late_jobs) == (None, set())
    assert missed(here) == ["09:00 by 09:20", "10:00 by 10:20"]


def test_a_retry_that_succeeds_in_time_meets_the_deadline():
    here = world(job(expectation=WITHIN, retry=retries(3)))
    here.act("a", BROKEN, BROKEN, Act())
    here.run_until("09:59")
    assert here.ledger() == ["09:00 succeeded"]
    assert missed(here) == []


def test_a_run_that_a_person_starts_meets_the_deadline():
    here = world(job(expectation=WITHIN))
    here.act("a", BROKEN, Act())
    here.run_until("09:10")
    here.trigger("a")
    here.run_until("09:59")
    assert missed(here) == []


def test_only_the_last_occurrence_before_a_time_of_day_must_have_succeeded_by_it():
    here = world(job(expectation=BY))
    here.act("a", BROKEN, Act())
    here.run_until("11:30")
    assert missed(here) == []
    here.act("a", BROKEN)
    here.run_until("1d11:30")
    assert missed(here) == ["1d10:00 by 1d10:30"]


def test_a_job_of_the_evening_must_have_succeeded_by_the_next_morning():
    here = world(job("a", CronSpec("0 22 * * *", "UTC"), expectation=BY))
    here.act("a", FOREVER)
    here.run_until("1d10:29")
    assert missed(here) == []
    here.run_until("1d10:31")
    assert missed(here) == ["22:00 by 1d10:30"]


def test_a_deadline_that_passes_while_no_scheduler_runs_is_reported_at_the_start():
    here = world(job(expectation=WITHIN))
    here.restart(after=HOUR)  # from 08:30 to 09:30
    here.run_for(MINUTE)
    assert missed(here) == ["09:00 by 09:20"]
    for _ in range(2):
        here.restart(after=SECOND)
        here.run_for(MINUTE)
    assert missed(here) == ["09:00 by 09:20"]


def test_a_long_downtime_is_one_report_and_catching_up_is_none():
    here = world(job(expectation=WITHIN, **catching_up("all")))
    here.restart(after=5 * HOUR)
    here.run_until("13:59")
    assert missed(here) == ["13:00 by 13:20"]
    assert late_since(here) is None


def test_a_run_that_succeeded_in_time_while_the_scheduler_was_away_is_not_reported():
    here = world(job(expectation=WITHIN))
    here.act("a", Act(lasts_us=15 * MINUTE))
    here.run_until("09:10")
    here.executor.remembers_after_us = 10 * SECOND
    here.crash(after=8 * MINUTE)
    here.restart(after=20 * MINUTE)
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 succeeded"]
    assert missed(here) == []


def test_a_crash_between_two_deadlines_reports_neither_twice():
    here = world(job(expectation=WITHIN))
    here.act("a", BROKEN)
    here.run_until("09:30")
    here.restart(after=MINUTE)
    here.run_until("10:30")
    here.restart(after=MINUTE)
    here.run_until("10:59")
    assert missed(here) == ["09:00 by 09:20", "10:00 by 10:20"]


def test_a_deadline_is_reported_when_the_ledger_has_it():
    here = world(job(expectation=WITHIN))
    here.act("a", BROKEN)
    here.run_until("09:10")
    here.is_ledger_away = True
    here.run_until("09:30")
    assert missed(here) == []
    here.restart(after=SECOND)  # what was decided and not written is lost
    here.is_ledger_away = False
    here.write()
    here.run_until("09:40")
    assert missed(here) == ["09:00 by 09:20"]


def test_a_paused_job_has_no_deadlines():
    here = world(job(expectation=WITHIN, **catching_up("all")))
    here.act("a", BROKEN)
    here.run_until("09:10")
    here.say(PauseJob("p1", "a"))
    here.run_until("11:30")
    here.restart(after=MINUTE)
    here.say(ResumeJob("p2", "a"))
    here.run_until("11:59")
    assert missed(here) == []
    here.run_until("12:30")
    assert missed(here) == ["12:00 by 12:20"]


def test_a_disabled_job_has_no_deadlines():
    one = job(expectation=WITHIN)
    here = world(one)
    here.act("a", BROKEN)
    here.run_until("09:10")
    here.define(replace(one, enabled=False))
    here.run_until("10:30")
    here.define(one)
    here.run_until("10:59")
    assert missed(here) == []


def test_a_day_that_a_calendar_excludes_has_no_deadline():
    off = CalendarRule((Calendar("closed", days=(at("00:00") // DAY,)),))
    here = world(job("a", CalendarSpec(HOURLY, off, "UTC"), expectation=WITHIN))
    here.act("a", BROKEN)
    here.run_until("1d00:30")
    assert missed(here) == ["1d00:00 by 1d00:20"]


def test_an_occurrence_that_a_condition_skips_has_no_deadline_also_after_a_restart():
    here = world(job(expectation=WITHIN))
    here.act("a", Act(broken="preRunHook"))
    here.run_until("09:05")
    assert here.ledger() == ["09:00 skipped condition"]
    here.restart(after=MINUTE)
    here.run_until("09:59")
    assert missed(here) == []


def test_an_edit_of_the_command_keeps_the_deadline_and_one_of_the_schedule_resets_it():
    one = job(expectation=WITHIN)
    here = world(one)
    here.act("a", BROKEN)
    here.run_until("09:10")
    here.define(replace(one, description="mended"))
    here.run_until("09:30")
    assert missed(here) == ["09:00 by 09:20"]
    here.run_until("10:10")
    here.define(replace(one, schedules=(CronSpec("30 * * * *", "UTC"),)))
    here.run_until("10:49")
    assert missed(here) == ["09:00 by 09:20"]
    here.run_until("10:59")
    assert missed(here) == ["09:00 by 09:20", "10:30 by 10:50"]


def test_a_job_whose_file_is_deleted_and_written_again_keeps_its_deadline():
    one = job(expectation=WITHIN)
    here = world(one)
    here.act("a", BROKEN)
    here.run_until("09:19:50")
    here.delete("a")
    here.run_until("09:20:30")
    here.define(one)
    here.run_until("09:30")
    assert missed(here) == ["09:00 by 09:20"]


def test_a_deadline_that_is_added_or_removed_counts_from_then_on():
    plain = job()
    here = world(plain)
    here.act("a", BROKEN)
    here.run_until("09:10")
    here.define(job(expectation=WITHIN))
    here.run_until("10:30")
    assert missed(here) == ["10:00 by 10:20"]
    here.define(plain)
    here.run_until("12:30")
    assert missed(here) == ["10:00 by 10:20"]
    assert here.state.late_jobs == set()


def test_the_next_owner_reports_what_the_last_one_did_not():
    here = world(job(expectation=WITHIN))
    here.act("a", BROKEN)
    here.run_until("09:19")
    bucket = here.state.jobs["a"].bucket
    here.say(here.lost(bucket))
    here.run_until("09:30")
    assert missed(here) == []
    here.say(here.gain([bucket]))
    here.run_until("09:31")
    assert missed(here) == ["09:00 by 09:20"]
    here.say(here.lost(bucket), here.gain([bucket]))
    here.run_until("09:59")
    assert missed(here) == ["09:00 by 09:20"]


def test_thousands_of_jobs_have_one_place_each():
    here = world(*(job(f"a{number}", expectation=WITHIN) for number in range(50)))
    here.run_until("12:30")
    assert len(here.state.deadlines) <= 100

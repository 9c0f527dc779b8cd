"""Jobs that are added, changed, removed, paused and resumed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop import plan
from evertick.loop.effects import Resync
from evertick.loop.job_state import Hold
from evertick.loop.messages import DefinitionEventsLost, DefinitionsChanged, PauseJob, ResumeJob, TriggerJob
from evertick.model.answer import Answer, Refusal
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.policy import Missed
from evertick.model.schedule import AtSpec, CronSpec, EverySpec
from evertick.planning import planner
from tests.loop.harness import FOREVER, WAIT, Act, World, at, catching_up, job, world

MINUTELY = EverySpec(MINUTE)
ALL = catching_up("all")
BAD = CronSpec("61 * * * *", "UTC")


# --- pausing


def test_a_paused_job_plans_nothing_and_its_watermark_stays():
    here = world(job("a", MINUTELY))
    here.run_until("08:31:10")
    here.say(PauseJob("p", "a", "maintenance"))
    paused_at = here.now
    here.run_for(5 * MINUTE)
    assert here.ledger() == ["08:31 succeeded"]
    found = here.state.jobs["a"]
    assert found.hold is Hold.PAUSED
    assert here.state.watermark_of(found) == found.paused_at == paused_at
    assert found.pause_note == "maintenance"


def test_entries_ahead_are_withdrawn_when_the_job_is_paused():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:57")
    assert here.ledger() == ["08:31 planned"]
    here.say(PauseJob("p", "a"))
    here.run_until("08:32")
    assert here.ledger() == []


def test_a_pause_and_a_resume_before_the_instant_change_nothing():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:57")
    here.say(PauseJob("p", "a"))
    here.say(ResumeJob("r", "a"))
    here.run_until("08:31:10")
    assert here.ledger() == ["08:31 succeeded"]


def test_a_pause_survives_a_restart():
    here = world(job("a", MINUTELY))
    here.say(PauseJob("p", "a", "why"))
    here.restart(after=10 * MINUTE)
    here.run_for(2 * MINUTE)
    assert here.ledger() == []
    assert here.state.jobs["a"].pause_note == "why"


def test_a_stretch_paused_through_a_restart_is_reported_as_paused():
    here = world(job())
    here.say(PauseJob("p", "a"))
    here.restart(after=3 * HOUR)
    here.say(ResumeJob("r", "a"))
    assert here.ledger() == ["09:00 skipped paused", "10:00 skipped paused", "11:00 skipped paused"]


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        pytest.param({}, "09:00 skipped paused", id="no catch-up"),
        pytest.param(ALL, "09:00 succeeded catchup", id="with catch-up it was missed, and runs"),
    ],
)
def test_an_occurrence_that_came_during_a_pause_is_settled_by_policy_however_soon_the_resume_comes(policy, line):
    here = world(job(**policy))
    here.run_until("08:59:50")
    here.say(PauseJob("p", "a"))
    here.run_until("09:00:10")
    here.say(ResumeJob("r", "a"))
    here.run_for(MINUTE)
    assert here.ledger() == [line]


def test_a_long_pause_is_one_gap():
    here = world(job("a", MINUTELY))
    here.say(PauseJob("p", "a"))
    here.stall(3 * HOUR + SECOND)
    here.say(ResumeJob("r", "a"))
    assert here.ledger()[0] == "08:31..11:30 skipped paused x180"


def test_a_paused_job_still_runs_on_request():
    here = world(job())
    here.say(PauseJob("p", "a"))
    here.trigger()
    here.run_for(10 * SECOND)
    assert here.ledger() == ["08:30 succeeded manual"]


def test_pausing_twice_keeps_the_first_pause():
    here = world(job())
    here.say(PauseJob("p", "a", "first"))
    here.run_for(MINUTE)
    here.say(PauseJob("q", "a", "second"))
    assert here.state.jobs["a"].pause_note == "first"


def test_resuming_a_job_that_is_not_paused_is_harmless():
    here = world(job("a", MINUTELY))
    here.say(ResumeJob("r", "a", Missed.ALL))
    here.run_until("08:31:10")
    assert here.ledger() == ["08:31 succeeded"]


# --- enabling


def test_a_disabled_job_is_shown_so_and_plans_nothing():
    here = world(job("a", MINUTELY, enabled=False))
    here.run_for(2 * MINUTE)
    assert here.ledger() == []
    assert here.state.jobs["a"].hold is Hold.DISABLED


def test_a_job_disabled_over_a_restart_enters_the_stretch_as_disabled():
    here = world(job())
    here.define(job(enabled=False))
    here.restart(after=3 * HOUR)
    here.define(job())
    assert here.ledger() == ["09:00 skipped disabled", "10:00 skipped disabled", "11:00 skipped disabled"]


def test_a_job_enabled_during_a_downtime_settles_the_stretch_by_its_policy():
    here = world(job(enabled=False, **ALL))
    here.restart(after=3 * HOUR, jobs=[job(**ALL)])
    here.run_for(MINUTE)
    assert here.started() == ["09:00", "10:00", "11:00"]


# --- editing the schedule


def test_an_edit_withdraws_what_was_entered_ahead_under_the_old_schedule():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:57")
    here.define(job("a", AtSpec(at("08:31:30"))))
    here.run_until("08:33")
    assert here.started() == ["08:31:30"]


def test_an_edit_keeps_the_occurrence_that_both_schedules_have():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:57")
    here.define(job("a", EverySpec(30 * SECOND)))
    here.run_until("08:31:10")
    assert here.ledger() == ["08:31 succeeded"]


def test_a_new_expression_is_never_due_before_the_edit_when_nothing_waits():
    here = world(job("a", CronSpec("0 0 * * *", "UTC"), **ALL))
    here.run_until("08:45:30")
    here.define(job("a", MINUTELY, **ALL))
    here.run_until("08:46:10")
    assert here.ledger() == ["08:46 succeeded"]


def test_an_edit_supersedes_what_waits_and_plans_it_again():
    here = world(job(**ALL))
    here.act("a", FOREVER)
    here.restart(after=3 * HOUR)
    here.define(job("a", CronSpec("15 * * * *", "UTC"), **ALL))
    here.act("a", Act())
    here.finish("a")
    here.run_for(MINUTE)
    assert here.ledger() == [
        "09:00 succeeded catchup",
        "10:00 skipped superseded catchup",
        "10:15 succeeded catchup",
        "11:00 skipped superseded catchup",
        "11:15 succeeded catchup",
    ]


def test_an_edit_while_the_job_is_paused_is_planned_from_the_pause_on_under_the_new_expression():
    here = world(job(**ALL))
    here.say(PauseJob("p", "a"))
    here.stall(HOUR)
    here.define(job("a", CronSpec("15 * * * *", "UTC"), **ALL))
    here.stall(HOUR)
    here.say(ResumeJob("r", "a"))
    here.run_for(MINUTE)
    assert here.started() == ["09:15", "10:15"]


# --- deleting


def test_a_job_deleted_and_created_within_the_grace_keeps_its_watermark():
    here = world(job("a", MINUTELY, **ALL))
    here.run_until("08:30:50")
    here.delete("a")
    here.run_until("08:31:40")
    here.define(job("a", MINUTELY, **ALL))
    here.run_until("08:32:10")
    assert here.ledger() == ["08:31 succeeded catchup", "08:32 succeeded"]


def test_a_job_created_again_after_the_grace_is_new():
    here = world(job("a", MINUTELY, **ALL))
    here.run_until("08:30:50")
    here.delete("a")
    here.run_until("08:35:30")
    here.define(job("a", MINUTELY, **ALL))
    here.run_until("08:36:10")
    assert here.ledger() == ["08:36 succeeded"]
    assert here.events("job.removed") == ["job.removed"]


@pytest.mark.parametrize(
    ("down_us", "lines"),
    [
        pytest.param(30 * SECOND, ["08:31 succeeded catchup"], id="within the grace it goes on"),
        pytest.param(3 * MINUTE, ["08:31 skipped missed"], id="after it, it is new, and its time is past"),
    ],
)
def test_the_grace_of_a_deleted_job_runs_on_while_the_scheduler_is_away(down_us, lines):
    here = world(job("a", AtSpec(at("08:31")), **ALL))
    here.run_until("08:30:50")
    here.delete("a")
    here.run_until("08:31:05")
    here.restart(after=down_us, jobs=[job("a", AtSpec(at("08:31")), **ALL)])
    here.run_for(10 * SECOND)
    assert here.ledger() == lines


def test_waiting_runs_of_a_deleted_job_are_cancelled_after_the_grace():
    here = world(job("a", MINUTELY, overlap=WAIT))
    here.act("a", FOREVER)
    here.run_until("08:33:10")
    here.delete("a")
    here.run_for(30 * SECOND)
    assert here.ledger()[1:] == ["08:32 waiting", "08:33 waiting"]
    here.run_for(40 * SECOND)
    assert here.ledger()[1:] == ["08:32 cancelled", "08:33 cancelled"]


@pytest.mark.parametrize("is_paused", [False, True], ids=["as it is", "paused"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["by the same process", "by the next one"])
def test_a_requested_run_of_a_deleted_job_starts_only_when_the_job_is_back(is_paused, is_restarted):
    here = world(job("a", MINUTELY, overlap=WAIT))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    if is_paused:
        here.say(PauseJob("p", "a"))
    here.trigger("a")
    here.delete("a")
    if is_restarted:
        here.restart(after=SECOND)
    here.finish("a")
    here.run_for(20 * SECOND)
    # Without its definition it would run nothing, and call that a success.
    assert len(here.launches) == 1
    here.define(job("a", MINUTELY, overlap=WAIT))
    here.run_for(2 * SECOND)
    assert len(here.launches) == 2


def test_a_deleted_job_is_not_planned():
    here = world(job("a", MINUTELY))
    here.delete("a")
    here.run_for(5 * MINUTE)
    assert here.ledger() == []


def test_a_paused_job_deleted_and_created_again_is_still_paused():
    here = world(job("a", MINUTELY))
    here.say(PauseJob("p", "a"))
    here.delete("a")
    here.define(job("a", MINUTELY))
    here.run_for(2 * MINUTE)
    assert here.state.jobs["a"].hold is Hold.PAUSED
    assert here.ledger() == []


def test_a_job_whose_file_returns_just_after_a_restart_continues():
    here = world(job(**ALL))
    here.restart(after=3 * HOUR, jobs=[])
    here.define(job(**ALL))
    here.run_for(MINUTE)
    assert here.started() == ["09:00", "10:00", "11:00"]


# --- a job that cannot be planned


def unreadable_at_a_restart() -> World:
    """A file cannot be read when the scheduler starts again at 09:30; one job is not among those that can."""
    here = world(job(**catching_up("all")), start="08:30")
    here.run_until("09:30")
    known, here.are_whole = here.jobs["a"], False
    here.restart(jobs=[])
    here.jobs["a"] = known
    return here


def test_a_job_whose_file_is_unreadable_at_a_restart_later_continues_from_its_watermark():
    here = unreadable_at_a_restart()
    here.run_until("11:30")
    here.restart(jobs=[])  # once more
    here.run_until("12:30")
    here.define(job(**catching_up("all")))
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 succeeded", *(f"{hour}:00 succeeded catchup" for hour in (10, 11, 12))]


def test_a_job_that_is_not_there_when_all_files_can_be_read_again_is_gone():
    here = unreadable_at_a_restart()
    here.run_until("11:30")
    here.say(DefinitionsChanged())
    here.run_for(2 * MINUTE)
    assert "a" not in here.state.jobs
    here.define(job(**catching_up("all")))
    here.run_until("12:01")
    assert here.ledger() == ["09:00 succeeded", "12:00 succeeded"]


def test_a_job_that_was_gone_long_before_a_file_became_unreadable_is_new_when_it_comes_back():
    here = world(job(**catching_up("all")), start="08:30")
    here.delete("a")
    here.run_until("09:30")
    here.are_whole = False
    here.restart()
    here.run_until("11:30")
    here.define(job(**catching_up("all")))
    here.run_until("12:01")
    assert here.ledger() == ["12:00 succeeded"]


def test_a_query_for_a_job_whose_file_may_be_unreadable_reports_it():
    here = unreadable_at_a_restart()
    here.say(TriggerJob("r", "a", here.now))
    text = "unknown job 'a'; it may be in a job file that has an error"
    assert here.answer("r") == Answer(refusal=Refusal.NOT_FOUND, text=text)


def test_a_job_with_a_bad_schedule_is_in_error_and_the_others_continue():
    here = world(job("bad", BAD), job("good", MINUTELY))
    here.run_until("08:31:10")
    found = here.state.jobs["bad"]
    assert found.hold is Hold.ERROR
    assert "61" in found.error
    assert here.started("good") == ["08:31"]


def test_a_job_whose_planning_raises_is_in_error_and_the_others_continue(monkeypatch):
    def fails(view, now, preread_us):
        if view.job.id == "bad":
            raise RuntimeError("no more")
        return planned(view, now, preread_us)

    planned = planner.plan
    here = world(job("bad", MINUTELY, **ALL), job("good", MINUTELY, **ALL))
    monkeypatch.setattr(plan, "plan", fails)
    here.stall(2 * MINUTE + 10 * SECOND)
    here.run_for(50 * SECOND)
    assert here.state.jobs["bad"].error == "RuntimeError: no more"
    assert here.events("job.error") == ["job.error"]
    assert here.started("good") == ["08:31", "08:32", "08:33"]
    assert here.ledger("bad") == []
    monkeypatch.setattr(plan, "plan", planned)
    here.define(job("bad", MINUTELY, priority=1, **ALL))
    here.run_for(10 * SECOND)
    assert here.started("bad") == ["08:31", "08:32", "08:33"], "once mended, nothing of the stretch is lost"


@pytest.mark.parametrize("missed", [{}, ALL], ids=["without catch-up", "with catch-up"])
def test_a_one_off_that_came_due_while_its_file_was_away_is_decided_once(missed):
    """The file went while no scheduler ran, and came back: what the ledger has is also what is done."""
    here = world(job("a", AtSpec(at("08:40")), **missed))
    here.run_until("08:35")
    here.restart(after=10 * MINUTE, jobs=())
    here.run_for(10 * SECOND)
    here.define(job("a", AtSpec(at("08:40")), **missed))
    here.run_for(MINUTE)
    assert here.ledger() == ["08:40 succeeded catchup"]
    assert here.started() == ["08:40"]


def test_a_job_in_error_is_mended_by_an_edit():
    here = world(job("a", BAD))
    here.define(job("a", MINUTELY))
    here.run_until("08:31:10")
    assert here.ledger() == ["08:31 succeeded"]
    assert here.state.jobs["a"].hold is None


@pytest.mark.parametrize(
    ("missed", "settled"),
    [
        pytest.param({}, [f"08:3{minute} skipped missed" for minute in range(2, 7)], id="without catch-up"),
        pytest.param(ALL, [f"08:3{minute} succeeded catchup" for minute in range(2, 7)], id="with catch-up"),
    ],
)
@pytest.mark.parametrize("is_restarted", [False, True], ids=["while it runs", "at a restart"])
def test_a_definition_that_became_invalid_holds_its_job_and_nothing_of_the_stretch_is_lost(
    missed, settled, is_restarted
):
    good = job("a", MINUTELY, **missed)
    bad = replace(good, invalid="its function is gone")
    here = world(good)
    here.run_until("08:31:10")
    if is_restarted:
        here.restart(jobs=[bad])
    else:
        here.define(bad)
    here.run_until("08:36:40")
    found = here.state.jobs["a"]
    assert (found.hold, found.error) == (Hold.ERROR, "its function is gone")
    assert here.started() == ["08:31"]
    here.define(good)
    here.run_until("08:37:10")
    assert found.hold is None
    assert here.ledger()[1 : len(settled) + 1] == settled


def test_doubt_about_the_definitions_asks_for_all_of_them():
    here = world(job())
    here.say(DefinitionEventsLost())
    assert Resync() in here.turns[-1][2]

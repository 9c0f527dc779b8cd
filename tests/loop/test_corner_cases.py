"""Corner cases, and what was decided about each."""

from __future__ import annotations

from evertick.loop.messages import BackfillJob, PauseJob, ResumeJob
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.policy import Missed
from evertick.model.schedule import AtSpec, EverySpec
from tests.loop.harness import WAIT, Act, at, catching_up, job, world

MINUTELY = EverySpec(MINUTE)


def test_resuming_with_nothing_caught_up_leaves_a_missed_one_off_out_too():
    here = world(job("a", AtSpec(at("09:00"))))
    here.say(PauseJob("p", "a"))
    here.run_until("10:00")
    here.say(ResumeJob("r", "a", Missed.NONE))
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 skipped paused"]


def test_a_backfill_is_not_cut_by_the_cap_of_the_backlog():
    here = world(job("a", backlog_max=3))
    instants = [at("01:00") + number * MINUTE for number in range(10)]
    here.say(BackfillJob("b", "a", instants, WAIT))
    here.run_for(MINUTE)
    assert len(here.started()) == 10


def test_a_requested_run_does_not_wait_behind_the_backlog_of_a_paused_job():
    here = world(job("a", **catching_up("all")))
    here.act("a", Act(lasts_us=MINUTE), Act())
    here.restart(after=3 * HOUR)
    here.say(PauseJob("p", "a"))
    here.run_for(2 * MINUTE)
    assert "10:00 waiting catchup" in here.ledger()
    here.trigger("a")
    here.run_for(10 * SECOND)
    assert "11:32 succeeded manual" in here.ledger()
    assert "10:00 waiting catchup" in here.ledger()


def test_a_one_off_that_an_edit_moves_into_the_past_is_entered_as_missed():
    here = world(job("a", AtSpec(at("12:00"))))
    here.define(job("a", AtSpec(at("08:00"))))
    here.run_for(MINUTE)
    assert here.ledger() == ["08:00 skipped missed"]


def test_a_paused_job_that_is_rewritten_with_another_schedule_is_accounted_for_under_both():
    here = world(job("a"))
    here.run_for(MINUTE)
    here.say(PauseJob("p", "a"))
    here.delete("a")
    here.run_for(10 * SECOND)
    here.define(job("a", MINUTELY))
    lines = here.store.schedules(["a"])
    assert len(lines) == 2
    assert "every_us" in lines[-1].specs

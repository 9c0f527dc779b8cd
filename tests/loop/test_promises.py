"""Promises that the loop once broke, about the ledger, edits and counts."""

from __future__ import annotations

import pytest

from evertick.loop.messages import (
    CancelRun,
    PauseJob,
    ResumeJob,
    Shutdown,
    TriggerJob,
)
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.ledger import Batch, Request, RequestKind, bucket_of
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.schedule import CronSpec, EverySpec
from evertick.settings.parts import LoopSettings
from tests.loop.harness import (
    FOREVER,
    Act,
    catching_up,
    job,
    parallel,
    world,
)

HALF_HOURLY = CronSpec("0,30 * * * *", "UTC")
MINUTELY = EverySpec(MINUTE)
ONE_BATCH = LoopSettings(batches=1)


def submit(here, request_id, kind):
    """Put a request into the ledger, as a command or the API does."""
    here.store.commit(Batch(by=request_id, requests=[Request(request_id, kind, "a", "{}", here.now)]))


# --- the fence


def test_a_batch_fenced_for_one_bucket_loses_nothing_of_the_others():
    here = world(job("a"), job("b"))
    assert bucket_of("a") != bucket_of("b")
    here.run_until("08:59:50")
    here.steal(bucket_of("b"))
    here.run_until("09:01")
    assert here.ledger("a") == ["09:00 succeeded"]


def test_what_was_asked_of_a_kept_job_in_a_fenced_batch_is_done_all_the_same():
    here = world(job("a"), job("b"))
    here.steal(bucket_of("b"))
    here.trigger("a")
    here.run_for(10 * SECOND)
    assert here.ledger("a") == ["08:30 succeeded manual"]


def test_a_request_whose_batch_was_fenced_is_executed_when_it_is_claimed_again():
    here = world(job("a"))
    here.steal(bucket_of("a"))
    here.trigger("a")
    here.run_for(SECOND)
    here.say(here.gain([bucket_of("a")]))
    here.say(TriggerJob("r1", "a", here.now))
    here.run_for(10 * SECOND)
    assert [row.state for row in here.rows("a")] == [SUCCEEDED]


# --- editing


def test_an_edit_during_a_drain_still_runs_the_instants_that_both_schedules_share():
    here = world(job(**catching_up("all")))
    here.act("a", FOREVER)
    here.restart(after=3 * HOUR)
    assert here.ledger() == ["09:00 running catchup", "10:00 waiting catchup", "11:00 waiting catchup"]
    here.define(job("a", HALF_HOURLY, **catching_up("all")))
    here.act("a", Act())
    here.finish("a")
    here.run_for(MINUTE)
    assert here.started() == ["09:00", "10:00", "10:30", "11:00", "11:30"]


def test_an_edit_of_the_schedule_while_paused_keeps_the_backlog():
    here = world(job(**catching_up("all")))
    here.act("a", FOREVER)
    here.restart(after=3 * HOUR)
    here.say(PauseJob("p", "a"))
    here.define(job("a", CronSpec("15 * * * *", "UTC"), **catching_up("all")))
    here.act("a", Act())
    here.finish("a")
    here.say(ResumeJob("r", "a"))
    here.run_for(MINUTE)
    assert here.started() == ["09:00", "10:15", "11:15"]


def test_a_disabled_job_that_is_enabled_with_a_new_schedule_in_one_edit_is_planned_again():
    here = world(job("a", enabled=False))
    here.define(job("a", MINUTELY))
    here.run_for(3 * MINUTE)
    assert here.started() == ["08:31", "08:32", "08:33"]


def test_an_edit_to_a_stop_schedule_that_cannot_be_read_puts_only_that_job_in_error():
    here = world(job("a"), job("b", MINUTELY))
    here.define(job("a", stops=(CronSpec("not cron", "UTC"),)))
    here.run_for(90 * SECOND)
    assert here.started("b") == ["08:31"]


def test_a_wider_overlap_limit_lets_those_that_wait_go_at_once():
    here = world(job("a", MINUTELY, overlap=parallel(1)))
    here.act("a", FOREVER)
    here.run_for(3 * MINUTE)
    here.define(job("a", MINUTELY, overlap=parallel(3)))
    here.run_for(SECOND)
    assert here.started() == ["08:31", "08:32", "08:33"]


# --- late, while the ledger is behind or the job is held


def test_a_late_run_found_while_the_ledger_is_behind_does_not_decide_the_stretch_twice():
    here = world(job("a", MINUTELY, **catching_up("all")), job("b"), settings=ONE_BATCH)
    here.run_until("08:30:56")
    here.is_ledger_away = True
    here.trigger("b")  # a commit that is not answered: the ledger is behind
    here.stall(5 * MINUTE)
    here.settle()
    here.is_ledger_away = False
    here.write()
    here.run_for(MINUTE)
    assert here.forgotten() == []
    assert here.started() == ["08:31", "08:32", "08:33", "08:34", "08:35", "08:36"]


def test_a_late_commit_for_a_paused_job_does_not_plan_what_it_is_paused_for():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:50")
    here.is_ledger_away = True
    here.run_until("08:31:01")
    here.say(PauseJob("p", "a"))
    here.run_until("08:35:30")
    here.is_ledger_away = False
    here.write()
    here.run_for(MINUTE)
    paused = here.ledger()
    here.run_for(10 * MINUTE)
    here.say(ResumeJob("r", "a"))
    assert paused in (["08:31 skipped missed"], ["08:31 skipped paused"])
    assert here.ledger()[1:] == ["08:32..08:46 skipped paused x15"]


def test_a_stretch_not_yet_planned_is_not_called_planned_by_the_floor():
    """A node that takes over a bucket while its ledger is behind must not write a floor for it."""
    here = world(job("a", **catching_up("all")), job("b"), settings=ONE_BATCH)
    here.say(here.lost(bucket_of("a")))
    here.run_until("12:10")
    here.is_ledger_away = True
    here.trigger("b")
    here.inbox += [here.gain([bucket_of("a")]), CancelRun("c", "b")]
    here.turn()
    here.is_ledger_away = False
    here.write()
    here.restart()
    here.run_for(MINUTE)
    assert here.ledger("a") == [f"{when} succeeded catchup" for when in ("09:00", "10:00", "11:00", "12:00")]


def test_a_resume_is_answered_only_when_a_crash_can_no_longer_undo_it():
    here = world(job("a", MINUTELY), job("b"), settings=ONE_BATCH)
    here.say(PauseJob("p", "a"))
    submit(here, "r", RequestKind.RESUME)
    here.is_ledger_away = True
    here.trigger("b")
    here.inbox.append(ResumeJob("r", "a"))
    here.turn()
    here.is_ledger_away = False
    here.write()
    here.restart()
    here.say(*[ResumeJob(request.id, "a") for request in here.store.claim(None, 10)])
    here.run_for(90 * SECOND)
    assert here.started("a") == ["08:31"]
    assert here.store.claim(None, 10) == []


def test_the_loop_does_not_spin_while_the_ledger_is_behind():
    here = world(job("a", MINUTELY), settings=ONE_BATCH)
    here.is_ledger_away = True
    here.trigger("a")
    here.run_for(MINUTE)
    assert here.spins == 0


def test_the_loop_does_not_spin_while_it_shuts_down():
    here = world(job("a", MINUTELY))
    here.say(Shutdown())
    here.run_for(MINUTE)
    assert here.spins == 0


# --- answers and accounts


def test_a_catch_up_is_completed_although_the_cap_took_some_of_it():
    here = world(job("a", MINUTELY, **catching_up("all", backlog_max=3)))
    here.act("a", Act(lasts_us=20 * MINUTE), Act())
    here.restart(after=10 * MINUTE)
    here.stall(10 * MINUTE)
    here.run_for(2 * HOUR)
    assert here.events("catchup.completed")


def test_a_refused_run_that_waits_can_be_skipped_by_the_cap_in_the_ledger_too():
    here = world(job("a", MINUTELY, **catching_up("all", backlog_max=2)))
    here.act("a", Act(refused=True))
    here.run_until("08:31:10")
    here.stall(20 * MINUTE)
    here.run_for(SECOND)
    assert here.forgotten() == []
    assert here.ledger()[0] == "08:31 skipped cap"


@pytest.mark.parametrize("way", ["paused", "edited"])
def test_a_clock_set_back_does_not_let_a_job_that_is_then_held_be_planned_before_what_was_decided(way):
    here = world(job("a", MINUTELY, **catching_up("all")))
    here.run_until("08:32:10")
    watermark = here.state.watermark_of(here.state.jobs["a"])
    here.jump(-10 * MINUTE)
    here.run_for(SECOND)
    if way == "paused":
        here.say(PauseJob("p", "a"))
        here.say(ResumeJob("r", "a"))
    else:
        here.define(job("a", EverySpec(30 * SECOND), **catching_up("all")))
    assert here.state.watermark_of(here.state.jobs["a"]) >= watermark - 5 * SECOND
    here.run_until("08:33:10")
    assert here.ledger()[0] == "08:31 succeeded"


def test_an_occurrence_of_a_kept_job_that_grew_late_before_its_batch_was_fenced_is_reported_all_the_same():
    here = world(job("a", MINUTELY), job("b", MINUTELY))
    here.run_until("08:30:52")
    here.steal(bucket_of("b"))
    here.is_ledger_away = True
    here.run_until("08:32:52")
    here.is_ledger_away = False
    here.write()
    here.run_for(SECOND)
    assert here.ledger("a") == ["08:31 skipped missed", "08:32 skipped missed"]

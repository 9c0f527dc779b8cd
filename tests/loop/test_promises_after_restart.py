"""Promises that the loop once broke, about restarts, backfills, stops and time."""

from __future__ import annotations

import pytest

from evertick.loop.messages import (
    BackfillJob,
    CancelRun,
)
from evertick.model.instant import DAY, MINUTE, SECOND
from evertick.model.ledger import Batch, Request, RequestKind, bucket_of
from evertick.model.lifecycle import FAILED, RETRYING
from evertick.model.run import RunKey
from evertick.model.schedule import CronSpec, EverySpec
from tests.loop.harness import (
    FOREVER,
    HOURLY,
    SKIP,
    WAIT,
    Act,
    at,
    catching_up,
    job,
    parallel,
    retries,
    world,
)

MINUTELY = EverySpec(MINUTE)
at_once_or_later = pytest.mark.parametrize(
    "remembers_after_us",
    [pytest.param(0, id="the executor answers at once"), pytest.param(SECOND, id="the executor takes a second")],
)


def submit(here, request_id, kind):
    """Put a request into the ledger, as a command or the API does."""
    here.store.commit(Batch(by=request_id, requests=[Request(request_id, kind, "a", "{}", here.now)]))


# --- after a restart


def test_an_edit_of_the_schedule_does_not_make_a_run_forget_the_last_success():
    here = world(job())
    here.run_until("09:30")
    here.define(job("a", EverySpec(MINUTE)))
    here.run_until("09:31")
    assert [launch.previous_success_at for _, launch in here.launches] == [None, at("09:00")]


@at_once_or_later
def test_an_occurrence_entered_ahead_and_never_launched_runs_before_the_newer_ones_after_a_restart(remembers_after_us):
    here = world(job(**catching_up("all")))
    here.executor.remembers_after_us = remembers_after_us
    here.run_until("08:59:58")
    here.restart(after=150 * MINUTE)
    here.run_for(MINUTE)
    assert here.started() == ["09:00", "10:00", "11:00"]


@at_once_or_later
def test_after_a_restart_the_latest_missed_occurrence_is_the_one_that_runs(remembers_after_us):
    here = world(job(**catching_up("latest")))
    here.executor.remembers_after_us = remembers_after_us
    here.run_until("08:59:58")
    here.restart(after=150 * MINUTE)
    here.run_for(MINUTE)
    assert here.started() == ["11:00"]


@at_once_or_later
def test_those_behind_an_occurrence_that_is_too_late_after_a_restart_do_not_wait_for_the_next_one(remembers_after_us):
    here = world(job(**catching_up("all", max_delay_us=90 * MINUTE)))
    here.executor.remembers_after_us = remembers_after_us
    here.run_until("08:59:58")
    here.restart(after=150 * MINUTE)
    here.run_for(MINUTE)
    assert here.ledger() == [
        "09:00 skipped late",
        "10:00 succeeded catchup",
        "11:00 succeeded catchup",
    ]


def test_a_cancel_is_answered_only_when_a_crash_can_no_longer_undo_it():
    here = world(job())
    here.act("a", FOREVER)
    here.run_until("09:00:10")
    submit(here, "c", RequestKind.CANCEL)
    here.inbox.append(CancelRun("c", "a"))
    here.turn()
    here.executor.forget_what_is_coming()  # the process dies before the executor hears of it
    here.restart(after=SECOND)
    here.say(*[CancelRun(request.id, "a") for request in here.store.claim(None, 10)])
    here.run_for(10 * SECOND)
    assert here.ledger() == ["09:00 cancelled"]
    assert here.store.claim(None, 10) == []


@pytest.mark.parametrize("crash_at", [pytest.param("08:59:58", id="planned"), pytest.param("09:00", id="launching")])
def test_a_run_cancelled_while_the_executor_is_asked_about_it_is_not_started(crash_at):
    here = world(job())
    here.run_until("08:59:58")
    if crash_at == "09:00":
        here.stall(2 * SECOND)
        here.turn()
        assert here.ledger() == ["09:00 launching"]
        here.executor.attempts.clear()  # decided and written, and it never reached the executor
        here.executor.forget_what_is_coming()
        here.launches.clear()
    here.executor.remembers_after_us = 2 * SECOND
    here.restart(after=5 * SECOND)
    here.say(CancelRun("c", "a", RunKey("a", at("09:00"))))
    here.run_for(10 * SECOND)
    assert here.started() == []
    assert here.ledger() == ["09:00 cancelled"]


def test_a_retry_is_started_once_when_its_bucket_was_lost_and_came_back():
    here = world(job(retry=retries(3)))
    here.act("a", Act(state=FAILED), Act())
    here.run_until("09:00:10")
    assert here.line("09:00").state is RETRYING
    here.say(here.lost(bucket_of("a")))
    here.say(here.gain([bucket_of("a")]))
    here.run_until("09:05")
    assert here.started() == ["09:00", "09:00"]


def test_an_occurrence_entered_ahead_is_withdrawn_when_the_job_is_disabled_at_the_restart():
    here = world(job())
    here.run_until("08:59:57")
    here.restart(jobs=[job(enabled=False)])
    here.run_until("09:01")
    assert here.ledger() == []


def test_a_retry_is_not_launched_without_a_definition():
    here = world(job(retry=retries(3)))
    here.act("a", Act(state=FAILED))
    here.run_until("09:00:10")
    here.restart(jobs=[])
    here.run_until("09:05")
    assert [launch.job.schedules for _, launch in here.launches] == [(HOURLY,)]


def test_a_job_created_again_after_the_grace_is_new_although_its_last_run_still_goes():
    here = world(job("a", MINUTELY, **catching_up("all")))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    here.delete("a")
    here.run_until("08:41:10")
    here.define(job("a", MINUTELY, **catching_up("all")))
    here.act("a", Act())
    here.finish("a")
    here.run_for(50 * SECOND)
    assert here.started() == ["08:31", "08:42"]


# --- backfills


def test_a_backfill_keeps_its_own_lane_although_a_live_run_is_skipped_before_it_is_written():
    here = world(job("a", MINUTELY, overlap=SKIP))
    here.act("a", FOREVER)
    here.run_until("08:31:59")
    here.is_ledger_away = True
    here.say(BackfillJob("b", "a", [at("07:00"), at("07:01")], WAIT))
    here.run_until("08:32:01")  # the live occurrence finds the job busy
    here.is_ledger_away = False
    here.write()
    here.run_for(SECOND)
    assert here.started() == ["08:31", "07:00"]
    assert "07:01 waiting backfill" in here.ledger()


def test_a_backfill_that_was_written_and_not_started_keeps_its_own_rule_after_a_restart():
    here = world(job("a", overlap=SKIP))
    here.inbox.append(BackfillJob("b", "a", [at("07:00"), at("07:01"), at("07:02")], WAIT))
    here.turn()
    here.restart()
    here.run_for(MINUTE)
    assert here.ledger() == [f"{when} succeeded backfill" for when in ("07:00", "07:01", "07:02")]


def test_a_backfill_keeps_its_gap_between_starts_also_when_it_may_run_several_at_once():
    here = world(job("a"))
    here.say(BackfillJob("b", "a", [at("07:00"), at("07:01"), at("07:02")], parallel(3), gap_us=10 * SECOND))
    here.run_for(MINUTE)
    starts = [when for when, _ in here.launches]
    assert [later - starts[0] for later in starts] == [0, 10 * SECOND, 20 * SECOND]


# --- stop, restart, replace, cancel


def test_a_restart_schedule_starts_again_although_the_old_run_takes_time_to_end():
    here = world(job("a", restarts=(CronSpec("30 * * * *", "UTC"),)))
    here.act("a", Act(lasts_us=None, stop_takes_us=5 * SECOND), Act())
    here.run_until("09:31")
    assert here.ledger() == ["09:00 cancelled", "09:30 succeeded"]


def test_a_stop_schedule_ends_a_run_between_two_attempts():
    here = world(job("a", stops=(CronSpec("1 9 * * *", "UTC"),), retry=retries(3, delay_us=5 * MINUTE)))
    here.act("a", Act(state=FAILED), Act())
    here.run_until("09:10")
    assert here.ledger() == ["09:00 cancelled"]


def test_an_occurrence_that_waited_beyond_its_window_is_skipped_as_late():
    here = world(job("a", MINUTELY, overlap=WAIT, max_delay_us=2 * MINUTE))
    here.act("a", Act(lasts_us=10 * MINUTE), Act())
    here.run_until("08:41:30")
    assert "08:32 skipped late" in here.ledger()


# --- time


def test_a_clock_set_forward_does_not_declare_living_runs_lost():
    here = world(job())
    here.act("a", Act(lasts_us=MINUTE, lease_us=30 * SECOND, beat_us=10 * SECOND))
    here.run_until("09:00:15")
    here.jump(DAY // 2)
    here.run_for(2 * MINUTE)
    assert here.events("run.lost") == []
    assert here.ledger()[0] == "09:00 succeeded"


@pytest.mark.parametrize("is_restarted", [False, True], ids=["by the same process", "by the next one"])
@pytest.mark.parametrize(
    ("acts", "previous"),
    [
        pytest.param((Act(),), "08:32", id="which was the run before"),
        pytest.param((Act(), Act(state=FAILED)), "08:31", id="which was before a failure"),
    ],
)
def test_a_run_receives_the_last_success(acts, previous, is_restarted):
    here = world(job("a", MINUTELY))
    here.act("a", *acts)
    here.run_until("08:32:10")
    if is_restarted:
        here.restart(after=SECOND)
    here.run_until("08:33:10")
    assert here.launches[-1][1].previous_success_at == at(previous)

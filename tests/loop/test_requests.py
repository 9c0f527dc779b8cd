"""Requests are executed once, answered, and remembered."""

from __future__ import annotations

import pytest

from evertick.loop.messages import (
    BackfillJob,
    CancelRun,
    PauseJob,
    ResumeJob,
    TriggerJob,
)
from evertick.model.answer import SUPERSEDED, Answer, Refusal, read_answer
from evertick.model.instant import MINUTE, SECOND
from evertick.model.ledger import Batch, Request, RequestKind
from evertick.model.lifecycle import FAILED, Trigger
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from evertick.operations.requests import message_of, resume_request
from evertick.operations.submission import answer_to, submit
from tests.loop.harness import FOREVER, SKIP, WAIT, Act, at, clock_of, job, parallel, retries, world

MINUTELY = EverySpec(MINUTE)
THREE = [at("07:00"), at("07:01"), at("07:02")]


def asked(here, request_id, kind=RequestKind.TRIGGER):
    """Put a request into the ledger, as a command or the API does."""
    here.store.commit(Batch(by=request_id, requests=[Request(request_id, kind, "a", "{}", here.now)]))


def answer_of(here, request_id):
    (found,) = here.store.requests([request_id])
    return None if found.answer is None else read_answer(found.answer)


# --- runs on request


def test_a_run_is_started_with_its_parameters_and_answered_with_its_id():
    here = world(job())
    asked(here, "r1")
    here.say(TriggerJob("r1", "a", here.now, Trigger.API, params='{"day": 1}'))
    here.run_for(10 * SECOND)
    assert here.launches[0][1].params == '{"day": 1}'
    assert here.ledger() == ["08:30 succeeded api"]
    assert answer_of(here, "r1") == Answer(run_id="a@2026-03-02T08:30:00Z~r1")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_run_asked_for_by_a_clock_that_is_ahead_starts_at_once(is_restarted):
    here = world(job())
    here.is_ledger_away = is_restarted
    here.say(TriggerJob("r1", "a", here.now + 10 * MINUTE))
    if is_restarted:
        here.write(batches=1)
        here.is_ledger_away = False
        here.restart()
    here.run_for(SECOND)
    assert here.started() == ["08:40"]


def test_a_request_claimed_twice_is_executed_once():
    here = world(job(overlap=parallel(9)))
    request = TriggerJob("r1", "a", here.now)
    here.say(request, request)
    here.run_for(SECOND)
    here.say(request)
    here.run_for(SECOND)
    assert len(here.launches) == 1


def test_a_request_claimed_again_after_a_restart_is_executed_once():
    here = world(job(overlap=parallel(9)))
    request = TriggerJob("r1", "a", here.now)
    here.say(request)
    here.run_for(5 * SECOND)
    here.restart(after=SECOND)
    here.say(request)
    here.run_for(5 * SECOND)
    assert len(here.launches) == 1
    assert here.forgotten() == []


def test_a_request_is_answered_in_the_same_transaction_as_what_it_asked_for():
    here = world(job())
    asked(here, "r1")
    here.is_ledger_away = True
    here.trigger("a", "r1")
    assert answer_of(here, "r1") is None
    assert here.ledger() == []
    here.write(batches=1)
    assert answer_of(here, "r1") is not None
    assert here.ledger() == ["08:30 planned manual"]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(TriggerJob("r", "nobody", 0), id="a run"),
        pytest.param(CancelRun("r", "nobody"), id="a cancellation"),
        pytest.param(PauseJob("r", "nobody"), id="a pause"),
        pytest.param(BackfillJob("r", "nobody", [], SKIP), id="a backfill"),
    ],
)
def test_a_request_about_a_job_that_is_not_there_is_answered_so(message):
    here = world(job())
    here.say(message)
    answer = here.answer("r")
    assert answer.refusal is Refusal.NOT_FOUND
    assert "nobody" in answer.text


# --- cancelling


def cancel(here, when=None, name="a"):
    request_id = f"c{len(here.turns)}"
    here.say(CancelRun(request_id, name, None if when is None else RunKey(name, at(when)), by="ann"))
    return here.answer(request_id)


def test_an_occurrence_that_has_not_come_is_cancelled_alone():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:57")
    cancel(here, "08:31")
    here.run_until("08:32:10")
    assert here.ledger() == ["08:31 cancelled", "08:32 succeeded"]


def test_a_waiting_run_is_cancelled_at_once():
    here = world(job("a", MINUTELY, overlap=WAIT))
    here.act("a", FOREVER)
    here.run_until("08:32:10")
    cancel(here, "08:32")
    assert here.ledger() == ["08:31 running", "08:32 cancelled"]
    assert "cancelled by ann" in here.line("08:32").detail


def test_a_running_run_is_cancelled_when_it_has_really_ended():
    here = world(job())
    here.act("a", Act(lasts_us=None, stop_takes_us=5 * SECOND))
    here.run_until("09:00:10")
    assert cancel(here, "09:00") == Answer(cancelled=("a@2026-03-02T09:00:00Z",))
    here.run_until("09:00:14")
    assert here.ledger() == ["09:00 running"]
    here.run_until("09:00:16")
    assert here.ledger() == ["09:00 cancelled"]


@pytest.mark.parametrize("away_us", [SECOND, 10 * MINUTE], ids=["within its grace", "after it"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["by the same process", "by the next one"])
@pytest.mark.parametrize("when", ["09:00", None], ids=["by its id", "by its job"])
def test_an_active_run_of_a_deleted_job_can_be_cancelled(when, is_restarted, away_us):
    here = world(job())
    here.act("a", FOREVER)
    here.run_until("09:00:10")
    here.delete("a")
    here.run_for(away_us)
    if is_restarted:
        here.restart(after=SECOND)
    assert cancel(here, when) == Answer(cancelled=("a@2026-03-02T09:00:00Z",))
    here.run_for(10 * SECOND)
    assert here.ledger() == ["09:00 cancelled"]


def test_a_run_between_two_attempts_is_cancelled_at_once_and_those_behind_it_continue():
    here = world(job("a", MINUTELY, overlap=WAIT, retry=retries(5, delay_us=10 * MINUTE)))
    here.act("a", Act(state=FAILED), Act())
    here.run_until("08:32:10")
    cancel(here, "08:31")
    here.run_for(5 * SECOND)
    assert here.ledger() == ["08:31 cancelled", "08:32 succeeded"]


def test_cancelling_a_job_cancels_all_that_is_open_of_it_and_nothing_to_come():
    here = world(job("a", MINUTELY, overlap=WAIT))
    here.act("a", FOREVER)
    here.run_until("08:32:57")
    cancel(here)
    here.act("a", Act())
    here.run_until("08:33:10")
    assert here.ledger() == ["08:31 cancelled", "08:32 cancelled", "08:33 succeeded"]


def test_a_second_cancel_is_harmless():
    here = world(job())
    here.act("a", Act(lasts_us=None, stop_takes_us=5 * SECOND))
    here.run_until("09:00:10")
    first, second = cancel(here, "09:00"), cancel(here, "09:00")
    here.run_until("09:01")
    assert first == second
    assert len(here.stops) == 1
    assert here.ledger() == ["09:00 cancelled"]


def test_cancelling_an_ended_run_reports_it():
    here = world(job())
    here.run_until("09:00:10")
    assert cancel(here, "09:00").refusal is Refusal.CONFLICT
    assert here.ledger() == ["09:00 succeeded"]


def test_a_run_that_succeeds_before_it_can_be_stopped_has_succeeded():
    here = world(job())
    here.act("a", Act(lasts_us=12 * SECOND, stop_takes_us=5 * SECOND))
    here.run_until("09:00:10")
    cancel(here, "09:00")
    here.run_until("09:01")
    assert here.ledger() == ["09:00 succeeded"]


def test_a_cancelled_run_that_fails_is_cancelled_and_not_retried():
    here = world(job(retry=retries(3)))
    here.act("a", Act(lasts_us=12 * SECOND, state=FAILED, stop_takes_us=MINUTE))
    here.run_until("09:00:10")
    cancel(here, "09:00")
    here.run_until("09:05")
    assert here.ledger() == ["09:00 cancelled"]


# --- backfills


def test_a_backfill_goes_beside_the_live_runs_under_its_own_rule():
    here = world(job("a", MINUTELY, overlap=SKIP))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    here.act("a", Act(lasts_us=10 * SECOND))
    here.say(BackfillJob("b", "a", THREE, WAIT))
    here.run_for(40 * SECOND)
    assert here.ledger() == [*(f"{clock_of(one)} succeeded backfill" for one in THREE), "08:31 running"]


def test_a_live_occurrence_does_not_wait_for_a_backfill():
    here = world(job("a", MINUTELY, overlap=SKIP))
    here.act("a", FOREVER, Act())
    here.say(BackfillJob("b", "a", THREE[:1], WAIT))
    here.run_until("08:31:10")
    assert here.ledger() == ["07:00 running backfill", "08:31 succeeded"]


def test_a_parallel_backfill_runs_as_many_at_once_as_allowed():
    here = world(job())
    here.act("a", Act(lasts_us=10 * SECOND))
    here.say(BackfillJob("b", "a", THREE, parallel(2)))
    here.run_for(15 * SECOND)
    assert here.most_at_once() == 2
    assert here.started() == ["07:00", "07:01", "07:02"]


def test_a_backfill_one_at_a_time_keeps_its_gap_between_starts():
    here = world(job())
    here.say(BackfillJob("b", "a", THREE, WAIT, gap_us=10 * SECOND))
    here.run_for(MINUTE)
    assert [clock_of(when) for when, _ in here.launches] == ["08:30", "08:30:10", "08:30:20"]


def test_a_backfill_under_way_survives_a_restart_with_its_rule():
    here = world(job())
    here.act("a", Act(lasts_us=10 * SECOND))
    here.say(BackfillJob("b", "a", THREE, WAIT))
    here.run_for(5 * SECOND)
    here.restart(after=SECOND)
    here.run_for(MINUTE)
    assert here.started() == ["07:00", "07:01", "07:02"]
    assert here.ledger() == [f"{clock_of(one)} succeeded backfill" for one in THREE]
    assert here.most_at_once() == 1


def test_a_backfill_may_run_an_instant_that_was_run_before():
    here = world(job("a", MINUTELY))
    here.run_until("08:31:10")
    here.say(BackfillJob("b", "a", [at("08:31")], WAIT))
    here.run_for(10 * SECOND)
    assert here.ledger() == ["08:31 succeeded", "08:31 succeeded backfill"]


def test_a_backfill_can_be_cancelled():
    here = world(job())
    here.act("a", FOREVER)
    here.say(BackfillJob("b", "a", THREE, WAIT))
    here.run_for(SECOND)
    cancel(here)
    here.run_for(SECOND)
    assert here.ledger() == [f"{clock_of(one)} cancelled backfill" for one in THREE]


def test_statistics_count_what_was_done():
    here = world(job("a", MINUTELY, overlap=SKIP))
    here.act("a", Act(lasts_us=70 * SECOND))
    here.run_until("08:34:30")
    statistics = here.state.statistics
    assert (statistics.entered, statistics.launched) == (4, 2)
    assert statistics.ended == {"succeeded": 2}
    assert statistics.skipped == {"overlap": 2}


def test_a_resume_of_a_job_that_is_not_paused_answers_that_nothing_was_done():
    here = world(job("a"))
    here.run_until("08:45")
    submit(here.store, resume_request("r", "a", here.now))
    here.say(*map(message_of, here.store.claim(None, 10)))
    here.run_for(SECOND)
    assert answer_to(here.store, "r") == Answer(is_resumed=False)


# --- a pause and a resume that arrive in the wrong order


@pytest.mark.parametrize("was_paused", [True, False], ids=["the job was paused", "the job was not paused"])
@pytest.mark.parametrize("is_other_owner", [True, False], ids=["another owner", "the same owner"])
def test_a_pause_that_reaches_the_ledger_after_a_newer_resume_is_not_executed(was_paused, is_other_owner):
    here = world(job())
    if was_paused:
        asked(here, "first", RequestKind.PAUSE)
        here.say(PauseJob("first", "a", submitted_at=at("08:31")))
    asked(here, "newer", RequestKind.RESUME)
    here.run_until("08:35")
    here.say(ResumeJob("newer", "a", submitted_at=at("08:34")))
    here.run_for(SECOND)
    assert answer_of(here, "newer") == Answer(is_resumed=was_paused)
    if is_other_owner:
        here.restart(after=SECOND)
    asked(here, "older", RequestKind.PAUSE)
    older = PauseJob("older", "a", submitted_at=at("08:33"))
    here.say(older)
    here.say(older)
    assert answer_of(here, "older") == SUPERSEDED
    here.run_until("09:00:10")
    assert here.ledger() == ["09:00 succeeded"]


def test_a_resume_that_reaches_the_ledger_after_a_newer_pause_is_not_executed():
    here = world(job())
    here.run_until("08:35")
    asked(here, "newer", RequestKind.PAUSE)
    here.say(PauseJob("newer", "a", submitted_at=at("08:34")))
    here.restart(after=SECOND)
    asked(here, "older", RequestKind.RESUME)
    here.say(ResumeJob("older", "a", submitted_at=at("08:33")))
    assert answer_of(here, "older") == SUPERSEDED
    here.run_until("09:00:10")
    assert here.ledger() == []


def test_a_clock_set_back_during_a_downtime_does_not_prevent_a_pause():
    here = world(job())
    asked(here, "newer", RequestKind.RESUME)
    here.say(ResumeJob("newer", "a", submitted_at=here.now))
    here.crash()
    here.jump(-10 * MINUTE)
    here.begin()
    here.run_for(SECOND)
    asked(here, "pause", RequestKind.PAUSE)
    here.say(PauseJob("pause", "a", submitted_at=here.now))
    assert answer_of(here, "pause").paused_at is not None

"""Late reports of an executor about an attempt whose number was used again."""

from __future__ import annotations

import json

import pytest

from evertick.loop.effects import Reconcile
from evertick.loop.messages import (
    LaunchRefused,
    RunFinished,
    RunStarted,
    RunUnknown,
    TimePassed,
)
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.ledger import Batch, Request, RequestKind
from evertick.model.lifecycle import LAUNCHING, LOST, SUCCEEDED
from evertick.model.loss import LossReason
from evertick.model.report import AttemptQuestion
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from evertick.settings.parts import LoopSettings
from tests.present import present
from tests.simulator.loop_driver import NINE, LoopDriver

OTHER = Job("other", schedules=(EverySpec(HOUR),))
TEN = RunKey("other", NINE + HOUR)


def launched_again() -> LoopDriver:
    """A run that was launched because its executor did not know of an attempt under the same number."""
    driver = LoopDriver(OTHER)
    driver.own()
    driver.run_until(TEN.scheduled_for - SECOND, MINUTE)
    successor = LoopDriver(OTHER, store=driver.store, node="b", now=TEN.scheduled_for + SECOND)
    successor.own()
    successor.write()
    successor.say(RunUnknown(TEN, 1))
    successor.write()
    assert successor.launched == [(TEN, 1)]
    successor.effects.clear()
    return successor


def test_a_late_answer_about_an_attempt_that_was_launched_since_is_not_believed():
    driver = launched_again()
    driver.say(RunUnknown(TEN, 1))
    driver.write()
    run = present(driver.state.jobs["other"].active_run(TEN))
    assert driver.effects == [Reconcile([AttemptQuestion(TEN, 1, run.executor, run.fence)])]
    assert present(driver.state.jobs["other"].active_run(TEN)).state is LAUNCHING
    driver.say(RunStarted(TEN, 1, driver.now, "local@b"))
    driver.run_until(driver.now + 5 * SECOND)
    assert driver.launched == []


def test_a_refusal_that_is_delivered_twice_does_not_refuse_the_next_launch_of_its_attempt():
    driver = LoopDriver(OTHER)
    driver.own()
    driver.run_until(TEN.scheduled_for, MINUTE)
    run = present(driver.state.jobs["other"].active_run(TEN))
    refused = LaunchRefused(TEN, 1, "full", run.fence)
    driver.say(refused)
    driver.run_until(driver.now + 5 * SECOND)
    assert driver.launched == [(TEN, 1)] * 2
    assert run.fence > present(refused.fence)
    driver.say(refused)  # its start is reported late
    driver.run_until(driver.now + 5 * SECOND)
    assert run.state is LAUNCHING
    driver.say(LaunchRefused(TEN, 1, "full", run.fence))
    driver.run_until(driver.now + 5 * SECOND)
    assert driver.launched == [(TEN, 1)] * 3


def test_an_attempt_that_its_executor_has_lost_on_the_way_is_launched_again():
    driver = launched_again()
    driver.say(RunUnknown(TEN, 1))  # unasked: it is asked, to be sure
    driver.say(RunUnknown(TEN, 1))
    driver.write()
    assert driver.launched == [(TEN, 1)]


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(LaunchRefused(TEN, 1, "full"), id="not taken"),
        pytest.param(RunUnknown(TEN, 1), id="unknown"),
    ],
)
def test_a_run_that_another_owner_continues_is_not_lost_by_a_late_answer(late):
    driver = LoopDriver(OTHER)
    driver.own()
    driver.run_until(TEN.scheduled_for, MINUTE)
    driver.say(RunStarted(TEN, 1, driver.now, "local@a"))
    driver.write()
    driver.say(driver.lost())
    driver.say(late)
    driver.write()
    assert not driver.store.claim(None, 10)
    driver.say(RunFinished(TEN, 1, driver.now, SUCCEEDED))
    driver.write()
    (report,) = driver.store.claim(None, 10)
    assert report.kind is RequestKind.REPORT


def test_what_was_late_by_a_clock_that_was_ahead_is_started_when_its_time_has_come_again():
    ahead = LoopSettings(preread_us=3 * HOUR)
    first = LoopDriver(OTHER, settings=ahead)
    first.own()
    first.write()
    eleven = RunKey("other", NINE + 2 * HOUR)
    driver = LoopDriver(OTHER, store=first.store, node="b", now=eleven.scheduled_for + MINUTE, settings=ahead)
    driver.say(TimePassed(HOUR))
    driver.own()
    driver.write()
    driver.say(RunUnknown(TEN, 1))  # late, and the rest of its job is not known yet
    driver.say(TimePassed(HOUR + SECOND), RunUnknown(eleven, 1), after_us=NINE + 30 * MINUTE - driver.now)
    driver.write()
    driver.run_until(TEN.scheduled_for + 2 * SECOND)
    assert driver.launched == [(TEN, 1)]


def test_a_late_start_report_does_not_answer_a_later_question():
    """The executor is asked behind the reports of other nodes; until then a word from before the end may arrive."""
    before = LoopDriver(OTHER)
    before.own()
    before.run_until(TEN.scheduled_for, MINUTE)
    before.say(RunStarted(TEN, 1, before.now, "local@a"))
    before.write()
    driver = LoopDriver(OTHER, store=before.store, now=before.now + SECOND)
    driver.own_as_one_of_several("other")
    driver.say(RunStarted(TEN, 1, before.now, "local@a"))
    driver.write()
    assert [one.key for effect in driver.effects if isinstance(effect, Reconcile) for one in effect.runs] == [TEN]
    driver.say(RunUnknown(TEN, 1))
    assert driver.state.jobs["other"].active_run(TEN) is not None
    assert present(driver.state.jobs["other"].active_run(TEN)).losses == 1


def test_a_report_from_before_a_launch_is_answered_with_it():
    """The node gave the job away and said that it had not started the run. Then it owned the job again, and launched it
    under the same number: if it dies at once, the next owner must not take that for news of the new attempt."""
    before = LoopDriver(OTHER)
    before.own()
    before.run_until(TEN.scheduled_for, MINUTE)
    before.write()
    payload = {"run_id": TEN.run_id, "attempt": 1, "at": before.now, "state": LOST, "exit_code": None, "detail": ""}
    report = json.dumps(payload | {"loss": LossReason.NOT_STARTED, "node": "a"})
    before.store.commit(Batch(by="a/0#1", requests=[Request("1", RequestKind.REPORT, "other", report, before.now)]))
    driver = LoopDriver(OTHER, store=before.store, now=before.now + SECOND)
    driver.own_as_one_of_several("other")
    driver.write()
    assert driver.store.claim(None, 10)  # the executor has not answered: the next owner may need it
    driver.say(RunUnknown(TEN, 1))
    driver.write()
    assert driver.launched == [(TEN, 1)]
    assert not driver.store.claim(None, 10)

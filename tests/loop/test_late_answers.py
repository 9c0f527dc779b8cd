"""What an executor says late of an attempt whose number was used again."""

from __future__ import annotations

import pytest

from evertick.loop.effects import Reconcile
from evertick.loop.messages import LaunchRefused, RunFinished, RunStarted, RunUnknown, TimePassed
from evertick.loop.settings import LoopSettings
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.ledger import RequestKind
from evertick.model.lifecycle import LAUNCHING, SUCCEEDED
from evertick.model.report import AttemptQuestion
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from tests.present import present
from tests.simulator.desk import NINE, Desk

OTHER = Job("other", schedules=(EverySpec(HOUR),))
TEN = RunKey("other", NINE + HOUR)


def launched_again() -> Desk:
    """A run that was launched because its executor did not know of an attempt under the same number."""
    desk = Desk(OTHER)
    desk.own()
    desk.run_until(TEN.scheduled_for - SECOND, MINUTE)
    successor = Desk(OTHER, store=desk.store, node="b", now=TEN.scheduled_for + SECOND)
    successor.own()
    successor.write()
    successor.say(RunUnknown(TEN, 1))
    successor.write()
    assert successor.launched == [(TEN, 1)]
    successor.effects.clear()
    return successor


def test_a_late_answer_about_an_attempt_that_was_launched_since_is_not_believed():
    desk = launched_again()
    desk.say(RunUnknown(TEN, 1))
    desk.write()
    run = present(desk.state.jobs["other"].active_run(TEN))
    assert desk.effects == [Reconcile([AttemptQuestion(TEN, 1, run.executor, run.fence)])]
    assert present(desk.state.jobs["other"].active_run(TEN)).state is LAUNCHING
    desk.say(RunStarted(TEN, 1, desk.now, "local@b"))
    desk.run_until(desk.now + 5 * SECOND)
    assert desk.launched == []


def test_an_attempt_that_its_executor_has_lost_on_the_way_is_launched_again():
    desk = launched_again()
    desk.say(RunUnknown(TEN, 1))  # unasked: it is asked, to be sure
    desk.say(RunUnknown(TEN, 1))
    desk.write()
    assert desk.launched == [(TEN, 1)]


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(LaunchRefused(TEN, 1, "full"), id="not taken"),
        pytest.param(RunUnknown(TEN, 1), id="unknown"),
    ],
)
def test_a_run_that_goes_on_for_another_owner_is_not_reported_as_lost_by_a_late_answer(late):
    desk = Desk(OTHER)
    desk.own()
    desk.run_until(TEN.scheduled_for, MINUTE)
    desk.say(RunStarted(TEN, 1, desk.now, "local@a"))
    desk.write()
    desk.say(desk.lost())
    desk.say(late)
    desk.write()
    assert not desk.store.claim(None, 10)
    desk.say(RunFinished(TEN, 1, desk.now, SUCCEEDED))
    desk.write()
    (report,) = desk.store.claim(None, 10)
    assert report.kind is RequestKind.REPORT


def test_what_was_late_by_a_clock_that_was_ahead_is_started_when_its_time_has_come_again():
    ahead = LoopSettings(preread_us=3 * HOUR)
    first = Desk(OTHER, settings=ahead)
    first.own()
    first.write()
    eleven = RunKey("other", NINE + 2 * HOUR)
    desk = Desk(OTHER, store=first.store, node="b", now=eleven.scheduled_for + MINUTE, settings=ahead)
    desk.say(TimePassed(HOUR))
    desk.own()
    desk.write()
    desk.say(RunUnknown(TEN, 1))  # late, and the rest of its job is not known yet
    desk.say(TimePassed(HOUR + SECOND), RunUnknown(eleven, 1), after_us=NINE + 30 * MINUTE - desk.now)
    desk.write()
    desk.run_until(TEN.scheduled_for + 2 * SECOND)
    assert desk.launched == [(TEN, 1)]


def test_a_start_that_is_said_late_does_not_answer_a_question_that_was_not_asked_yet():
    """The executor is asked behind the reports of other nodes; until then a word from before the end may arrive."""
    before = Desk(OTHER)
    before.own()
    before.run_until(TEN.scheduled_for, MINUTE)
    before.say(RunStarted(TEN, 1, before.now, "local@a"))
    before.write()
    desk = Desk(OTHER, store=before.store, now=before.now + SECOND)
    desk.own_as_one_of_several("other")
    desk.say(RunStarted(TEN, 1, before.now, "local@a"))
    desk.write()
    assert [one.key for effect in desk.effects if isinstance(effect, Reconcile) for one in effect.runs] == [TEN]
    desk.say(RunUnknown(TEN, 1))
    assert desk.state.jobs["other"].active_run(TEN) is not None
    assert present(desk.state.jobs["other"].active_run(TEN)).losses == 1

"""What an executor says late of an attempt whose number was used again."""

from __future__ import annotations

from evertick.loop.effects import Reconcile
from evertick.loop.messages import RunStarted, RunUnknown
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import LAUNCHING
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from tests.simulator.desk import NINE, Desk

OTHER = Job("other", schedules=(EverySpec(HOUR),))


def launched_again() -> tuple[Desk, RunKey]:
    """A run that was launched because its executor did not know of an attempt under the same number."""
    ten = RunKey("other", NINE + HOUR)
    desk = Desk(OTHER)
    desk.own()
    desk.run_until(ten.scheduled_for - SECOND, MINUTE)
    successor = Desk(OTHER, store=desk.store, node="b", now=ten.scheduled_for + SECOND)
    successor.own()
    successor.write()
    successor.say(RunUnknown(ten, 1))
    successor.write()
    assert successor.launched == [(ten, 1)]
    successor.effects.clear()
    return successor, ten


def test_a_late_answer_about_an_attempt_that_was_launched_since_is_not_believed():
    desk, ten = launched_again()
    desk.say(RunUnknown(ten, 1))
    desk.write()
    assert desk.effects == [Reconcile([(ten, 1, desk.state.jobs["other"].active_run(ten).executor)])]
    assert desk.state.jobs["other"].active_run(ten).state is LAUNCHING
    desk.say(RunStarted(ten, 1, desk.now, "local@b"))
    desk.run_until(desk.now + 5 * SECOND)
    assert desk.launched == []


def test_an_attempt_that_its_executor_has_lost_on_the_way_is_launched_again():
    desk, ten = launched_again()
    desk.say(RunUnknown(ten, 1))  # unasked: it is asked, to be sure
    desk.say(RunUnknown(ten, 1))
    desk.write()
    assert desk.launched == [(ten, 1)]

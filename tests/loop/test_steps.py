"""Does the ledger have the states of a run's steps while it runs, when it ends, and when its job moves?"""

from __future__ import annotations

from evertick.loop.messages import RunFinished, RunLost, StepsSeen
from evertick.model.lifecycle import FAILED, SUCCEEDED
from evertick.model.run import RunKey
from tests.loop.harness import FOREVER, at, job, retries, world

FIRST, SECOND, THIRD = (f'[{{"name":"a","state":"{word}"}}]' for word in ("running", "failed", "succeeded"))
KEY = RunKey("a", at("09:00"))


def started(*jobs):
    here = world(*jobs)
    here.act("a", FOREVER)
    here.run_until("09:00:01")
    return here


def steps(here) -> str:
    return next(row.steps for row in here.rows() if row.key == KEY)


def test_steps_are_in_the_ledger_during_the_run():
    here = started(job())
    here.say(StepsSeen(KEY, 1, FIRST))
    assert steps(here) == FIRST


def test_the_end_brings_the_last_word_about_the_steps():
    here = started(job())
    here.say(StepsSeen(KEY, 1, FIRST))
    here.say(RunFinished(KEY, 1, here.now, SUCCEEDED, 0, "", THIRD))
    assert steps(here) == THIRD


def test_an_end_without_steps_leaves_them_unchanged():
    here = started(job())
    here.say(StepsSeen(KEY, 1, FIRST), RunFinished(KEY, 1, here.now, SUCCEEDED, 0))
    assert steps(here) == FIRST


def test_the_steps_of_a_failed_attempt_stay_until_the_next_reports_steps():
    here = started(job(retry=retries(1)))
    here.say(RunFinished(KEY, 1, here.now, FAILED, 1, "no", SECOND))
    assert steps(here) == SECOND


def test_a_lost_attempt_keeps_what_was_known_of_its_steps():
    here = started(job())
    here.say(RunLost(KEY, 1, "gone", SECOND))
    assert steps(here) == SECOND


def test_steps_of_another_attempt_are_refused():
    here = started(job())
    here.say(StepsSeen(KEY, 2, FIRST))
    assert steps(here) == ""


def test_steps_are_known_after_a_restart():
    here = started(job())
    here.say(StepsSeen(KEY, 1, FIRST))
    here.restart()
    assert here.state.jobs["a"].active_run(KEY).steps == FIRST

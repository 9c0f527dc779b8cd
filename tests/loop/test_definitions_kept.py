"""Does the ledger have the definition of each attempt, and the outcomes of earlier attempts?"""

from __future__ import annotations

from dataclasses import replace

from evertick.loop.messages import RunFinished, RunLost, StepsSeen
from evertick.model.attempts import read_attempts
from evertick.model.definition import definition_digest, definition_text
from evertick.model.instant import HOUR
from evertick.model.lifecycle import FAILED
from evertick.model.run import RunKey
from tests.loop.harness import FOREVER, Act, at, job, retries, world
from tests.present import present

NINE = RunKey("a", at("09:00"))


def written(description="", **known):
    """A job as a file defines it: with a digest."""
    one = replace(job(**known), description=description)
    return replace(one, definition=definition_digest(one))


OLD, NEW = written("old"), written("new")


def kept(here, one):
    return here.store.definition(one.id, one.definition)


def test_a_run_names_what_its_job_was():
    here = world(OLD)
    here.run_until("09:00:05")
    assert here.line("09:00").definition == OLD.definition
    assert kept(here, OLD) == definition_text(OLD)


def test_after_an_edit_the_next_run_names_the_new_one_and_the_last_still_the_old():
    here = world(OLD)
    here.run_until("09:30")
    here.define(NEW)
    here.run_until("10:00:05")
    assert [here.line(time).definition for time in ("09:00", "10:00")] == [OLD.definition, NEW.definition]
    assert (kept(here, OLD), kept(here, NEW)) == (definition_text(OLD), definition_text(NEW))


def test_a_retry_after_an_edit_runs_and_names_the_new_one():
    old, new = (written(word, retry=retries(1)) for word in ("old", "new"))
    here = world(old)
    here.act("a", Act(state=FAILED), Act())
    here.run_until("09:00:30")
    here.define(new)
    here.run_until("09:30")
    line = here.line("09:00")
    assert line.definition == new.definition
    assert [one.definition for one in read_attempts(line.earlier)] == [old.definition]


def test_a_restart_writes_nothing_that_the_ledger_has():
    here = world(OLD)
    here.run_until("09:30")
    before = here.store.contents().definitions
    here.restart(after=HOUR)
    here.run_until("11:30")
    assert here.store.contents().definitions == before


def test_an_edit_during_a_downtime_is_reported_at_the_start():
    here = world(OLD)
    here.run_until("09:30")
    here.restart(after=HOUR, jobs=[NEW])
    here.run_until("11:00:05")
    assert here.line("11:00").definition == NEW.definition
    assert kept(here, NEW) == definition_text(NEW)


def test_a_job_that_no_file_defines_has_none():
    here = world(job())
    here.run_until("09:00:05")
    assert (here.line("09:00").definition, here.store.contents().definitions) == ("", ())


def test_the_result_of_an_attempt_is_kept_when_the_next_one_runs():
    here = world(job(retry=retries(2)))
    here.act("a", FOREVER)
    here.run_until("09:00:01")
    steps = '[{"name":"fetch","state":"failed","started_at":5,"finished_at":9}]'
    here.say(StepsSeen(NINE, 1, steps))
    here.say(RunFinished(NINE, 1, here.now, FAILED, 7, "no", steps))
    here.run_until("09:02:00")
    here.say(RunLost(NINE, 2, "gone"))
    first, second = read_attempts(here.line("09:00").earlier)
    assert (first.attempt, first.state, first.exit_code, first.detail) == (1, "failed", 7, "no")
    assert [(step.name, step.started_at, step.finished_at) for step in first.steps] == [("fetch", 5, 9)]
    assert (second.attempt, second.state, second.detail, second.steps) == (2, "lost", "gone", ())
    assert present(second.started_at) > present(first.finished_at)


def test_earlier_attempts_survive_a_restart():
    here = world(job(retry=retries(3)))
    here.act("a", Act(state=FAILED))
    here.run_until("09:00:30")
    here.restart()
    here.run_until("09:30")
    assert [one.attempt for one in read_attempts(here.line("09:00").earlier)] == [1, 2, 3]

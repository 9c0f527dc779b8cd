"""Does `top` say what waiting runs wait for, and which steps run?"""

from __future__ import annotations

from dataclasses import replace

from evertick.cli.overview import tables_of
from evertick.cli.tables import plain_table
from evertick.loop.messages import StepsSeen
from evertick.model.instant import MINUTE
from evertick.model.job import After
from evertick.model.run import RunKey
from evertick.model.steps import StepRecord, steps_text
from evertick.model.work import Command, Step, Work
from evertick.operations.context import folder_of
from evertick.operations.local import LocalOperations
from evertick.settings.parts import LoopSettings
from tests.loop.harness import Act, at, job, world


def test_a_waiting_run_shows_what_it_waits_for_and_a_running_one_its_step():
    jobs = [replace(job(name), queue="db", priority=5 if name == "a" else 0) for name in ("a", "b")]
    here = world(*jobs, replace(job("c"), after=After(("a",))), settings=LoopSettings(queues=(("db", 1),)))
    here.act("a", Act(lasts_us=30 * MINUTE))
    here.run_until("09:00:10")
    here.say(StepsSeen(RunKey("a", at("09:00")), 1, steps_text([StepRecord("extract", "running", 1)])))
    here.run_until("09:05")
    operations = LocalOperations(
        here.store, lambda: folder_of(here.jobs), now=lambda: here.now, is_scheduler_running=lambda: True
    )
    running, waiting = (plain_table(table) for table in tables_of(operations.overview(), 8)[:2])
    assert "STEP" in running
    assert "extract" in running
    assert "WAITS FOR" in waiting
    assert "queue db: a@2026-03-02T09:00:00Z" in waiting
    assert "success of a" in waiting


def test_the_only_step_of_a_job_is_the_one_that_runs():
    """Of such a run nothing is said about its steps before its end."""
    here = world(replace(job("a"), work=Work((Step("load", Command(("x",))),))))
    here.act("a", Act(lasts_us=30 * MINUTE))
    here.run_until("09:05")
    operations = LocalOperations(
        here.store, lambda: folder_of(here.jobs), now=lambda: here.now, is_scheduler_running=lambda: True
    )
    assert "load" in plain_table(tables_of(operations.overview(), 8)[0])

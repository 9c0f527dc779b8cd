"""Defects of the loop that were found and mended; each test is named after what must hold."""

from __future__ import annotations

from evertick.loop.job_state import Hold
from evertick.loop.messages import (
    PauseJob,
    ResumeJob,
)
from evertick.model.instant import MINUTE, SECOND
from evertick.model.schedule import EverySpec
from evertick.settings.parts import LoopSettings
from tests.loop.harness import (
    FOREVER,
    Act,
    catching_up,
    job,
    world,
)

MINUTELY = EverySpec(MINUTE)
ONE_BATCH = LoopSettings(batches=1)


def test_a_job_created_again_after_the_grace_is_new_although_the_scheduler_restarted_and_its_last_run_still_goes():
    here = world(job("a", MINUTELY, **catching_up("all")))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    here.delete("a")
    here.run_until("08:33:10")
    here.restart(after=8 * MINUTE, jobs=[job("a", MINUTELY, **catching_up("all"))])
    here.act("a", Act())
    here.finish("a")
    here.run_until("08:42:10")
    assert here.started() == ["08:31", "08:42"]


def test_a_pause_that_follows_a_resume_at_once_holds():
    here = world(job("a", MINUTELY))
    here.say(PauseJob("p", "a"))
    here.run_for(10 * SECOND)
    here.say(ResumeJob("r", "a"), PauseJob("q", "a"))
    here.run_for(3 * MINUTE)
    assert here.started() == []
    assert here.state.jobs["a"].hold is Hold.PAUSED


def test_a_pause_that_follows_a_resume_while_the_ledger_is_behind_holds():
    here = world(job("a", MINUTELY), job("b"), settings=ONE_BATCH)
    here.say(PauseJob("p", "a"))
    here.is_ledger_away = True
    here.trigger("b")
    here.say(ResumeJob("r", "a"))
    here.say(PauseJob("q", "a"))
    here.is_ledger_away = False
    here.write()
    here.run_for(3 * MINUTE)
    assert here.started("a") == []

"""Jobs that share a named queue share its limit."""

from __future__ import annotations

from dataclasses import replace

from evertick.loop.settings import LoopSettings
from evertick.model.instant import MINUTE, SECOND
from evertick.model.schedule import EverySpec
from tests.loop.harness import Act, World, job, world

ONE_AT_A_TIME = LoopSettings(queues=(("database", 1),))
MINUTELY = EverySpec(MINUTE)


def queued(name: str, **known):
    return replace(job(name, MINUTELY, **known), queue="database")


def lasting(seconds: int, *names: str, settings: LoopSettings = ONE_AT_A_TIME, **priorities: int) -> World:
    here = world(*(queued(name, priority=priorities.get(name, 0)) for name in names), settings=settings)
    for name in names:
        here.act(name, Act(lasts_us=seconds * SECOND))
    return here


def test_of_two_jobs_in_one_queue_the_second_waits_until_the_first_has_ended():
    here = lasting(10, "a", "b")
    here.run_until("08:31:05")
    assert (here.started("a"), here.started("b")) == (["08:31"], [])
    assert here.ledger("b") == ["08:31 waiting"]
    here.run_until("08:31:15")
    assert here.started("b") == ["08:31"]


def test_a_limit_of_two_lets_two_of_three_start():
    here = lasting(10, "a", "b", "c", settings=LoopSettings(queues=(("database", 2),)))
    here.run_until("08:31:05")
    assert sum(len(here.started(name)) for name in "abc") == 2


def test_the_place_goes_to_the_higher_priority():
    here = lasting(10, "a", "b", "c", a=9, c=5)
    here.run_until("08:31:15")
    assert [launch.key.job_id for _, launch in here.launches] == ["a", "c"]


def test_a_queue_without_a_limit_limits_nothing():
    here = lasting(10, "a", "b", settings=LoopSettings())
    here.run_until("08:31:05")
    assert here.started("a") == here.started("b") == ["08:31"]


def test_the_place_of_a_run_that_is_cancelled_is_free_again():
    from evertick.loop.messages import CancelRun

    here = lasting(1_000, "a", "b")
    here.run_until("08:31:05")
    here.say(CancelRun("c", "a"))
    here.run_for(SECOND)
    assert here.started("b") == ["08:31"]


def test_a_run_that_outlived_a_restart_keeps_its_place():
    here = lasting(40, "a", "b")
    here.run_until("08:31:05")
    here.restart(after=5 * SECOND)
    here.run_until("08:31:30")
    assert here.started("b") == []
    here.run_until("08:31:50")
    assert here.started("b") == ["08:31"]

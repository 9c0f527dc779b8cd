"""Jobs that share a named queue share its limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.chain import is_held_back
from evertick.loop.effects import Record
from evertick.loop.job_state import JobState
from evertick.loop.messages import CancelRun, RunFinished
from evertick.loop.runs import OpenRun
from evertick.model.instant import MINUTE, SECOND
from evertick.model.job import After
from evertick.model.lifecycle import LAUNCHING, SUCCEEDED, Trigger
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from evertick.settings.parts import LoopSettings
from evertick.stores.memory import MemoryStore
from tests.loop.harness import Act, World, job, world
from tests.simulator.loop_driver import NINE, LoopDriver

ONE_AT_A_TIME = LoopSettings(queues=(("database", 1),))
MINUTELY = EverySpec(MINUTE)


def queued(name: str, **known):
    return replace(job(name, MINUTELY, **known), queue="database")


def lasting(seconds: int, *names: str, settings: LoopSettings = ONE_AT_A_TIME, **priorities: int) -> World:
    here = world(*(queued(name, priority=priorities.get(name, 0)) for name in names), settings=settings)
    for name in names:
        here.act(name, Act(lasts_us=seconds * SECOND))
    return here


def test_the_second_job_in_a_queue_of_one_waits_until_the_first_has_ended():
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


# --- several nodes


@pytest.fixture
def nodes() -> list[LoopDriver]:
    """Two nodes with one job each, both in the queue, which has one place; the job of the first has taken it."""
    jobs, store = [queued("a"), queued("b")], MemoryStore()
    both = [LoopDriver(*jobs, store=store, node=name, settings=ONE_AT_A_TIME) for name in "ab"]
    for driver in both:
        driver.own_as_one_of_several(driver.node)
        driver.write()
    for driver in both:
        driver.run_until(NINE + MINUTE)
    return both


def test_the_limit_of_a_queue_is_that_of_all_nodes_together(nodes):
    first, second = nodes
    assert [key.job_id for key, _ in first.launched] == ["a"]
    assert second.launched == []
    assert second.ledger("b") == ["09:01 waiting"]
    assert {row.key.job_id: row.detail for row in second.store.contents().rows}["b"].startswith("the queue 'database'")


def test_a_full_queue_is_asked_again_until_it_has_a_free_slot(nodes):
    first, second = nodes
    second.run_until(NINE + MINUTE + 10 * SECOND)
    assert second.launched == []
    (run, attempt) = first.launched[0]
    first.say(RunFinished(run, attempt, first.now, SUCCEEDED, 0))
    first.write()
    second.run_until(NINE + MINUTE + 12 * SECOND)
    assert second.launched == [(RunKey("b", NINE + MINUTE), 1)]


def test_a_run_that_is_cancelled_while_the_ledger_is_asked_for_a_place_never_had_one(nodes):
    _, second = nodes
    second.say(after_us=SECOND)  # it asks again
    second.say(CancelRun("c", "b"))
    asked = [change for write in second.writes if isinstance(write, Record) for change in write.changes]
    assert [change for change in asked if change.key.job_id == "b" and change.state is LAUNCHING] == []
    second.write()
    assert second.ledger("b") == ["09:01 cancelled"]
    assert second.launched == []


def test_the_successes_that_a_run_has_used_need_not_come_again_because_its_queue_was_full():
    run = OpenRun(RunKey("b", NINE), Trigger.SCHEDULER, NINE)
    after = JobState(replace(queued("b"), after=After(("a",))), NINE)
    assert is_held_back(after, run)
    run.has_used_successes = True
    assert not is_held_back(after, run)


def three_nodes(priority: int) -> list[LoopDriver]:
    """Three nodes with one job each; `a` has the one place, `b` and `c` wait for it, and `c` has this priority."""
    jobs, store = [queued("a"), queued("b"), queued("c", priority=priority)], MemoryStore()
    drivers = [LoopDriver(*jobs, store=store, node=name, settings=ONE_AT_A_TIME) for name in "abc"]
    for driver in drivers:
        driver.own_as_one_of_several(driver.node)
        driver.write()
    for driver in drivers:
        driver.run_until(NINE + MINUTE + 5 * SECOND)
    run, attempt = drivers[0].launched[0]
    drivers[0].say(RunFinished(run, attempt, drivers[0].now, SUCCEEDED, 0))
    drivers[0].write()
    return drivers


def test_among_nodes_a_free_place_goes_to_the_higher_priority_not_to_the_first():
    _, second, third = three_nodes(priority=5)
    second.run_until(second.now + 2 * SECOND)
    assert second.launched == []
    assert second.ledger("b") == ["09:01 waiting"]
    third.run_until(third.now + 2 * SECOND)
    assert [key.job_id for key, _ in third.launched] == ["c"]


def test_among_equals_it_goes_to_the_first_that_asks():
    _, second, _ = three_nodes(priority=0)
    second.run_until(second.now + 2 * SECOND)
    assert [key.job_id for key, _ in second.launched] == ["b"]


def test_a_place_that_the_higher_priority_does_not_take_is_not_left_empty():
    _, second, _ = three_nodes(priority=5)  # the third does not ask again
    second.run_until(second.now + 20 * SECOND)
    assert [key.job_id for key, _ in second.launched] == ["b"]

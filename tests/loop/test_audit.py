"""Is an entry that the loop has lost found and resumed as after a restart, and nothing else?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.effects import Launch
from evertick.loop.messages import LaunchRefused, Message, OpenRunsSeen, PauseJob, TriggerJob
from evertick.model.instant import MINUTE, SECOND
from evertick.model.job import After, Job
from evertick.model.lifecycle import PLANNED, RUNNING, SUCCEEDED
from evertick.model.policy import OnExecutorLost
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from evertick.settings.parts import LoopSettings
from tests.loop.harness import FOREVER, WAIT, World, at, catching_up, job, retries, world
from tests.present import present

NINE = RunKey("a", at("09:00"))
LAZY = LoopSettings(preread_us=20 * SECOND, interval_us=10 * SECOND, queues=(("q", 1),))


def stuck(here: World) -> list[str]:
    return [str(log.fields["run"]) for log in here.logs if log.event == "run.stuck"]


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        pytest.param({}, "09:00 skipped missed", id="without catch-up"),
        pytest.param(catching_up("all"), "09:00 succeeded catchup", id="with catch-up"),
    ],
)
def test_an_entry_that_the_loop_has_lost_is_settled_as_after_a_restart(policy, line):
    here = world(job(**policy), settings=LAZY)
    here.run_until("08:59:58")
    del present(here.state.jobs["a"].planned)[NINE]
    here.run_until("09:10")
    assert here.ledger() == [line]
    assert stuck(here) == [NINE.run_id]
    assert here.state.statistics.repaired == 1


@pytest.mark.parametrize("lost", [OnExecutorLost.RETRY, OnExecutorLost.FAIL])
def test_a_run_that_the_loop_has_lost_is_not_started_a_second_time(lost):
    here = world(job(on_executor_lost=lost), settings=LAZY)
    here.act("a", FOREVER)
    here.run_until("09:00:10")
    here.state.jobs["a"].lanes = None
    here.run_until("09:20")
    assert here.ledger() == ["09:00 running"]
    assert here.started() == ["09:00"]
    here.finish("a")
    assert here.ledger() == ["09:00 succeeded"]


def test_an_entry_that_nothing_wakes_is_woken():
    here = world(job(**catching_up("all")), settings=LAZY)
    here.run_until("08:59:58")
    here.state.ring.take(at("09:00"))
    here.run_until("09:10")
    assert here.ledger() == ["09:00 succeeded catchup"]


def unanswered(launch: Launch) -> Message:
    """What an executor says of which the answer is on its way, or lost: nothing about the launch."""
    return OpenRunsSeen(-1, (), None)


def test_a_launch_that_never_reached_its_executor_is_made():
    here = world(job(), settings=LAZY)
    here.run_until("08:59:58")
    launch, here.executor.launch = here.executor.launch, unanswered
    here.run_until("09:00:30")
    here.executor.launch = launch
    here.run_until("09:30")
    assert here.ledger() == ["09:00 succeeded"]
    assert here.started() == ["09:00", "09:00"]


def test_a_launch_that_is_refused_late_and_offered_again_is_not_lost():
    """Each answer takes minutes; together they take longer than an executor may be silent about one launch."""
    here = world(job(), settings=LAZY)
    here.run_until("08:59:58")
    here.executor.launch = unanswered
    for until in ("09:04", "09:08", "09:12"):
        here.run_until(until)
        here.say(LaunchRefused(NINE, 1, "full"))
    assert len(here.launches) >= 3
    assert stuck(here) == []


def test_an_entry_that_waits_for_something_is_not_repaired():
    here = world(
        job("a", EverySpec(MINUTE), overlap=WAIT),
        job("paused", EverySpec(MINUTE), overlap=WAIT),
        replace(job("b"), schedules=(), queue="q"),
        replace(job("c"), schedules=(), queue="q"),
        replace(job("d"), after=After(("z",))),
        Job("z"),
        job("e", retry=retries(1, 20 * MINUTE)),
        settings=LAZY,
    )
    for name in ("a", "b", "paused"):
        here.act(name, FOREVER)
    here.run_until("08:35")
    here.say(PauseJob("r1", "paused"), TriggerJob("r2", "b", here.now), TriggerJob("r3", "c", here.now))
    here.run_until("09:30")
    assert stuck(here) == []
    assert (here.started("a"), here.started("c"), here.started("d")) == (["08:31"], [], [])


def test_a_portion_that_was_not_asked_for_changes_nothing():
    here = world(job(), settings=LAZY)
    here.run_until("09:01")
    old = replace_state(here)
    for number in (0, 999, here.state.audit.number):
        here.say(OpenRunsSeen(number, [old], None))
    here.run_until("09:20")
    assert stuck(here) == []
    assert here.ledger() == ["09:00 succeeded"]


def replace_state(here: World):
    """The line of the last run, as it was before it started."""
    (row,) = here.rows()
    assert row.state is SUCCEEDED
    return row._replace(state=PLANNED, attempt=0, started_at=None, finished_at=None)


def test_the_entries_looked_at_in_one_turn_are_limited(monkeypatch):
    monkeypatch.setattr("evertick.loop.audit.PORTION", 3)
    here = world(job("a", EverySpec(MINUTE), overlap=WAIT), settings=LAZY)
    here.act("a", FOREVER)
    here.run_until("08:40")
    lane = present(here.state.jobs["a"].lanes)[""]
    lost = lane.waiting.pop()
    here.run_until("09:00")
    portions = [one for messages, _, _ in here.turns for one in messages if isinstance(one, OpenRunsSeen)]
    assert {len(one.rows) for one in portions} <= {0, 1, 2, 3}
    assert stuck(here) == [lost.key.run_id]
    assert lost.key in [run.key for run in lane.waiting]
    assert next(iter(lane.active.values())).state is RUNNING

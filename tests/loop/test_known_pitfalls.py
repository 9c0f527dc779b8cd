"""Where schedulers are known to lose or repeat runs, and this one must not."""

from __future__ import annotations

from typing import Any

import pytest

from evertick.model.instant import DAY, HOUR, MINUTE, SECOND
from evertick.model.schedule import CronSpec, EverySpec
from evertick.settings.parts import LoopSettings
from evertick.stores.memory import MemoryStore
from tests.loop.harness import WAIT, Act, catching_up, job, world

MINUTELY = EverySpec(MINUTE)
NO_WINDOW: dict[str, Any] = {}
FIRST, ALL, NEWEST = catching_up("skip"), catching_up("all"), catching_up("latest")
POLICIES = [
    pytest.param(NO_WINDOW, id="no window"),
    pytest.param(FIRST, id="skip"),
    pytest.param(ALL, id="all"),
    pytest.param(NEWEST, id="latest"),
]


# --- the watermark


def test_with_nothing_due_the_ledger_still_learns_how_far_planning_has_come():
    here = world(job("a", CronSpec("0 0 1 1 *", "UTC"), **ALL), settings=LoopSettings())
    here.run_for(20 * SECOND)
    assert min(here.store.load().floors.values()) >= here.now


def test_a_launch_that_fails_does_not_hold_the_watermark_back():
    here = world(job("a", MINUTELY, overlap=WAIT))
    here.act("a", Act(refused=True))
    here.run_until("08:33:10")
    assert here.state.watermark_of(here.state.jobs["a"]) >= here.now
    assert [line.split()[0] for line in here.ledger()] == ["08:31", "08:32", "08:33"]


def test_a_crash_between_writing_and_starting_starts_the_run_once():
    here = world(job())
    here.run_until("08:59:59")
    here.restart(after=5 * SECOND)
    here.run_for(MINUTE)
    assert here.started() == ["09:00"]
    assert here.ledger() == ["09:00 succeeded"]


def test_a_crash_after_starting_does_not_start_the_run_again():
    here = world(job())
    here.act("a", Act(lasts_us=20 * SECOND))
    here.run_until("09:00:01")
    here.restart(after=2 * SECOND)
    here.run_for(MINUTE)
    assert here.started() == ["09:00"]
    assert here.ledger() == ["09:00 succeeded"]


def test_a_crash_before_a_new_job_was_written_leaves_it_new():
    here = world(job("b"))
    here.is_ledger_away = True
    here.define(job("a", MINUTELY, **ALL))
    here.is_ledger_away = False
    here.writes.clear()
    here.restart(after=10 * MINUTE)
    here.run_until("08:41:10")
    assert here.started() == ["08:41"]


def test_an_empty_ledger_means_no_catch_up_for_any_job():
    here = world(job("a", MINUTELY, **ALL))
    here.run_for(2 * MINUTE)
    here.store = MemoryStore()
    here.restart(after=10 * MINUTE)
    here.run_for(10 * SECOND)
    assert here.ledger() == []
    assert here.events("catchup") == []


def test_a_job_absent_from_a_ledger_that_is_there_is_new():
    here = world(job("b", MINUTELY, **ALL))
    here.run_until("08:31:10")
    here.restart(after=HOUR, jobs=[job("a", MINUTELY, **ALL), job("b", MINUTELY, **ALL)])
    here.run_for(40 * SECOND)
    assert here.ledger("a") == []
    assert len(here.started("b")) > 30


# --- holes that others have, and this must not


def test_a_restart_during_a_drain_keeps_the_rest_of_the_backlog():
    here = world(job(**ALL))
    here.act("a", Act(lasts_us=20 * SECOND))
    here.restart(after=3 * HOUR)
    here.restart(after=5 * SECOND)
    here.run_for(2 * MINUTE)
    assert here.started() == ["09:00", "10:00", "11:00"]
    assert here.ledger() == [f"{hour} succeeded catchup" for hour in ("09:00", "10:00", "11:00")]


def test_a_write_to_the_file_during_a_drain_keeps_the_backlog():
    here = world(job(**ALL))
    here.act("a", Act(lasts_us=20 * SECOND))
    here.restart(after=3 * HOUR)
    here.define(job(priority=5, **ALL))
    here.run_for(2 * MINUTE)
    assert here.started() == ["09:00", "10:00", "11:00"]


def test_skip_runs_the_first_missed_alone_even_when_it_ends_at_once():
    here = world(job("a", MINUTELY, **FIRST))
    here.act("a", Act(lasts_us=0))
    here.restart(after=5 * MINUTE + 40 * SECOND)
    here.run_for(5 * SECOND)
    assert here.started() == ["08:31"]
    assert here.ledger()[1:] == [f"08:{minute} skipped overlap" for minute in range(32, 36)]


def test_the_overlap_rule_holds_for_live_occurrences_too():
    here = world(job("a", MINUTELY, overlap=WAIT))
    here.act("a", Act(lasts_us=90 * SECOND), Act())
    here.run_until("08:34")
    assert here.ledger()[:3] == ["08:31 succeeded", "08:32 succeeded", "08:33 succeeded"]


@pytest.mark.parametrize(
    ("policy", "started"),
    [
        pytest.param(NO_WINDOW, [], id="no window: none"),
        pytest.param(FIRST, ["08:31"], id="skip: the first"),
        pytest.param(NEWEST, ["16:30"], id="latest: the newest"),
        pytest.param(catching_up("all", window=10 * MINUTE), [f"16:{minute}" for minute in range(21, 31)], id="all"),
    ],
)
def test_eight_hours_of_sleep_are_no_burst_of_live_ticks(policy, started):
    here = world(job("a", MINUTELY, **policy))
    here.stall(8 * HOUR + 40 * SECOND)
    here.run_for(15 * SECOND)
    assert here.started() == started
    assert here.events("loop.stalled") == ["loop.stalled"]
    assert here.state.statistics.stalls == 1


def test_catch_up_is_read_in_the_zone_of_the_schedule():
    tokyo = job("a", CronSpec("0 20 * * *", "Asia/Tokyo"), **ALL)  # 11:00 in UTC
    here = world(tokyo)
    here.restart(after=DAY)
    here.run_for(MINUTE)
    assert here.started() == ["11:00"]

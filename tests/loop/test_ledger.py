"""A ledger that is slow, refuses, or belongs to another node; and the end of the process."""

from __future__ import annotations

import json

import pytest

from evertick.loop.effects import Commit, Launch
from evertick.loop.messages import RunFinished, Shutdown
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.ledger import Batch, RequestKind, bucket_of
from evertick.model.lifecycle import FAILED, PLANNED, SUCCEEDED, Trigger
from evertick.model.run import Entry, RunKey
from evertick.model.schedule import EverySpec
from evertick.settings.parts import LoopSettings
from tests.loop.harness import FOREVER, WAIT, Act, at, catching_up, job, retries, world

MINUTELY = EverySpec(MINUTE)
ALL = catching_up("all")


# --- slow


def test_nothing_is_launched_before_its_entry_is_written():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:50")
    here.is_ledger_away = True
    here.run_until("08:31:10")
    assert here.launches == []
    here.is_ledger_away = False
    here.write()
    here.run_for(5 * SECOND)
    assert here.ledger() == ["08:31 succeeded"]


def test_planning_pauses_while_the_ledger_is_behind_and_nothing_is_lost_after():
    here = world(job("a", EverySpec(10 * SECOND), **ALL))
    here.run_until("08:31")
    here.is_ledger_away = True
    here.run_until("08:40")
    assert len([write for write in here.writes if isinstance(write, Commit)]) <= 4
    assert here.state.statistics.planning_held_back > 0
    here.is_ledger_away = False
    here.write()
    here.run_until("08:42")
    begun = here.started()
    assert begun == sorted(set(begun))
    assert len(begun) == 6 * 12
    assert here.forgotten() == []


def test_what_a_slow_ledger_makes_late_goes_the_way_of_everything_that_is_late():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:50")
    here.is_ledger_away = True
    here.run_until("08:36:45")
    here.is_ledger_away = False
    here.write()
    here.run_for(5 * SECOND)
    assert here.ledger() == [f"08:{minute} skipped missed" for minute in range(31, 37)]


def test_a_burst_of_thousands_at_one_instant_is_written_and_run_in_full():
    here = world(*(job(f"j{number}", MINUTELY) for number in range(3_000)))
    here.run_until("08:31:05")
    assert len(here.launches) == 3_000
    assert here.store.counters()["ended.succeeded"] == 3_000


# --- refused


def test_an_occurrence_that_another_node_decided_is_not_launched():
    here = world(job("a", MINUTELY))
    here.run_until("08:30:50")
    theirs = Entry(RunKey("a", at("08:31")), PLANNED, Trigger.SCHEDULER, here.now)
    here.store.commit(Batch(by="other", entries=[theirs]))
    here.run_until("08:32:10")
    assert here.started() == ["08:32"]


# --- somebody else's


def test_a_fenced_node_drops_the_buckets_and_stops_their_runs():
    here = world(job("a", MINUTELY))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    here.steal(bucket_of("a"))
    here.run_until("08:32:10")
    assert [stop.key for _, stop in here.stops] == [RunKey("a", at("08:31"))]
    assert here.started() == ["08:31"]
    assert not here.state.owns("a")
    assert here.state.statistics.fenced > 0
    assert here.events("buckets.lost") == ["buckets.lost"]


def test_a_node_that_released_its_buckets_reports_the_ends_of_its_runs_to_the_owner():
    here = world(job())
    here.act("a", Act(lasts_us=30 * SECOND))
    here.run_until("09:00:10")
    here.say(here.lost(bucket_of("a")))
    here.run_until("09:01")
    assert here.stops == []
    (report,) = here.store.claim([bucket_of("a")], 10)
    assert report.kind is RequestKind.REPORT
    assert json.loads(report.payload)["state"] == "succeeded"


def test_the_end_reported_by_an_old_owner_does_not_undo_what_the_new_one_did():
    here = world(job())
    here.act("a", FOREVER)
    here.run_until("09:00:10")
    here.say(here.lost(bucket_of("a")))
    other = world(job())
    other.store = here.store
    other.now = here.now
    other.executor.knows_nothing = True
    other.act("a", FOREVER)
    other.begin()
    assert other.line("09:00").attempt == 2
    here.say(RunFinished(RunKey("a", at("09:00")), 1, here.now, FAILED))
    assert other.ledger() == ["09:00 running"]


def test_a_regained_bucket_continues_from_the_ledger():
    here = world(job("a", MINUTELY, **ALL))
    here.run_until("08:31:10")
    here.say(here.lost(bucket_of("a")))
    here.run_until("08:34:50")
    assert here.started() == ["08:31"]
    here.say(here.gain([bucket_of("a")]))
    here.run_until("08:35:10")
    assert here.started() == ["08:31", "08:32", "08:33", "08:34", "08:35"]


def test_jobs_of_buckets_that_are_not_ours_are_left_alone():
    here = world(job("a", MINUTELY), job("b", MINUTELY))
    here.say(here.lost(bucket_of("b")))
    here.run_until("08:31:10")
    assert (here.started("a"), here.started("b")) == (["08:31"], [])


# --- the end of the process


def test_a_shutdown_plans_and_starts_nothing_more_and_the_next_process_continues():
    here = world(job("a", MINUTELY, **ALL))
    here.run_until("08:30:57")
    here.say(Shutdown())
    here.run_until("08:31:05")
    assert here.launches == []
    assert here.ledger() == ["08:31 planned"]
    here.restart(after=5 * SECOND)
    here.run_for(10 * SECOND)
    assert here.ledger() == ["08:31 succeeded"]


def test_a_run_that_ends_during_the_shutdown_is_written_down():
    here = world(job("a", MINUTELY))
    here.act("a", Act(lasts_us=20 * SECOND))
    here.run_until("08:31:05")
    here.say(Shutdown())
    here.run_until("08:31:30")
    assert here.ledger() == ["08:31 succeeded"]


def test_a_shutdown_leaves_no_run_behind_whatever_its_state():
    here = world(
        job("running"),
        job("retrying", retry=retries(3)),
        job("waiting", MINUTELY, overlap=WAIT),
        job("refused"),
        job("planned", EverySpec(61 * MINUTE)),
    )
    here.act("running", FOREVER)
    here.act("waiting", FOREVER)
    here.act("retrying", Act(state=FAILED), Act())
    here.act("refused", Act(refused=True), Act(refused=True), Act(refused=True), Act())
    here.run_until("09:00:02")
    here.say(Shutdown())
    here.say(Shutdown())
    here.run_for(SECOND)
    before = {name: here.ledger(name) for name in here.jobs}
    assert before["retrying"] == ["09:00 retrying"]
    here.act("waiting", Act())
    here.restart(after=5 * SECOND)
    assert here.forgotten() == []
    here.finish("running")
    here.finish("waiting")
    here.run_for(5 * MINUTE)
    for name in ("running", "retrying", "refused"):
        assert here.line("09:00", name).state is SUCCEEDED
    assert not [line for line in here.ledger("waiting")[:20] if "waiting" in line.split()[1:]]


def test_each_process_signs_its_entries_differently():
    here = world(job("a", MINUTELY))
    here.run_until("08:31:10")
    here.restart()
    here.run_until("08:32:10")
    first, second = (row.decided_by for row in here.rows())
    assert first.split("#")[0] != second.split("#")[0]


def test_a_commit_comes_before_the_launch_it_is_about_in_every_turn():
    here = world(job("a", MINUTELY), job("b", EverySpec(7 * SECOND), overlap=WAIT))
    here.run_until("08:33")
    for _, _, effects in here.turns:
        kinds = [type(effect) for effect in effects]
        if Commit in kinds and Launch in kinds:
            assert kinds.index(Commit) < kinds.index(Launch)


@pytest.mark.parametrize("limit", [1, 4])
def test_never_more_commits_are_asked_for_than_the_setting_allows_when_only_time_passes(limit):
    settings = LoopSettings(batches=limit)
    here = world(job("a", EverySpec(SECOND), overlap=WAIT), settings=settings)
    here.is_ledger_away = True
    here.run_for(MINUTE)
    assert len(here.state.batches) == limit
    assert here.now - at("08:30") < HOUR

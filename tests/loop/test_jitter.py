"""Promises about jitter: each occurrence has one run, which starts within its jitter and is not late because of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.messages import CancelRun, PauseJob, ResumeJob
from evertick.model.blackout import Blackout
from evertick.model.facts import read_facts
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.lifecycle import PLANNED
from evertick.model.policy import Missed
from evertick.model.schedule import AtSpec
from evertick.planning.jitter import starts_at
from evertick.planning.verify import verify_ledger
from tests.loop.harness import FOREVER, REPLACE, at, catching_up, clock_of, job, world

JITTER = 20 * MINUTE
DELAYED = job("a", jitter_us=JITTER)
STARTS = starts_at(DELAYED, at("09:00"))
"""The start of the first occurrence: minutes after its time, so that a grace of 30 s would be over."""


def is_sound(here) -> bool:
    contents = here.store.contents()
    return verify_ledger(contents.schedules, contents.jobs, contents.floors, contents.rows).is_sound


def test_an_occurrence_starts_at_its_own_time_within_the_jitter_and_keeps_its_identity():
    here = world(DELAYED)
    assert at("09:02") < STARTS < at("09:18")
    here.run_until(STARTS - 1)
    (row,) = here.rows("a")
    assert (row.state, read_facts(row.facts).starts_at) == (PLANNED, STARTS)
    here.run_until("12:30")
    assert here.ledger() == ["09:00 succeeded", "10:00 succeeded", "11:00 succeeded", "12:00 succeeded"]
    assert [now for now, _ in here.launches] == [starts_at(DELAYED, at(f"{hour}:00")) for hour in ("09", "10", 11, 12)]
    assert here.state.statistics.lateness.worst_us == 0
    assert is_sound(here)


@pytest.mark.parametrize("back_at", [at("09:01"), STARTS - SECOND], ids=["at once", "just before"])
def test_a_restart_between_the_time_and_the_start_changes_nothing(back_at):
    here = world(DELAYED)
    here.run_until("09:00:30")
    here.restart(after=back_at - here.now)
    here.run_until("09:30")
    assert here.ledger() == ["09:00 succeeded"]
    assert [now for now, _ in here.launches] == [STARTS]


@pytest.mark.parametrize("is_entered", [True, False], ids=["entered before", "not entered"])
def test_after_a_downtime_within_the_jitter_it_is_on_time(is_entered):
    here = world(DELAYED)
    here.run_until("09:00" if is_entered else "08:59")
    back_at = at("09:20:30")
    here.restart(after=back_at - here.now)
    here.run_for(MINUTE)
    assert here.ledger() == ["09:00 succeeded"]
    assert [now for now, _ in here.launches] == [back_at]
    assert is_sound(here)


@pytest.mark.parametrize(
    ("keep", "fate"),
    [(Missed.NONE, "09:00 skipped missed"), (Missed.LATEST, "09:00 succeeded catchup")],
    ids=["not caught up", "caught up"],
)
@pytest.mark.parametrize("is_entered", [True, False], ids=["entered before", "not entered"])
def test_later_than_jitter_and_grace_it_is_missed_and_a_caught_up_run_starts_at_once(is_entered, keep, fate):
    here = world(job("a", jitter_us=JITTER, missed=keep))
    here.run_until("09:00" if is_entered else "08:59")
    back_at = at("09:20:30") + 1
    here.restart(after=back_at - here.now)
    here.run_for(MINUTE)
    assert here.ledger() == [fate]
    assert all(now == back_at for now, _ in here.launches)


def test_its_window_counts_from_the_end_of_the_jitter():
    here = world(job("a", jitter_us=JITTER, max_delay_us=MINUTE, **catching_up("all")))
    here.run_until("08:59")
    here.restart(after=at("10:21") - here.now)
    here.run_until("10:30")
    assert here.ledger() == ["09:00 skipped late", "10:00 succeeded catchup"]


def test_overlap_is_judged_when_it_starts():
    here = world(DELAYED, start="08:30")
    here.act("a", FOREVER)
    here.trigger("a")
    here.run_until(STARTS - SECOND)
    assert here.ledger()[-1] == "09:00 planned"
    here.finish("a")
    here.run_until("09:30")
    assert here.ledger()[-1] == "09:00 running"


def test_a_run_that_replaces_another_does_so_when_it_starts():
    here = world(job("a", jitter_us=JITTER, overlap=REPLACE))
    here.act("a", FOREVER)
    here.run_until("10:30")
    stopped, launched = [now for now, _ in here.stops], [now for now, _ in here.launches]
    assert stopped == [starts_at(DELAYED, at("10:00"))]
    assert launched[1] >= stopped[0]


def test_a_pause_holds_a_run_whose_time_has_come_and_a_resume_starts_it():
    here = world(DELAYED)
    here.run_until("09:01")
    here.say(PauseJob("p", "a"))
    here.run_until("09:30")
    assert here.started() == []
    here.say(ResumeJob("r", "a"))
    here.run_for(SECOND)
    assert [clock_of(now) for now, _ in here.launches] == ["09:30"]


def test_a_delayed_run_can_be_cancelled_before_it_starts():
    here = world(DELAYED)
    here.run_until("09:01")
    here.say(CancelRun("c", "a", here.rows("a")[0].key))
    here.run_until("09:30")
    assert here.ledger() == ["09:00 cancelled"]
    assert here.launches == []


def test_an_edit_of_the_jitter_applies_to_occurrences_that_are_not_entered_yet():
    here = world(DELAYED)
    here.run_until("09:01")
    here.define(job("a"))
    here.run_until("10:30")
    assert [now for now, _ in here.launches] == [STARTS, at("10:00")]


def test_a_clock_that_is_set_back_starts_nothing_twice():
    here = world(DELAYED)
    here.run_until("09:01")
    here.jump(-30 * MINUTE)
    here.run_until("09:30")
    assert here.ledger() == ["09:00 succeeded"]
    assert [now for now, _ in here.launches] == [STARTS]


def test_requested_runs_start_at_once():
    here = world(DELAYED)
    here.trigger("a")
    here.run_for(SECOND)
    assert here.ledger() == ["08:30 succeeded manual"]


def test_a_one_off_that_the_scheduler_reads_within_its_jitter_runs():
    here = world()
    here.run_until("09:05")
    once = job("b", AtSpec(at("09:00")), jitter_us=HOUR)
    here.define(once)
    here.run_until("10:30")
    assert here.ledger("b") == ["09:00 succeeded"]
    assert [now for now, _ in here.launches] == [max(starts_at(once, at("09:00")), at("09:05"))]


def test_the_audit_does_not_call_it_stuck():
    here = world(DELAYED)
    here.run_until("12:30")
    assert not [log for log in here.logs if log.event == "run.stuck"]
    assert here.state.statistics.repaired == 0


@pytest.mark.parametrize(
    ("start", "end", "launched_at"),
    [
        pytest.param(at("09:01"), at("09:02"), STARTS, id="that is over when it starts"),
        pytest.param(at("09:01"), at("09:50"), at("09:50"), id="in which it would start"),
    ],
)
def test_a_blackout_after_its_time_holds_its_start_and_does_not_skip_it(start, end, launched_at):
    here = world(replace(DELAYED, blackouts=(Blackout(start, end, "upgrade"),)))
    here.run_until("09:55")
    assert here.ledger() == ["09:00 succeeded"]
    assert [now for now, _ in here.launches] == [launched_at]


def test_an_occurrence_in_a_blackout_is_skipped_although_it_would_start_later():
    here = world(replace(DELAYED, blackouts=(Blackout(at("08:59"), at("09:01"), "upgrade"),)))
    here.run_until("09:55")
    assert here.ledger() == ["09:00 skipped paused"]

"""A catch-up reports what it found, what it does and when it is done; nothing when nothing was missed."""

from __future__ import annotations

from typing import Any

from evertick.loop.messages import PauseJob, ResumeJob
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.lifecycle import FAILED
from evertick.model.policy import Missed
from evertick.model.schedule import EverySpec
from tests.loop.harness import Act, catching_up, job, retries, world

MINUTELY = EverySpec(MINUTE)


def test_nothing_is_logged_when_nothing_was_missed():
    here = world(job("a", MINUTELY, **catching_up("all")))
    here.run_until("08:31:10")
    here.restart(after=20 * SECOND)
    here.run_until("08:33:10")
    assert here.events("catchup") == []
    assert here.events("run.skipped") == []


def test_a_catch_up_is_reported_from_summary_to_completion():
    here = world(job("a", **catching_up("all")), job("b", **catching_up("latest")), job("c"))
    here.restart(after=3 * HOUR)
    here.run_for(MINUTE)
    assert here.events("catchup")[0] == "catchup.found"
    assert here.events("catchup").count("catchup.found") == 1
    summary = here.log_of("catchup.found")
    assert summary["jobs"] == 3
    assert summary["candidates"] == 9
    assert {"since", "until"} <= set(summary)
    planned = {log.fields["job"]: log.fields for log in here.logs if log.event == "catchup.planned"}
    assert planned["a"]["kept"] == 3
    assert planned["b"]["kept"] == 1
    assert planned["b"]["missed"] is Missed.LATEST
    assert here.events("catchup.dispatched") == ["catchup.dispatched"] * 4
    completed = here.log_of("catchup.completed")
    assert completed["dispatched"] == 4
    assert completed["skipped"] == 5
    assert completed["duration_us"] == 2 * SECOND


def test_each_skip_is_reported_with_its_reason():
    here = world(job(**catching_up("skip")))
    here.restart(after=3 * HOUR)
    here.run_for(MINUTE)
    skips = [(log.fields["scheduled_for"], log.fields["reason"]) for log in here.logs if log.event == "run.skipped"]
    assert skips == [("2026-03-02T10:00:00Z", "overlap"), ("2026-03-02T11:00:00Z", "overlap")]


def test_a_gap_is_reported_once_with_its_count():
    here = world(job("a", MINUTELY))
    here.restart(after=2 * HOUR)
    skips: list[Any] = [log.fields["occurrences"] for log in here.logs if log.event == "run.skipped"]
    assert sum(skips) == 119
    assert len(skips) == 1


def test_a_retried_run_is_dispatched_once():
    here = world(job(retry=retries(2, delay_us=SECOND), **catching_up("latest")))
    here.act("a", Act(state=FAILED), Act())
    here.restart(after=HOUR)
    here.run_for(MINUTE)
    assert here.events("catchup.dispatched") == ["catchup.dispatched"]
    assert len(here.started()) == 2


def test_a_resume_that_catches_up_is_reported_as_a_catch_up():
    here = world(job(**catching_up("all")))
    here.say(PauseJob("p", "a"))
    here.stall(3 * HOUR)
    here.say(ResumeJob("r", "a"))
    here.run_for(MINUTE)
    assert here.log_of("catchup.completed")["dispatched"] == 3


def test_a_backlog_beyond_the_cap_keeps_the_newest():
    here = world(job("a", MINUTELY, **catching_up("all", backlog_max=5)))
    here.restart(after=30 * MINUTE + 40 * SECOND)
    here.run_for(10 * SECOND)
    assert here.started() == [f"08:{minute}" for minute in range(56, 60)] + ["09:00"]
    assert here.ledger()[0] == "08:31..08:55 skipped cap x25"


def test_caught_up_runs_are_recognised_by_their_trigger():
    here = world(job("a", MINUTELY, **catching_up("all")))
    here.restart(after=2 * MINUTE + 40 * SECOND)
    here.run_until("08:33:10")
    assert here.ledger() == ["08:31 succeeded catchup", "08:32 succeeded catchup", "08:33 succeeded"]


def test_a_caught_up_run_that_waited_beyond_its_window_is_skipped_as_late():
    here = world(job(**catching_up("all", max_delay_us=3 * HOUR)))
    here.act("a", Act(lasts_us=45 * MINUTE))
    here.restart(after=150 * MINUTE)
    here.run_for(2 * HOUR)
    assert here.ledger()[:2] == ["09:00 succeeded catchup", "10:00 succeeded catchup"]

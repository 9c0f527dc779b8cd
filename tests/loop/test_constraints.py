"""Constraints that the loop watches, and the actions on breaking them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.effects import Notify
from evertick.model.constraint import (
    Action,
    ActionKind,
    KillTarget,
    MaxConcurrentRuns,
    MaxExpectedRunTime,
    RequirePreviousSuccess,
)
from evertick.model.instant import MINUTE, SECOND
from evertick.model.lifecycle import FAILED
from evertick.model.schedule import EverySpec
from evertick.operations import message_of
from tests.loop.harness import Act, World, job, world

MINUTELY = EverySpec(MINUTE)
FOREVER = Act(lasts_us=None)


def bound(name: str, *constraints, **known):
    return replace(job(name, MINUTELY, **known), constraints=constraints)


def claim(here: World) -> list[str]:
    requests = here.store.claim(None, 100)
    here.say(*map(message_of, requests))
    return [request.job_id for request in requests]


def notices(here: World) -> list[str]:
    return [effect.event for _, _, effects in here.turns for effect in effects if isinstance(effect, Notify)]


def test_a_job_that_requires_its_previous_success_stops_after_a_failure():
    here = world(bound("a", RequirePreviousSuccess()))
    here.act("a", Act(state=FAILED), Act())
    here.run_until("08:33:30")
    assert here.ledger() == ["08:31 failed", "08:32 skipped condition", "08:33 skipped condition"]


def test_the_failure_is_remembered_across_a_restart():
    here = world(bound("a", RequirePreviousSuccess()))
    here.act("a", Act(state=FAILED), Act())
    here.run_until("08:31:30")
    here.restart()
    here.run_until("08:32:30")
    assert here.ledger()[-1] == "08:32 skipped condition"


def test_another_job_may_be_required():
    here = world(job("up", MINUTELY, priority=5), bound("a", RequirePreviousSuccess(("up",))))
    here.act("up", Act(lasts_us=0, state=FAILED), Act())
    here.run_until("08:33:30")
    assert [line.split()[1] for line in here.ledger("a")] == ["succeeded", "skipped", "succeeded"]


def test_a_run_that_is_longer_than_expected_goes_on_and_is_told_once():
    webhook = Action(ActionKind.WEBHOOK, url="https://example.com/hook")
    here = world(bound("a", MaxExpectedRunTime(10 * SECOND, (webhook,))))
    here.act("a", FOREVER)
    here.run_until("08:31:50")
    assert here.ledger() == ["08:31 running"]
    assert notices(here) == ["maxExpectedRunTime"]


def test_a_run_that_ends_in_time_is_not():
    here = world(bound("a", MaxExpectedRunTime(10 * SECOND, (Action(ActionKind.WEBHOOK, url="https://x.example"),))))
    here.run_until("08:31:50")
    assert notices(here) == []


@pytest.mark.parametrize("target", list(KillTarget))
def test_kill_ends_the_run(target):
    here = world(bound("a", MaxExpectedRunTime(10 * SECOND, (Action(ActionKind.KILL, target=target),))))
    here.act("a", FOREVER)
    here.run_until("08:31:30")
    assert here.ledger() == ["08:31 cancelled"]


def test_skip_next_takes_the_next_occurrence_away_and_only_that():
    here = world(bound("a", MaxExpectedRunTime(10 * SECOND, (Action(ActionKind.SKIP_NEXT),))))
    here.act("a", Act(lasts_us=20 * SECOND), Act())
    here.run_until("08:33:30")
    assert here.ledger() == ["08:31 succeeded", "08:32 skipped condition", "08:33 succeeded"]


def test_start_job_starts_another_job():
    here = world(
        bound("a", MaxExpectedRunTime(10 * SECOND, (Action(ActionKind.START_JOB, job_id="z"),))),
        replace(job("z"), schedules=()),
    )
    here.act("a", FOREVER)
    here.run_until("08:31:30")
    assert claim(here) == ["z"]
    here.run_for(5 * SECOND)
    assert [line.split()[1:] for line in here.ledger("z")] == [["succeeded", "retry"]]


def test_a_retry_that_meets_the_same_constraint_does_not_ask_for_another():
    here = world(bound("a", RequirePreviousSuccess((), (Action(ActionKind.RETRY),))))
    here.act("a", Act(state=FAILED))
    here.run_until("08:32:10")
    assert claim(here) == ["a"]
    here.run_for(5 * SECOND)
    assert claim(here) == []


def test_a_run_turned_away_by_the_overlap_rule_breaks_max_concurrent_runs():
    here = world(bound("a", MaxConcurrentRuns(1, (Action(ActionKind.WEBHOOK, url="https://x.example"),))))
    here.act("a", FOREVER)
    here.run_until("08:32:10")
    assert here.ledger()[-1] == "08:32 skipped overlap"
    assert notices(here) == ["maxConcurrentRuns"]

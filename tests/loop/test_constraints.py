"""Constraints that the loop watches, and the actions when they are violated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.loop.effects import Notify, Record
from evertick.loop.messages import RunFinished
from evertick.model.constraint import (
    Action,
    ActionKind,
    KillTarget,
    MaxAllowedRunTime,
    MaxConcurrentRuns,
    MaxExpectedRunTime,
    PostRunHook,
    PreRunHook,
    RequirePreviousSuccess,
)
from evertick.model.instant import MINUTE, SECOND
from evertick.model.ledger import Batch, bucket_of
from evertick.model.lifecycle import CANCELLED, FAILED, PLANNED, SKIPPED, SUCCEEDED, TIMED_OUT, RunState, Trigger
from evertick.model.policy import Overlap, OverlapKind
from evertick.model.run import Change, Entry, RunKey
from evertick.model.schedule import EverySpec
from evertick.operations.requests import message_of
from tests.loop.harness import Act, World, at, job, retries, world

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


def test_a_run_that_waited_for_one_that_failed_is_skipped():
    here = world(bound("a", RequirePreviousSuccess(), overlap=Overlap(OverlapKind.WAIT)))
    here.act("a", Act(lasts_us=90 * SECOND, state=FAILED), Act())
    here.run_until("08:33:30")
    assert here.ledger() == ["08:31 failed", "08:32 skipped condition", "08:33 skipped condition"]


def test_a_run_that_waited_asks_the_ledger_again_how_jobs_of_other_nodes_went():
    here = world(bound("a", RequirePreviousSuccess(("up",)), overlap=Overlap(OverlapKind.WAIT)), job("up"))
    here.act("a", Act(lasts_us=90 * SECOND), Act())
    here.say(here.lost(bucket_of("up")))
    here.run_until("08:32:10")  # the second run waits for the first, and nothing has failed
    key = RunKey("up", at("08:32:10"), "r1")
    here.store.commit(Batch(by="east/1#1", entries=[Entry(key, PLANNED, Trigger.MANUAL, here.now)]))
    here.store.record([Change(key, FAILED, here.now, finished_at=here.now)])
    here.run_until("08:32:50")
    assert here.ledger() == ["08:31 succeeded", "08:32 skipped condition"]
    assert here.state.outcomes_asked == set()


def test_another_job_may_be_required():
    here = world(job("up", MINUTELY, priority=5), bound("a", RequirePreviousSuccess(("up",))))
    here.act("up", Act(lasts_us=0, state=FAILED), Act())
    here.run_until("08:33:30")
    assert [line.split()[1] for line in here.ledger("a")] == ["succeeded", "skipped", "succeeded"]


def test_a_run_that_is_longer_than_expected_continues_and_is_reported_once():
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
    assert [line.split()[1:] for line in here.ledger("z")] == [["succeeded", "chained"]]


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


# Those that executors watch

WEBHOOK = Action(ActionKind.WEBHOOK, url="https://x.example")
KEY = RunKey("a", at("08:31"))


def ended(*constraints, state: RunState, broken: str = "", **known) -> World:
    """A world in which the run of 08:31 ended so."""
    here = world(bound("a", *constraints, **known), replace(job("z"), schedules=()))
    here.act("a", Act(broken=broken) if state is SKIPPED else FOREVER)
    here.run_until("08:31:10")
    if state is not SKIPPED:
        here.say(RunFinished(KEY, 1, here.now, state, None, "it said no", broken=broken))
    return here


@pytest.mark.parametrize(
    ("constraint", "state", "broken", "line"),
    [
        pytest.param(PreRunHook("u", (WEBHOOK,)), SKIPPED, "preRunHook", "08:31 skipped condition", id="before"),
        pytest.param(PostRunHook("u", (WEBHOOK,)), FAILED, "postRunHook", "08:31 failed", id="behind"),
        pytest.param(MaxAllowedRunTime(9, (WEBHOOK,)), TIMED_OUT, "", "08:31 timed_out", id="too long"),
    ],
)
def test_a_constraint_that_an_executor_finds_broken_is_acted_on(constraint, state, broken, line):
    here = ended(constraint, state=state, broken=broken)
    assert here.ledger()[0] == line
    (told,) = [effect for _, _, effects in here.turns for effect in effects if isinstance(effect, Notify)]
    assert (told.event, told.key, told.url, told.detail) == (
        broken or "maxAllowedRunTime",
        KEY,
        WEBHOOK.url,
        "it said no",
    )


def test_a_run_that_failed_by_itself_breaks_no_hook():
    assert notices(ended(PostRunHook("u", (WEBHOOK,)), state=FAILED)) == []


def test_an_attempt_that_is_made_again_has_broken_nothing_yet():
    here = ended(PostRunHook("u", (WEBHOOK,)), state=FAILED, broken="postRunHook", retry=retries(1))
    assert notices(here) == []


def test_a_retry_is_for_the_same_time_and_names_its_cause():
    here = ended(PreRunHook("u", (Action(ActionKind.RETRY),)), state=SKIPPED, broken="preRunHook")
    here.act("a", Act())
    assert claim(here) == ["a"]
    here.run_for(5 * SECOND)
    (again,) = [row for row in here.rows() if row.trigger is Trigger.RETRY]
    assert again.key.scheduled_for == KEY.scheduled_for
    assert again.detail == f"preRunHook was violated by {KEY.run_id}"


def test_skip_next_is_remembered_across_a_restart():
    here = ended(PreRunHook("u", (Action(ActionKind.SKIP_NEXT),)), state=SKIPPED, broken="preRunHook")
    here.act("a", Act())
    here.restart()
    here.run_until("08:33:30")
    assert here.ledger() == ["08:31 skipped condition", "08:32 skipped condition", "08:33 succeeded"]


def test_a_run_that_is_expected_to_end_is_watched_across_a_restart_and_reported_once():
    here = world(bound("a", MaxExpectedRunTime(20 * SECOND, (WEBHOOK,))))
    here.act("a", FOREVER)
    here.run_until("08:31:10")
    here.restart()
    here.run_until("08:31:40")
    assert notices(here) == ["maxExpectedRunTime"]
    here.restart()
    here.run_until("08:31:50")
    assert notices(here) == []


def test_an_overdue_run_is_known_by_its_facts_whatever_its_detail_says():
    here = world(bound("a", MaxExpectedRunTime(20 * SECOND, (WEBHOOK,))))
    here.act("a", FOREVER)
    here.run_until("08:31:40")
    assert notices(here) == ["maxExpectedRunTime"]
    run = here.line("08:31")
    here.store.record([Change(run.key, run.state, here.now, run.fence, detail="another text")])
    here.restart()
    here.run_until("08:31:50")
    assert notices(here) == []


def test_the_next_attempt_of_an_overdue_run_is_watched_across_a_restart():
    here = world(bound("a", MaxExpectedRunTime(10 * SECOND, (WEBHOOK,)), retry=retries(1, delay_us=SECOND)))
    here.act("a", Act(lasts_us=15 * SECOND, state=FAILED), FOREVER)
    here.run_until("08:31:18")
    assert notices(here) == ["maxExpectedRunTime"]
    here.restart()
    here.run_until("08:31:50")
    assert notices(here) == ["maxExpectedRunTime"]


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        pytest.param(FAILED, ["08:32 skipped condition"], id="it failed"),
        pytest.param(SUCCEEDED, ["08:32 succeeded"], id="it succeeded"),
        pytest.param(CANCELLED, ["08:32 succeeded"], id="it was cancelled"),
        pytest.param(None, ["08:32 succeeded"], id="it has never run"),
    ],
)
def test_the_success_of_a_job_of_another_node_is_asked_of_the_ledger(end, lines):
    here = world(bound("a", RequirePreviousSuccess(("up",))), job("up"))
    here.say(here.lost(bucket_of("up")))
    here.run_until("08:31:30")
    if end is not None:
        key = RunKey("up", at("08:31:30"), "r1")
        here.store.commit(Batch(by="east/1#1", entries=[Entry(key, PLANNED, Trigger.MANUAL, here.now)]))
        here.store.record([Change(key, end, here.now, finished_at=here.now)])
    here.run_until("08:32:30")
    assert here.ledger()[1:] == lines
    assert here.state.outcomes_asked == set()


def test_a_failure_that_was_written_without_the_line_of_its_job_is_known_to_the_next_process():
    """Runs and the lines of jobs are written one after the other: a crash in between leaves only the first."""
    here = world(bound("a", RequirePreviousSuccess()))
    here.act("a", Act(state=FAILED))
    here.run_until("08:30:58")
    here.is_ledger_away = True
    here.run_until("08:31:30")
    assert here.state.jobs["a"].last_failed
    here.writes = [write for write in here.writes if isinstance(write, Record)]
    here.is_ledger_away = False
    here.write()
    here.restart(after=SECOND)
    assert here.state.jobs["a"].last_failed
    here.run_until("08:32:10")
    assert here.ledger() == ["08:31 failed", "08:32 skipped condition"]

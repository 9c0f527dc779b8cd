"""Defects that the simulator found, each reduced as far as possible.

A seed shows that something is wrong; these show what. They stay, so that it does not come back.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.dispatch.lookup import outcomes
from evertick.loop.effects import Commit, Launch, LookUpOutcomes, Reconcile, Record, Stop
from evertick.loop.messages import (
    BatchFenced,
    CancelRun,
    ChangesRecorded,
    DefinitionsChanged,
    LaunchRefused,
    LeaseRenewed,
    NodesSeen,
    PauseJob,
    ResumeJob,
    RunFinished,
    RunLost,
    RunStarted,
    Shutdown,
    StepsSeen,
    TriggerJob,
)
from evertick.model.blackout import Blackout
from evertick.model.constraint import RequirePreviousSuccess
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS, Batch, Request, RequestKind, bucket_lease
from evertick.model.lifecycle import FAILED, LAUNCHING, PLANNED, SKIPPED, SUCCEEDED, TERMINAL, WAITING
from evertick.model.policy import Missed, OnExecutorLost, Overlap, OverlapKind, Policy, Retry
from evertick.model.run import Change, RunKey
from evertick.model.schedule import AtSpec, EverySpec
from evertick.operations.requests import message_of
from evertick.settings.parts import LoopSettings
from tests.present import present
from tests.simulator.loop_driver import NINE, LoopDriver

WAIT = Overlap(OverlapKind.WAIT)
HOURLY = Job("report", schedules=(EverySpec(HOUR),))
EVERY_MINUTE = Job("report", schedules=(EverySpec(MINUTE),), policy=Policy(overlap=WAIT))
TEN = RunKey("report", NINE + HOUR)


def started(key: RunKey = TEN, attempt: int = 1, lease_us: int | None = None) -> RunStarted:
    return RunStarted(key, attempt, key.scheduled_for, "fleet", lease_us)


def running_at_ten(job: Job = HOURLY, lease_us: int | None = None) -> LoopDriver:
    """A node on which the run of ten o'clock has just begun."""
    driver = LoopDriver(job)
    driver.own()
    driver.run_until(TEN.scheduled_for, MINUTE // 30)
    driver.say(started(lease_us=lease_us))
    driver.write()
    assert driver.launched == [(TEN, 1)]
    return driver


# The loop itself


@pytest.mark.parametrize(
    "is_stopping", [pytest.param(False, id="a ledger that is away"), pytest.param(True, id="a shutdown")]
)
def test_a_loop_that_may_not_plan_waits_instead_of_spinning(is_stopping):
    driver = LoopDriver(HOURLY)
    driver.own()
    driver.write()
    if is_stopping:
        driver.say(Shutdown())
    for number in range(10):  # the commits of these are never answered
        driver.say(TriggerJob(f"r{number}", "report", driver.now), after_us=2 * SECOND)
    decision = driver.say(after_us=2 * SECOND)
    assert decision.wake_at > driver.now


def test_a_start_that_is_reported_twice_is_lost_once():
    driver = running_at_ten(lease_us=MINUTE)
    driver.say(started(lease_us=MINUTE))
    for _ in range(20):
        driver.say(after_us=10 * SECOND)
        driver.write()
    assert [attempt for _, attempt in driver.launched] == [1, 2]


# Time that goes wrong


def test_a_job_that_is_held_is_not_planned_by_the_way_when_one_of_its_entries_is_late():
    driver = LoopDriver(EVERY_MINUTE)
    driver.own()
    driver.say(after_us=MINUTE - 2 * SECOND)
    driver.write()  # the entry of 09:01 is there, and never fires: the process dies
    after = LoopDriver(replace(EVERY_MINUTE, enabled=False), store=driver.store, now=NINE + 10 * MINUTE)
    after.own()
    after.write()
    assert [line.split()[0] for line in after.ledger()] == ["09:01"]


def test_a_clock_that_was_set_back_before_a_pause_loses_nothing_of_the_pause():
    driver = LoopDriver(EVERY_MINUTE)
    driver.own()
    driver.run_until(NINE + 20 * MINUTE)
    driver.now -= 15 * MINUTE
    driver.say(PauseJob("r1", "report"))
    driver.write()
    driver.run_until(NINE + HOUR, MINUTE)
    driver.say(ResumeJob("r2", "report", Missed.NONE))
    driver.run_until(NINE + HOUR + 2 * MINUTE)
    assert driver.verified().lost == ()


def test_a_job_that_comes_while_the_ledger_is_ahead_of_the_clock_is_planned_as_far_as_the_ledger_says():
    ahead = LoopDriver(HOURLY, now=NINE + 30 * MINUTE)
    ahead.own()
    ahead.run_until(NINE + 31 * MINUTE)
    behind = LoopDriver(HOURLY, store=ahead.store, node="b")
    behind.own()
    behind.write()
    behind.say(DefinitionsChanged(jobs=[replace(EVERY_MINUTE, id="new")]))
    behind.write()  # and dies: whatever the ledger says was planned must be in it
    assert behind.verified().lost == ()


@pytest.mark.parametrize("is_over", [pytest.param(True, id="its runs ended"), pytest.param(False, id="a run goes on")])
def test_a_job_that_comes_back_after_a_downtime_does_not_owe_what_lay_in_between(is_over):
    job = replace(EVERY_MINUTE, policy=Policy())
    driver = LoopDriver(job)
    driver.own()
    driver.run_until(NINE + 5 * MINUTE)
    if is_over:
        driver.say(RunFinished(*driver.launched[0], driver.now, SUCCEEDED))
    driver.say(DefinitionsChanged(removed=["report"]))
    driver.write()  # and dies before the grace is over
    after = LoopDriver(replace(job, schedules=(EverySpec(HOUR),)), store=driver.store, now=NINE + 3 * HOUR + MINUTE)
    after.own()
    after.run_until(NINE + 4 * HOUR + MINUTE, 2 * SECOND)
    assert after.verified().lost == ()


def test_the_second_of_two_edits_during_a_pause_stays_in_force():
    driver = LoopDriver(EVERY_MINUTE)
    driver.own()
    driver.run_until(NINE + 3 * MINUTE + SECOND)  # the first runs, the others wait
    driver.say(PauseJob("r1", "report"))
    driver.write()
    for period_us in (2 * MINUTE, 3 * MINUTE):
        driver.run_until(driver.now + MINUTE)
        driver.say(DefinitionsChanged(jobs=[replace(EVERY_MINUTE, schedules=(EverySpec(period_us),))]))
        driver.write()
    assert str(3 * MINUTE) in driver.store.schedules(["report"])[-1].specs


def test_a_one_off_that_was_entered_at_an_edit_stays_known_when_a_paused_job_is_edited_again():
    driver = LoopDriver(EVERY_MINUTE)
    driver.own()
    driver.run_until(NINE + 30 * SECOND)
    driver.say(PauseJob("r1", "report"))
    one_off = RunKey("report", driver.now - SECOND)
    for schedules in ((AtSpec(one_off.scheduled_for), EverySpec(HOUR)), (EverySpec(2 * HOUR),)):
        driver.run_until(driver.now + 5 * SECOND)
        driver.say(DefinitionsChanged(jobs=[replace(EVERY_MINUTE, schedules=schedules)]))
        driver.write()
    assert driver.store.line(one_off) is not None
    assert driver.verified().strays == ()


def test_a_one_off_of_a_job_that_is_edited_in_the_instant_it_is_added_still_runs_within_the_grace():
    driver = LoopDriver()
    driver.own()
    one_off = RunKey("report", driver.now - 2 * SECOND)
    driver.say(
        DefinitionsChanged(jobs=[HOURLY]),
        DefinitionsChanged(jobs=[replace(HOURLY, schedules=(AtSpec(one_off.scheduled_for),))]),
    )
    driver.write()
    driver.run_until(driver.now + SECOND)
    assert driver.launched == [(one_off, 1)]


def test_a_one_off_that_is_past_when_a_disabled_job_is_edited_is_missed_and_not_caught_up_as_well():
    """Its instant lies after the watermark of the job, so that the plan of the same turn sees it too."""
    disabled = replace(EVERY_MINUTE, enabled=False)
    driver = LoopDriver(disabled)
    driver.own()
    driver.run_until(NINE + 10 * MINUTE, MINUTE)
    one_off = RunKey("report", NINE + 5 * MINUTE)
    driver.say(DefinitionsChanged(jobs=[replace(EVERY_MINUTE, schedules=(AtSpec(one_off.scheduled_for),))]))
    driver.run_until(driver.now + MINUTE)
    assert driver.ledger() == ["09:05 skipped"]
    assert driver.launched == []
    assert driver.verified().is_sound


# Somebody else has decided


def test_a_gap_with_a_later_entry_inside_is_not_lost_as_a_whole():
    """Two nodes that agree on nothing; the one that was away finds its gap refused."""
    job = replace(EVERY_MINUTE, policy=Policy(missed=Missed.LATEST))
    away = LoopDriver(job, node="b")
    away.own_without_lease()
    away.write()
    other = LoopDriver(job, store=away.store)
    other.own_without_lease()
    other.run_until(NINE + 5 * MINUTE)  # and dies
    away.say(after_us=HOUR)
    away.write()
    assert away.verified().lost == ()


@pytest.mark.parametrize("way", ["edited again", "edited by the next owner", "deleted"])
def test_a_schedule_stays_known_that_was_edited_again_before_a_clock_set_back_came_to_it(way):
    """Its runs are in the ledger, entered in place of a backlog: without it they look as if they were never due."""
    driver = LoopDriver(EVERY_MINUTE)
    driver.own()
    driver.run_until(NINE + 5 * MINUTE)
    driver.now -= HOUR
    second = replace(EVERY_MINUTE, schedules=(EverySpec(40 * SECOND),))
    driver.say(DefinitionsChanged([second]))
    driver.write()
    assert driver.store.line(RunKey("report", NINE + 160 * SECOND)) is not None
    third = replace(EVERY_MINUTE, schedules=(EverySpec(HOUR),))
    if way == "edited by the next owner":
        driver = LoopDriver(third, store=driver.store, node="b", now=driver.now)
        driver.own()
    else:
        driver.say(DefinitionsChanged([third]) if way == "edited again" else DefinitionsChanged([], ["report"]))
    driver.run_until(driver.now + 2 * MINUTE, 10 * SECOND)
    assert driver.verified().is_sound, driver.verified()


def test_a_gap_behind_an_edit_is_not_lost_because_of_what_the_edit_superseded():
    """One node, one edit during a downtime, a backlog: the gap reaches over lines that are there already."""
    driver = LoopDriver(replace(EVERY_MINUTE, policy=Policy(missed=Missed.ALL, overlap=WAIT)))
    driver.own()
    driver.run_until(NINE + 5 * MINUTE + SECOND)  # the first is running, the others wait
    edited = replace(EVERY_MINUTE, schedules=(EverySpec(40 * SECOND),), policy=Policy(missed=Missed.NONE))
    after = LoopDriver(edited, store=driver.store, now=NINE + HOUR)
    after.own()
    after.say(started(RunKey("report", NINE + MINUTE)))
    after.run_until(NINE + HOUR + MINUTE)
    assert after.verified().lost == ()


def test_a_run_that_has_ended_in_the_ledger_is_not_retried():
    driver = running_at_ten(replace(HOURLY, policy=Policy(retry=Retry(max_retries=3))))
    fence = present(driver.store.line(TEN)).fence
    driver.store.record([Change(TEN, SUCCEEDED, driver.now, fence, attempt=1)])  # by the owner before
    driver.say(RunFinished(TEN, 1, driver.now, FAILED))
    driver.write()
    for _ in range(5):
        driver.say(after_us=MINUTE)
        driver.write()
    assert driver.launched == [(TEN, 1)]


def test_an_entry_that_is_refused_does_not_take_the_run_with_it_that_has_its_key():
    """Replanned after an edit, a due time that is running already: the new entry is refused, the run goes on."""
    policy = Policy(missed=Missed.ALL, overlap=WAIT)
    job = Job("report", schedules=(EverySpec(3 * SECOND),), policy=policy)
    first, second = (RunKey("report", NINE + number * 3 * SECOND) for number in (1, 2))
    driver = LoopDriver(job)
    driver.own()
    driver.run_until(first.scheduled_for)
    driver.say(LaunchRefused(first, 1, "full"))
    driver.write()  # it dies with the first one waiting and the second one planned
    assert driver.ledger() == ["09:00 waiting", "09:00 planned"]
    after = LoopDriver(replace(job, schedules=(EverySpec(2 * SECOND),)), store=driver.store, now=NINE + MINUTE)
    after.own()
    after.say(started(second), after_us=SECOND)
    after.write()
    after.say(RunFinished(second, 1, after.now, SUCCEEDED), after_us=SECOND)
    after.write()
    assert present(after.store.line(second)).state is SUCCEEDED


def test_a_run_that_waited_may_have_been_launched_just_before_the_end_and_its_executor_is_asked():
    driver = LoopDriver(EVERY_MINUTE)
    driver.own()
    first, second = (RunKey("report", NINE + number * MINUTE) for number in (1, 2))
    driver.run_until(second.scheduled_for + SECOND)
    driver.say(RunFinished(first, 1, driver.now, SUCCEEDED))  # the second is launched, and the process dies
    assert driver.launched[-1] == (second, 1)
    assert present(driver.store.line(second)).state is WAITING
    after = LoopDriver(EVERY_MINUTE, store=driver.store, now=driver.now + 10 * SECOND)
    after.own()
    asked = [run[:2] for effect in after.effects if isinstance(effect, Reconcile) for run in effect.runs]
    assert (second, 1) in asked


# Buckets that come and go


def test_an_owner_that_was_replaced_cannot_end_what_the_new_one_launches():
    first, second = (RunKey("report", NINE + number * MINUTE) for number in (1, 2))
    old = LoopDriver(EVERY_MINUTE)
    old.own()
    old.run_until(second.scheduled_for + SECOND)  # the first runs, the second waits
    old.say(CancelRun("r1", "report", second))  # and before that is written, the bucket is another's
    new = LoopDriver(EVERY_MINUTE, store=old.store, node="b", now=old.now)
    new.own()
    new.write()
    old.write()
    new.say(RunFinished(first, 1, new.now, SUCCEEDED), after_us=SECOND)
    new.write()
    is_launched = (second, 1) in new.launched
    assert is_launched == (present(new.store.line(second)).state is LAUNCHING)


def test_a_fenced_answer_from_before_does_not_take_away_what_was_regained_since():
    driver = LoopDriver(HOURLY)
    driver.own()
    driver.write()
    driver.say(TriggerJob("r1", "report", driver.now))
    (commit,) = [write for write in driver.writes if isinstance(write, Commit)]
    driver.own()  # under new epochs: the old batch is fenced, and its answer comes late
    driver.say(BatchFenced(commit.number, tuple(range(BUCKETS))))
    assert len(driver.state.epochs) == BUCKETS


def test_a_resume_that_was_answered_takes_effect_although_the_bucket_is_lost_in_the_same_turn():
    driver = LoopDriver(HOURLY)
    driver.own()
    driver.say(PauseJob("r1", "report"))
    driver.write()
    driver.store.commit(Batch(by="x", requests=[Request("r2", RequestKind.RESUME, "report", "{}", driver.now)]))
    driver.say(ResumeJob("r2", "report"), driver.lost())
    driver.write()
    (request,), (job,) = driver.store.requests(["r2"]), driver.store.load().jobs
    assert (request.answer is not None) == (job.paused_at is None)


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(LaunchRefused(TEN, 1, "full"), id="it was not taken"),
        pytest.param(RunLost(TEN, 1, "gone"), id="it was lost"),
        pytest.param(RunFinished(TEN, 1, TEN.scheduled_for, SUCCEEDED), id="it ended"),
    ],
)
@pytest.mark.parametrize("is_fenced", [pytest.param(False, id="given up"), pytest.param(True, id="taken away")])
def test_the_new_owner_learns_how_a_run_of_the_old_owner_ended(report, is_fenced):
    old = LoopDriver(HOURLY)
    old.own()
    old.run_until(TEN.scheduled_for)
    assert old.launched == [(TEN, 1)]
    old.say(old.lost(is_fenced=is_fenced))
    old.write()
    new = LoopDriver(HOURLY, store=old.store, node="b", now=old.now)
    new.say(NodesSeen(frozenset({"a", "b"})))
    new.own()
    new.write()
    old.say(report)
    old.write()
    assert present(new.store.line(TEN)).state in TERMINAL or new.store.claim(None, 10), (
        "nobody will ever tell the new owner"
    )


# People


def test_two_resumes_of_one_job_are_both_answered():
    driver = LoopDriver(HOURLY)
    driver.own()
    driver.say(PauseJob("r1", "report"))
    driver.write()
    asked = [Request(name, RequestKind.RESUME, "report", "{}", driver.now) for name in ("r2", "r3")]
    driver.store.commit(Batch(by="x", requests=asked))
    driver.say(ResumeJob("r2", "report"), ResumeJob("r3", "report"))
    driver.write()
    driver.run_until(driver.now + 10 * SECOND)
    assert [request.answer is not None for request in driver.store.requests(["r2", "r3"])] == [True, True]


def test_a_request_about_a_job_of_another_node_is_left_to_that_node():
    driver = LoopDriver(HOURLY)
    driver.own()
    driver.write()
    driver.store.commit(Batch(by="x", requests=[Request("r1", RequestKind.CANCEL, "report", "{}", driver.now)]))
    driver.say(driver.lost(), CancelRun("r1", "report"))
    driver.write()
    (request,) = driver.store.requests(["r1"])
    assert request.answer is None


def test_a_failure_is_known_to_the_next_owner_although_what_was_kept_of_its_job_was_refused():
    job = replace(EVERY_MINUTE, constraints=(RequirePreviousSuccess(),))
    first, second = (RunKey("report", NINE + number * MINUTE) for number in (1, 2))
    old = LoopDriver(job)
    old.own()
    old.run_until(first.scheduled_for)
    old.say(RunFinished(first, 1, old.now, FAILED))
    names = [bucket_lease(bucket) for bucket in range(BUCKETS)]
    for holder in ("a", "c"):  # the leases go and come before anything of it is written
        old.store.lease(names, holder, 0, old.now)
    old.store.lease(names, "c", HOUR, old.now)
    old.write()
    assert present(old.store.line(first)).state is FAILED
    new = LoopDriver(job, store=old.store, node="b", now=old.now)
    new.own()
    new.run_until(second.scheduled_for + 2 * SECOND)
    (asked,) = [effect for effect in new.effects if isinstance(effect, LookUpOutcomes)]
    new.say(*outcomes(new.store, asked))
    new.write()
    assert new.launched == []
    assert new.ledger()[-1] == "09:02 skipped"


# At most once


def test_an_at_most_once_run_is_in_the_ledger_as_launching_before_it_is_launched():
    """Otherwise a node that takes over finds it planned, and launches it a second time, on another machine."""
    job = replace(HOURLY, policy=Policy(on_executor_lost=OnExecutorLost.FAIL))
    driver = LoopDriver(job)
    driver.own()
    driver.run_until(TEN.scheduled_for - SECOND)
    driver.say(after_us=SECOND)
    launches = [effect for effect in driver.effects if isinstance(effect, Launch)]
    row = driver.store.line(TEN)
    assert row is not None
    assert not launches or row.state is LAUNCHING


def test_an_at_most_once_run_of_a_deleted_job_is_not_tried_again_when_its_node_is_gone():
    driver = running_at_ten(replace(HOURLY, policy=Policy(on_executor_lost=OnExecutorLost.FAIL)))
    after = LoopDriver(store=driver.store, node="b", now=driver.now + 10 * SECOND)  # the job's file is gone, too
    after.say(NodesSeen(frozenset({"b"})))
    after.own()
    after.say(RunLost(TEN, 1, "gone"))
    after.write()
    assert present(after.store.line(TEN)).state in TERMINAL


def test_a_stopped_run_of_a_fenced_node_was_asked_to_stop_once():
    driver = running_at_ten()
    driver.say(driver.lost(is_fenced=True))
    assert [effect.key for effect in driver.effects if isinstance(effect, Stop)] == [TEN]
    assert present(driver.store.line(TEN)).state not in (PLANNED, SKIPPED)


def test_launches_held_without_a_lease_continue_when_it_is_renewed():
    driver = LoopDriver(EVERY_MINUTE)
    driver.own()
    driver.say(LeaseRenewed(NINE + HOUR))
    driver.run_until(NINE + MINUTE)
    first = RunKey("report", NINE + MINUTE)
    driver.say(started(first))
    driver.say(TriggerJob("r1", "report", driver.now))
    driver.write()
    driver.run_until(driver.now + 10 * SECOND)
    assert driver.launched == [(first, 1)]
    driver.say(LeaseRenewed(driver.now))
    driver.say(RunFinished(first, 1, driver.now, SUCCEEDED))  # the one behind it may not be started: the lease is over
    assert driver.launched == [(first, 1)]
    driver.say(LeaseRenewed(driver.now + HOUR))
    assert [key.origin for key, _ in driver.launched] == ["", "r1"]


AT_MOST_ONCE = replace(HOURLY, policy=Policy(on_executor_lost=OnExecutorLost.FAIL))


def confirmed_without_a_lease() -> LoopDriver:
    """The ledger has it that the run of ten o'clock is launched, and answers when the lease is over."""
    driver = LoopDriver(AT_MOST_ONCE)
    driver.own()
    driver.say(LeaseRenewed(TEN.scheduled_for + 2 * SECOND))
    driver.run_until(TEN.scheduled_for - SECOND, MINUTE // 30)
    driver.say(after_us=SECOND)
    answers = [driver.write_one() for _ in range(len(driver.writes))]
    driver.say(*answers, after_us=5 * SECOND)
    driver.write()
    assert driver.ledger() == ["10:00 launching"]
    assert driver.launched == []
    return driver


def test_a_launch_that_is_confirmed_when_the_lease_is_over_waits_for_its_renewal():
    driver = confirmed_without_a_lease()
    driver.say(LeaseRenewed(driver.now + HOUR))
    assert driver.launched == [(TEN, 1)]


def test_a_launch_that_waits_for_a_renewal_is_not_made_when_its_job_is_another_nodes_by_then():
    driver = confirmed_without_a_lease()
    driver.say(driver.lost(is_fenced=True), LeaseRenewed(driver.now + HOUR))
    driver.write()
    assert driver.launched == []
    (report,) = [request for request in driver.store.claim(None, 10) if request.kind is RequestKind.REPORT]
    assert TEN.run_id in report.payload
    assert "before starting it" in report.payload


def test_a_node_that_was_cut_off_reports_the_end_of_an_attempt_that_the_ledger_has_as_running():
    """Its retry waits for the ledger, which knows nothing of the end; the next owner waits for that attempt."""
    driver = LoopDriver(replace(HOURLY, policy=Policy(retry=Retry(max_retries=3, delay_us=10 * SECOND))))
    driver.state.holds_runs = True
    driver.own()
    driver.run_until(TEN.scheduled_for, MINUTE // 30)
    driver.say(RunStarted(TEN, 1, TEN.scheduled_for, "local@a"))
    driver.write()
    driver.say(RunFinished(TEN, 1, driver.now, FAILED, 3))
    driver.say(after_us=MINUTE)
    assert driver.launched == [(TEN, 1)]
    driver.writes.clear()  # the ledger is out of reach
    after = LoopDriver(HOURLY, store=driver.store, node="b", now=driver.now + MINUTE)
    after.say(NodesSeen(frozenset({"a", "b"})))
    after.own()
    assert after.state.foreign == {TEN: "a"}
    driver.say(driver.lost(is_fenced=True))
    driver.write()
    after.say(*(message_of(request) for request in driver.store.claim(None, 10)))
    after.write()
    row = present(after.store.line(TEN))
    assert (row.state, row.attempt, after.state.foreign) == (FAILED, 1, {})


def test_an_attempt_whose_end_the_ledger_refuses_is_reported_to_the_next_owner():
    """It ended before this node heard that its bucket was taken: nobody else could tell."""
    driver = LoopDriver(replace(HOURLY, policy=Policy(retry=Retry(max_retries=3, delay_us=10 * SECOND))))
    driver.state.holds_runs = True
    driver.own()
    driver.run_until(TEN.scheduled_for, MINUTE // 30)
    driver.say(RunStarted(TEN, 1, TEN.scheduled_for, "local@a"))
    driver.write()
    after = LoopDriver(HOURLY, store=driver.store, node="b", now=driver.now)
    after.say(NodesSeen(frozenset({"a", "b"})))
    after.own()
    after.write()
    driver.say(RunFinished(TEN, 1, driver.now, FAILED, 3))
    driver.write()
    driver.say(driver.lost(is_fenced=True))
    driver.write()
    after.say(*(message_of(request) for request in driver.store.claim(None, 10)))
    after.write()
    row = present(after.store.line(TEN))
    assert (row.state, row.attempt, after.state.foreign) == (FAILED, 1, {})


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(RunLost(TEN, 1, "the ledger was not told of it in time"), id="lost"),
        pytest.param(RunFinished(TEN, 1, TEN.scheduled_for, FAILED), id="failed"),
        pytest.param(RunStarted(TEN, 1, TEN.scheduled_for, "local@b"), id="started"),
    ],
)
def test_an_end_here_does_not_end_the_same_attempt_on_another_node(late):
    """The ledger never knew of the one here; another node has made it since, and its run goes on."""
    driver = LoopDriver(HOURLY)
    driver.own()
    driver.run_until(TEN.scheduled_for, MINUTE // 30)
    driver.say(RunStarted(TEN, 1, TEN.scheduled_for, "local@a"))
    driver.write()
    after = LoopDriver(HOURLY, store=driver.store, node="b", now=driver.now + MINUTE)
    after.say(NodesSeen(frozenset({"a", "b"})))
    after.own()
    after.say(late)
    after.write()
    assert after.launched == []
    assert (after.state.foreign, present(after.store.line(TEN)).executor) == ({TEN: "a"}, "local@a")
    assert after.ledger() == ["10:00 running"]


def test_a_launch_that_should_end_before_it_is_confirmed_is_not_made():
    driver = LoopDriver(AT_MOST_ONCE)
    driver.own()
    driver.run_until(TEN.scheduled_for - SECOND, MINUTE // 30)
    driver.say(after_us=SECOND)
    driver.say(CancelRun("r1", "report", TEN))
    driver.write()
    driver.write()
    assert driver.launched == []
    assert driver.ledger() == ["10:00 cancelled"]


def test_a_refused_write_from_before_a_takeover_does_not_affect_the_run_that_was_taken_over():
    driver = running_at_ten()
    driver.say(RunFinished(TEN, 1, driver.now, FAILED))
    (number,) = [write.number for write in driver.writes if isinstance(write, Record)]
    late = list(driver.writes)
    driver.writes.clear()  # on its way for long: another node has had the job meanwhile, and it came back
    driver.say(driver.lost(is_fenced=True))
    driver.own()
    driver.write()
    before = driver.state.jobs["report"].find(TEN)
    assert before is not None
    assert late
    driver.say(ChangesRecorded([number], frozenset({TEN})))
    assert driver.state.jobs["report"].find(TEN) is before


def test_the_next_attempt_of_a_paused_job_that_was_deleted_and_is_back_is_made():
    driver = running_at_ten(replace(HOURLY, policy=Policy(retry=Retry(max_retries=1, delay_us=10 * SECOND))))
    job = driver.state.jobs["report"].job
    driver.say(PauseJob("r1", "report"))
    driver.say(RunFinished(TEN, 1, driver.now, FAILED))
    driver.say(DefinitionsChanged(removed=["report"]))
    driver.run_until(driver.now + 20 * SECOND)
    driver.say(DefinitionsChanged([job]))
    driver.run_until(driver.now + 5 * SECOND)
    assert driver.launched == [(TEN, 1), (TEN, 2)]


def test_the_next_attempt_of_a_job_that_was_gone_and_is_written_anew_is_made():
    driver = running_at_ten(replace(HOURLY, policy=Policy(retry=Retry(max_retries=1, delay_us=10 * SECOND))))
    job = driver.state.jobs["report"].job
    driver.say(DefinitionsChanged(removed=["report"]))
    driver.run_until(driver.now + 2 * MINUTE, 10 * SECOND)
    driver.say(RunFinished(TEN, 1, driver.now, FAILED))
    driver.run_until(driver.now + 20 * SECOND)
    driver.say(DefinitionsChanged([job]))
    driver.run_until(driver.now + 5 * SECOND)
    assert driver.launched == [(TEN, 1), (TEN, 2)]


def ended_elsewhere(driver: LoopDriver, key: RunKey) -> None:
    """The ledger refuses a change of an active run: another node has ended it."""
    driver.say(StepsSeen(key, 1, "[]"))
    (number,) = [write.number for write in driver.writes if isinstance(write, Record)]
    driver.writes.clear()
    driver.say(ChangesRecorded([number], frozenset({key})))
    driver.write()


def test_a_run_that_another_node_has_ended_frees_its_place_in_its_queue():
    jobs = (replace(HOURLY, queue="database"), replace(HOURLY, id="other", queue="database"))
    driver = LoopDriver(*jobs, settings=LoopSettings(queues=(("database", 1),)))
    driver.own()
    driver.run_until(TEN.scheduled_for, MINUTE // 30)
    driver.write()
    ((key, attempt),) = driver.launched
    driver.say(started(key, attempt))
    driver.write()
    ended_elsewhere(driver, key)
    driver.run_until(driver.now + 10 * SECOND)
    assert [one.job_id for one, _ in driver.launched] == ["report", "other"]


def test_a_cancellation_is_answered_when_another_node_has_ended_the_run():
    driver = running_at_ten()
    driver.store.commit(Batch(by="r1", requests=[Request("r1", RequestKind.CANCEL, "report", "{}", driver.now)]))
    driver.say(CancelRun("r1", "report", TEN))
    driver.write()
    ended_elsewhere(driver, TEN)
    (request,) = driver.store.requests(["r1"])
    assert request.answer is not None


def test_a_resume_is_answered_although_the_job_is_deleted_before_it_is_planned():
    driver = LoopDriver(HOURLY)
    driver.own()
    driver.say(PauseJob("r1", "report"))
    driver.store.commit(Batch(by="r2", requests=[Request("r2", RequestKind.RESUME, "report", "{}", driver.now)]))
    driver.say(ResumeJob("r2", "report"), DefinitionsChanged(removed=["report"]))
    driver.run_until(driver.now + 2 * MINUTE, 10 * SECOND)
    assert driver.store.requests(["r2"])[0].answer is not None


def test_an_occurrence_of_a_blackout_that_is_over_by_a_clock_that_was_ahead_fires_at_its_next_owner():
    """It was entered ahead, as one of the blackout. Nothing holds the job any more, so no end will decide about it."""
    dark = Blackout(NINE + 10 * MINUTE, NINE + 25 * MINUTE, "maintenance")
    every_ten = replace(EVERY_MINUTE, schedules=(EverySpec(10 * MINUTE),), blackouts=(dark,))
    driver = LoopDriver(every_ten)
    driver.own()
    driver.write()
    ahead = LoopDriver(every_ten, store=driver.store, now=NINE + 40 * MINUTE)
    ahead.say()
    ahead.now = NINE + 12 * MINUTE  # its clock is set right
    ahead.own()
    ahead.write()
    twenty = RunKey("report", NINE + 20 * MINUTE)
    assert present(ahead.store.line(twenty)).state is PLANNED
    successor = LoopDriver(every_ten, store=driver.store, node="b", now=NINE + 21 * MINUTE)
    successor.own()
    successor.write()
    (asked,) = [one for effect in successor.effects if isinstance(effect, Reconcile) for one in effect.runs]
    assert asked.key == twenty

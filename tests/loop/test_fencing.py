"""Batches in flight while buckets change their owner: the ledger never has a plan without the one before it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evertick.errors import Fenced
from evertick.loop.effects import Commit, Reconcile
from evertick.loop.messages import (
    BatchFenced,
    BucketsGained,
    BucketsLost,
    DefinitionsChanged,
    RunFinished,
    RunStarted,
    RunUnknown,
    TriggerJob,
)
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import After, Job
from evertick.model.ledger import RequestKind, bucket_lease, bucket_of
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.policy import Overlap, OverlapKind, Policy
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from tests.simulator.loop_driver import NINE, LoopDriver

REPORT = Job("report", schedules=(EverySpec(2 * SECOND),), policy=Policy(overlap=Overlap(OverlapKind.PARALLEL, 50)))
OTHER = Job("other", schedules=(EverySpec(HOUR),))
assert bucket_of("report") != bucket_of("other")


def planning() -> LoopDriver:
    driver = LoopDriver(REPORT, OTHER)
    driver.own()
    driver.run_until(NINE + 10 * SECOND)
    return driver


def take(driver: LoopDriver, job_id: str) -> BucketsLost:
    """Another node takes the bucket of a job; answers what the leadership says as soon as it knows."""
    bucket = bucket_of(job_id)
    driver.store.lease([bucket_lease(bucket)], driver.node, 0, driver.now)
    driver.store.lease([bucket_lease(bucket)], "z", 1_000 * HOUR, driver.now)
    return BucketsLost({bucket: driver.state.epochs[bucket]}, is_fenced=True)


def give_back(driver: LoopDriver, job_id: str) -> BucketsGained:
    bucket = bucket_of(job_id)
    driver.store.lease([bucket_lease(bucket)], "z", 0, driver.now)
    held = driver.store.lease([bucket_lease(bucket)], driver.node, 1_000 * HOUR, driver.now)
    (epoch,) = [one.epoch for one in held if one.name == bucket_lease(bucket)]
    return BucketsGained({bucket: epoch}, driver.store.load([bucket]))


def write_step_by_step(driver: LoopDriver) -> None:
    """Any write may be the last of a node: the ledger must be whole after each."""
    for _ in range(100):
        if not driver.writes:
            return
        answer = driver.write_one()
        assert not driver.verified().lost
        driver.say(answer)
    raise AssertionError("the same is written over and over")


def test_a_repeated_batch_leaves_out_what_is_planned_after_it():
    driver = planning()
    driver.say(DefinitionsChanged([replace(REPORT, definition="another")]))  # a line of its job, and nothing entered
    take(driver, "other")
    fenced = driver.write_one()
    assert isinstance(fenced, BatchFenced)
    driver.say(fenced, after_us=4 * SECOND)  # in the same turn more is planned
    write_step_by_step(driver)
    assert driver.verified().is_sound


def test_a_repeated_batch_leaves_out_what_was_planned_after_it():
    driver = planning()
    driver.say(DefinitionsChanged([replace(REPORT, definition="another")]))
    driver.say(after_us=2 * SECOND)
    take(driver, "other")
    write_step_by_step(driver)
    assert driver.verified().is_sound


def test_what_is_decided_after_a_bucket_was_lost_does_not_overtake_what_will_be_refused_for_it():
    driver = planning()
    driver.say(after_us=2 * SECOND)
    driver.say()  # entries, on their way: the plan gives way to what is due
    driver.say(take(driver, "other"))  # the leadership knows before the writer has its answer
    driver.say(after_us=2 * SECOND)
    driver.say()
    assert len([one for one in driver.writes if isinstance(one, Commit)]) >= 2
    write_step_by_step(driver)
    driver.run_until(driver.now + 10 * SECOND)
    assert driver.verified().is_sound
    assert len(driver.launched) == len(set(driver.launched))


def test_what_is_decided_after_a_bucket_came_back_is_kept_although_older_batches_are_refused_for_it():
    driver = planning()
    driver.say(after_us=2 * SECOND)
    driver.say(take(driver, "report"))
    driver.say(give_back(driver, "report"))
    driver.say(TriggerJob("r1", "report", driver.now))
    (asked,) = [one for one in driver.effects if isinstance(one, Reconcile)]
    driver.say(*(RunUnknown(key, attempt) for key, attempt, *_ in asked.runs))
    write_step_by_step(driver)
    assert [row for row in driver.store.contents().rows if row.key.origin]
    driver.run_until(driver.now + 10 * SECOND)
    assert driver.verified().is_sound
    due = {key.scheduled_for for key, _ in driver.launched if not key.origin}
    assert {driver.now - 2 * SECOND, driver.now - 4 * SECOND} <= due


def test_writes_about_a_lost_bucket_are_not_repeated_when_it_is_back():
    driver = planning()
    driver.say(DefinitionsChanged([replace(REPORT, definition="another")]))
    (old,) = [one for one in driver.writes if isinstance(one, Commit)]
    driver.say(take(driver, "report"))
    gained = give_back(driver, "report")
    driver.writes.clear()
    decision = driver.say(gained, BatchFenced(old.number, (bucket_of("report"),)))
    again = next(one for one in decision.effects if isinstance(one, Commit))
    assert not [record for record in again.batch.jobs if record.job_id == "report"]
    assert bucket_of("report") not in again.batch.floors


def test_a_batch_whose_answer_was_lost_is_recognised_when_it_is_repeated():
    driver = planning()
    driver.say(after_us=2 * SECOND)
    driver.say()  # the plan gives way to what is due
    commit = next(one for one in driver.writes if isinstance(one, Commit))
    keys = [entry.key for entry in commit.batch.entries]
    assert keys
    driver.store.commit(commit.batch)  # and the reply does not come
    take(driver, "other")
    with pytest.raises(Fenced):
        driver.store.commit(commit.batch)
    write_step_by_step(driver)
    driver.run_until(driver.now + 10 * SECOND)
    assert set(keys) <= {key for key, _ in driver.launched}


def test_the_next_owner_receives_the_end_of_a_run_although_its_batch_was_refused_long_after():
    ten = RunKey("other", NINE + HOUR)
    chained = Job("chained", after=After(("other",)))  # so that the end is written with what comes of it
    driver = LoopDriver(OTHER, chained)
    driver.own()
    driver.run_until(ten.scheduled_for, MINUTE)
    driver.say(RunStarted(ten, 1, driver.now, "local@a"))
    driver.write()
    driver.say(RunFinished(ten, 1, driver.now, SUCCEEDED))
    successor = LoopDriver(OTHER, chained, store=driver.store, node="b", now=driver.now)
    successor.own()
    successor.write()
    for _ in range(5):
        driver.say(after_us=MINUTE)  # the ledger does not answer this node
    driver.write()
    (report,) = [one for one in driver.store.claim(None, 10) if one.kind is RequestKind.REPORT]
    assert json.loads(report.payload)["state"] == SUCCEEDED

"""Batches on their way while buckets go to other nodes: the ledger never learns of planning before what was planned."""

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
from evertick.model.bucket import bucket_of
from evertick.model.chain import After
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.ledger import RequestKind, bucket_lease
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.policy import Overlap, OverlapKind, Policy
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from tests.simulator.desk import NINE, Desk

REPORT = Job("report", schedules=(EverySpec(2 * SECOND),), policy=Policy(overlap=Overlap(OverlapKind.PARALLEL, 50)))
OTHER = Job("other", schedules=(EverySpec(HOUR),))
assert bucket_of("report") != bucket_of("other")


def planning() -> Desk:
    desk = Desk(REPORT, OTHER)
    desk.own()
    desk.run_until(NINE + 10 * SECOND)
    return desk


def take(desk: Desk, job_id: str) -> BucketsLost:
    """Another node takes the bucket of a job; answers what the leadership says as soon as it knows."""
    bucket = bucket_of(job_id)
    desk.store.lease([bucket_lease(bucket)], desk.node, 0, desk.now)
    desk.store.lease([bucket_lease(bucket)], "z", 1_000 * HOUR, desk.now)
    return BucketsLost({bucket: desk.state.epochs[bucket]}, is_fenced=True)


def give_back(desk: Desk, job_id: str) -> BucketsGained:
    bucket = bucket_of(job_id)
    desk.store.lease([bucket_lease(bucket)], "z", 0, desk.now)
    held = desk.store.lease([bucket_lease(bucket)], desk.node, 1_000 * HOUR, desk.now)
    (epoch,) = [one.epoch for one in held if one.name == bucket_lease(bucket)]
    return BucketsGained({bucket: epoch}, desk.store.load([bucket]))


def write_step_by_step(desk: Desk) -> None:
    """Any write may be the last of a node: the ledger must be whole after each."""
    for _ in range(100):
        if not desk.writes:
            return
        answer = desk.write_one()
        assert not desk.verified().lost
        desk.say(answer)
    raise AssertionError("the same is written over and over")


def test_a_batch_that_is_said_again_does_not_speak_of_what_is_planned_after_it():
    desk = planning()
    desk.say(DefinitionsChanged([replace(REPORT, definition="another")]))  # a line of its job, and nothing entered
    take(desk, "other")
    fenced = desk.write_one()
    assert isinstance(fenced, BatchFenced)
    desk.say(fenced, after_us=4 * SECOND)  # in the same turn more is planned
    write_step_by_step(desk)
    assert desk.verified().is_sound


def test_a_batch_that_is_said_again_does_not_speak_of_what_was_planned_behind_it():
    desk = planning()
    desk.say(DefinitionsChanged([replace(REPORT, definition="another")]))
    desk.say(after_us=2 * SECOND)
    take(desk, "other")
    write_step_by_step(desk)
    assert desk.verified().is_sound


def test_what_is_decided_after_a_bucket_was_lost_does_not_overtake_what_will_be_refused_for_it():
    desk = planning()
    desk.say(after_us=2 * SECOND)  # entries, on their way
    desk.say(take(desk, "other"))  # the leadership knows before the writer has its answer
    desk.say(after_us=2 * SECOND)
    assert len([one for one in desk.writes if isinstance(one, Commit)]) >= 2
    write_step_by_step(desk)
    desk.run_until(desk.now + 10 * SECOND)
    assert desk.verified().is_sound
    assert len(desk.launched) == len(set(desk.launched))


def test_what_is_decided_after_a_bucket_came_back_is_kept_although_older_batches_are_refused_for_it():
    desk = planning()
    desk.say(after_us=2 * SECOND)
    desk.say(take(desk, "report"))
    desk.say(give_back(desk, "report"))
    desk.say(TriggerJob("r1", "report", desk.now))
    (asked,) = [one for one in desk.effects if isinstance(one, Reconcile)]
    desk.say(*(RunUnknown(key, attempt) for key, attempt, *_ in asked.runs))
    write_step_by_step(desk)
    assert [row for row in desk.store.contents().rows if row.key.origin]
    desk.run_until(desk.now + 10 * SECOND)
    assert desk.verified().is_sound
    due = {key.scheduled_for for key, _ in desk.launched if not key.origin}
    assert {desk.now - 2 * SECOND, desk.now - 4 * SECOND} <= due


def test_what_was_said_of_a_bucket_before_it_was_lost_is_not_said_again_when_it_is_back():
    desk = planning()
    desk.say(DefinitionsChanged([replace(REPORT, definition="another")]))
    (old,) = [one for one in desk.writes if isinstance(one, Commit)]
    desk.say(take(desk, "report"))
    gained = give_back(desk, "report")
    desk.writes.clear()
    decision = desk.say(gained, BatchFenced(old.number, (bucket_of("report"),)))
    again = next(one for one in decision.effects if isinstance(one, Commit))
    assert not [record for record in again.batch.jobs if record.job_id == "report"]
    assert bucket_of("report") not in again.batch.floors


def test_a_batch_that_was_written_although_its_answer_was_lost_is_known_when_it_is_said_again():
    desk = planning()
    desk.say(after_us=2 * SECOND)
    commit = next(one for one in desk.writes if isinstance(one, Commit))
    keys = [entry.key for entry in commit.batch.entries]
    assert keys
    desk.store.commit(commit.batch)  # and the reply does not come
    take(desk, "other")
    with pytest.raises(Fenced):
        desk.store.commit(commit.batch)
    write_step_by_step(desk)
    desk.run_until(desk.now + 10 * SECOND)
    assert set(keys) <= {key for key, _ in desk.launched}


def test_the_next_owner_hears_how_a_run_ended_although_the_batch_that_said_so_was_refused_long_after():
    ten = RunKey("other", NINE + HOUR)
    chained = Job("chained", after=After(("other",)))  # so that the end is written with what comes of it
    desk = Desk(OTHER, chained)
    desk.own()
    desk.run_until(ten.scheduled_for, MINUTE)
    desk.say(RunStarted(ten, 1, desk.now, "local@a"))
    desk.write()
    desk.say(RunFinished(ten, 1, desk.now, SUCCEEDED))
    successor = Desk(OTHER, chained, store=desk.store, node="b", now=desk.now)
    successor.own()
    successor.write()
    for _ in range(5):
        desk.say(after_us=MINUTE)  # the ledger does not answer this node
    desk.write()
    (report,) = [one for one in desk.store.claim(None, 10) if one.kind is RequestKind.REPORT]
    assert json.loads(report.payload)["state"] == SUCCEEDED

"""The states of jobs, from the ledger and the folder."""

from __future__ import annotations

import pytest

from evertick.definitions.source import Folder
from evertick.model.instant import MINUTE, to_datetime
from evertick.model.ledger import Batch, bucket_of
from evertick.model.lifecycle import FAILED, SKIPPED, WAITING, JobStatus, SkipReason
from evertick.operations.local import LocalOperations
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key, ran


def standing_of(store, jobs, now):
    return LocalOperations(store, lambda: Folder(jobs=jobs), now=lambda: now).job("etl")


@pytest.mark.parametrize(
    ("record", "written", "status"),
    [
        pytest.param({}, "", JobStatus.IDLE, id="nothing special is idle"),
        pytest.param({"paused_at": at(3), "held": True}, "", JobStatus.PAUSED, id="paused"),
        pytest.param({"held": True}, "enabled: false\n", JobStatus.DISABLED, id="disabled by its definition"),
        pytest.param({"has_failed": True}, "", JobStatus.ERROR, id="the last run failed"),
        pytest.param({"error": "ValueError: x", "held": True}, "", JobStatus.ERROR, id="it could not be planned"),
        pytest.param({"held": True}, None, JobStatus.DISABLED, id="held, and its file is not known"),
        pytest.param({"retired_at": at(3)}, None, JobStatus.DISABLED, id="its definition is gone"),
    ],
)
def test_a_job_has_the_status_of_its_record(store, record, written, status):
    fill(store, watermark=4, **record)
    jobs = {} if written is None else {"etl": job(TEXT + written)}
    found = standing_of(store, jobs, at(4.5))
    assert found.status is status
    assert (found.next_at is None) is (status is not JobStatus.IDLE and not record.get("has_failed"))


def test_an_active_run_makes_it_running_and_others_wait(store):
    fill(store, entry(1), entry(2), watermark=4)
    ran(store, key(1), at(1), None)
    change(store, key(2), WAITING, at(2))
    found = standing_of(store, {}, at(4.5))
    assert found.status is JobStatus.RUNNING
    assert ([run.run for run in found.active_runs], found.active, found.waiting) == ([key(1).run_id], 1, 1)


def test_the_last_outcome_is_that_of_a_run_not_of_a_skip(store):
    fill(store, entry(1), entry(2, state=SKIPPED, reason=SkipReason.OVERLAP), watermark=4)
    ran(store, key(1), at(1), at(1) + MINUTE, FAILED)
    found = standing_of(store, {}, at(4.5))
    assert found.last is not None
    assert found.last.state is FAILED


def test_a_one_off_that_is_past_is_finished(store):
    one = job("schedule: {at: '2026-03-02T01:00:00Z'}\ncommand: x\n")
    fill(store, watermark=4, one=one)
    assert standing_of(store, {"etl": one}, at(4.5)).status is JobStatus.FINISHED


def test_the_floor_lifts_the_watermark_of_a_job_that_is_not_held(store):
    fill(store, watermark=4)
    store.commit(Batch(by="a1/1#2", floors={bucket_of("etl"): at(5)}))
    assert standing_of(store, {}, at(5)).watermark == to_datetime(at(5))

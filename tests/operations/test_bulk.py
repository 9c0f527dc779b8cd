"""Does an action on many runs or jobs do what its preview showed, once to each, and to no other?"""

from __future__ import annotations

import pytest

from evertick.definitions.source import Folder
from evertick.errors import InvalidArgument, NotFound
from evertick.model.lifecycle import FAILED, RUNNING, SKIPPED, WAITING, SkipReason
from evertick.model.steps import StepRecord, digest_of, steps_text
from evertick.operations.bulk import ITEMS_MAX
from evertick.operations.local import LocalOperations
from evertick.operations.results.bulk import BulkAction, BulkItem
from tests.operations.ledger import at, change, entry, fill, job, key, ran

WINDOW = ("2026-03-02T00:00Z", "2026-03-02T05:00Z")


@pytest.fixture
def operations(store):
    fill(store, entry(1), entry(2), entry(3), entry(4), watermark=5)
    ran(store, key(1), at(1), at(1.1))
    ran(store, key(2), at(2), at(2.1), FAILED)
    change(store, key(3), WAITING, at(3))
    change(store, key(4), WAITING, at(4))
    paused = job(name="paused")
    fill(store, watermark=5, one=paused, paused_at=at(4), held=True)
    folder = Folder(jobs={"etl": job(), "paused": paused})
    return LocalOperations(store, lambda: folder, now=lambda: at(5.5), is_scheduler_running=lambda: True)


def told(found):
    return [(item.run or item.job, item.obstacle, item.count) for item in found.items]


def requests(store):
    return sorted((one.kind, one.job_id) for one in store.claim(None, 100))


@pytest.mark.parametrize(
    ("action", "items", "chosen"),
    [
        pytest.param(BulkAction.RUN, [("etl", None, 1), ("paused", None, 1)], 2, id="run"),
        pytest.param(BulkAction.PAUSE, [("etl", None, 0), ("paused", "paused-already", 0)], 1, id="pause"),
        pytest.param(BulkAction.RESUME, [("etl", "not-paused", 0), ("paused", None, 0)], 1, id="resume"),
    ],
)
def test_a_preview_says_what_happens_to_each_job_and_changes_nothing(operations, store, action, items, chosen):
    found = operations.bulk(action, ["etl", "paused", "etl"], preview=True)
    assert (told(found), found.chosen, found.is_preview) == (items, chosen, True)
    assert requests(store) == []
    done = operations.bulk(action, ["etl", "paused"], request_id="one")
    assert (told(done), done.chosen) == (items, chosen)
    assert len(requests(store)) == chosen
    operations.bulk(action, ["etl", "paused"], request_id="one")
    assert len(requests(store)) == chosen, "the same request twice is one"


def test_a_preview_says_how_many_runs_of_each_job_are_active(operations, store):
    fill(store, entry(5, key=key(5, name="paused")), watermark=6, one=job(name="paused"), paused_at=at(4), held=True)
    change(store, key(5, name="paused"), RUNNING, at(5))
    found = operations.bulk(BulkAction.RUN, ["etl", "paused"], preview=True)
    assert [(item.job, item.active) for item in found.items] == [("etl", 0), ("paused", 1)]


def test_bulk_retries_failed_and_cancels_waiting_runs_of_jobs_in_a_period(operations, store):
    assert told(operations.bulk(BulkAction.RETRY, ["etl"], (), *WINDOW, preview=True)) == [(key(2).run_id, None, 1)]
    noted: list[BulkItem] = []
    done = operations.bulk(BulkAction.CANCEL, ["etl"], (), *WINDOW, audit=noted.append)
    assert told(done) == [(key(3).run_id, None, 1), (key(4).run_id, None, 1)]
    assert [item.run for item in noted] == [key(3).run_id, key(4).run_id]
    assert all(item.request for item in noted)
    assert len(requests(store)) == 2
    assert told(operations.bulk(BulkAction.BACKFILL, ["etl"], (), *WINDOW, preview=True))[0][:2] == ("etl", None)


def test_runs_that_an_action_does_not_apply_to_are_left_alone(operations, store):
    ids = [key(hour).run_id for hour in (1, 2, 3)]
    assert told(operations.bulk(BulkAction.CANCEL, runs=ids, preview=True)) == [
        (ids[0], "ended", 0),
        (ids[1], "ended", 0),
        (ids[2], None, 1),
    ]
    assert told(operations.bulk(BulkAction.RETRY, runs=ids, preview=True)) == [
        (ids[0], None, 1),
        (ids[1], None, 1),
        (ids[2], "not-ended", 0),
    ]


def test_only_runs_with_a_failed_step_are_retried_from_it(operations, store):
    two = job("steps: [{name: one, command: x}, {name: two, command: y, depends: one}]\n", name="two")
    fill(store, *(entry(hour, key=key(hour, name="two")) for hour in (1, 2, 3)), watermark=5, one=two)
    for hour, digest in ((1, digest_of(two.steps[0])), (2, "of another version")):
        steps = [StepRecord("one", "succeeded", 1, digest=digest), StepRecord("two", "failed", 1)]
        ran(store, key(hour, name="two"), at(hour), at(hour + 0.1), FAILED, steps=steps_text(steps))
    ran(store, key(3, name="two"), at(3), at(3.1), FAILED)
    folder = Folder(jobs={"two": two})
    operations = LocalOperations(store, lambda: folder, now=lambda: at(5.5), is_scheduler_running=lambda: True)
    ids = [key(hour, name="two").run_id for hour in (1, 2, 3)]
    expected = [(ids[0], None, 1), (ids[1], "refused", 0), (ids[2], "no-failed-step", 0)]
    found = operations.bulk(BulkAction.RETRY_FAILED, runs=ids, preview=True)
    assert told(found) == expected
    assert "changed or removed since" in found.items[1].detail
    assert told(operations.bulk(BulkAction.RETRY_FAILED, ["two"], (), *WINDOW, preview=True)) == expected
    operations.bulk(BulkAction.RETRY_FAILED, runs=ids)
    assert requests(store) == [("trigger", "two")]


def test_a_gap_is_not_retried(operations, store):
    other = job(name="gone")
    gap = entry(2, key=key(2, name="gone"), state=SKIPPED, reason=SkipReason.MISSED, through=at(4), occurrences=3)
    fill(store, gap, watermark=5, one=other)
    found = operations.bulk(BulkAction.RETRY, runs=[key(2, name="gone").run_id], preview=True)
    assert told(found) == [(key(2, name="gone").run_id, "is-gap", 0)]
    assert told(operations.bulk(BulkAction.RUN, ["gone", "never"], preview=True)) == [
        ("gone", "deleted", 0),
        ("never", "unknown", 0),
    ]


@pytest.mark.parametrize(
    ("known", "problem"),
    [
        pytest.param({"action": BulkAction.RUN, "runs": ["etl@x"]}, InvalidArgument, id="run a run"),
        pytest.param({"action": BulkAction.BACKFILL, "jobs": ["etl"]}, InvalidArgument, id="backfill without a period"),
        pytest.param({"action": BulkAction.RETRY, "jobs": ["etl"]}, InvalidArgument, id="retry without a period"),
        pytest.param({"action": BulkAction.RUN, "jobs": ["x"] * (ITEMS_MAX + 1)}, InvalidArgument, id="too many"),
        pytest.param({"action": BulkAction.CANCEL, "jobs": ["etl"], "start": WINDOW[0]}, InvalidArgument, id="half"),
        pytest.param({"action": BulkAction.CANCEL, "runs": ["no@2026-03-02T00:00:00Z"]}, NotFound, id="no such run"),
    ],
)
def test_what_cannot_be_meant_is_refused(operations, known, problem):
    with pytest.raises(problem):
        operations.bulk(**known)

"""Which step of a job keeps failing, and on which days?"""

from __future__ import annotations

import pytest

from evertick.definitions.source import Folder
from evertick.errors import InvalidArgument, NotFound
from evertick.model.lifecycle import FAILED
from evertick.model.steps import StepRecord, steps_text
from evertick.operations.local import LocalOperations
from tests.operations.ledger import at, entry, fill, job, key, ran

STEPS = "schedule: '0 * * * *'\nsteps:\n  - {name: a, command: x}\n  - {name: b, command: x, depends: a}\n"


@pytest.fixture
def operations(store):
    one = job(STEPS)
    fill(store, *map(entry, (1, 2, 3)), watermark=5, one=one)
    good = steps_text([StepRecord("a", "succeeded"), StepRecord("b", "succeeded", tries=3)])
    bad = steps_text([StepRecord("a", "succeeded"), StepRecord("b", "failed"), StepRecord("old", "skipped")])
    ran(store, key(1), at(1), at(1.1), steps=good)
    ran(store, key(2), at(2), at(2.1), FAILED, steps=bad)
    ran(store, key(3), at(3), at(3.1))
    folder = Folder(jobs={"etl": one})
    return LocalOperations(store, lambda: folder, now=lambda: at(5.5), is_scheduler_running=lambda: True)


def test_each_step_has_its_state_in_each_of_the_last_runs_oldest_first(operations):
    found = operations.step_history("etl")
    assert [run.run for run in found.runs] == [key(hour).run_id for hour in (1, 2, 3)]
    assert [(row.name, row.states, row.failures, row.retries) for row in found.steps] == [
        ("a", ("succeeded", "succeeded", None), 0, 0),
        ("b", ("succeeded", "failed", None), 1, 2),
        ("old", (None, "skipped", None), 0, 0),
    ]
    assert [row.states for row in operations.step_history("etl", 1).steps] == [(None,), (None,)]


def test_runs_count_on_the_weekday_of_the_zone_of_the_job(operations):
    found = operations.step_history("etl").weekdays
    assert [(day.weekday, day.succeeded, day.failed) for day in found] == [
        (0, 2, 1),
        *((day, 0, 0) for day in range(1, 7)),
    ]


def test_an_unknown_job_and_a_limit_of_zero_are_refused(operations):
    with pytest.raises(NotFound):
        operations.step_history("nobody")
    with pytest.raises(InvalidArgument):
        operations.step_history("etl", 0)

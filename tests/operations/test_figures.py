"""Are the figures of a job correct: rates, lateness, active runs, and what never ran?"""

from __future__ import annotations

import pytest

from evertick.cli.overview import lines_of, tables_of
from evertick.definitions.source import Folder
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    LOST,
    SKIPPED,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
    SkipReason,
    Trigger,
)
from evertick.operations.figures import success_rate
from evertick.operations.local import LocalOperations
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key, ran


@pytest.fixture
def make(store):
    def make(*jobs, hour=8.5):
        folder = Folder(jobs={one.id: one for one in jobs or (job(),)})
        return LocalOperations(store, lambda: folder, now=lambda: at(hour))

    return make


@pytest.mark.parametrize(
    ("states", "rate"),
    [
        pytest.param({}, None, id="nothing has ended"),
        pytest.param({SUCCEEDED: 3, FAILED: 1}, 0.75, id="a failure counts"),
        pytest.param({SUCCEEDED: 2, TIMED_OUT: 1, LOST: 1}, 0.5, id="so do others that went wrong"),
        pytest.param({SUCCEEDED: 4, CANCELLED: 5_760, WAITING: 9, SKIPPED: 7}, 1.0, id="nothing else does"),
        pytest.param({CANCELLED: 3}, None, id="of cancelled ones there is no rate"),
    ],
)
def test_the_success_rate_is_that_of_runs_that_came_to_an_end_of_their_own(states, rate):
    assert success_rate(states) == rate


def test_cancelled_and_waiting_runs_are_no_failures_of_a_day_or_a_job(store, make):
    fill(store, *(entry(hour) for hour in range(1, 6)), watermark=6)
    ran(store, key(1), at(1), at(1) + MINUTE)
    ran(store, key(2), at(2), at(2) + MINUTE, FAILED)
    for hour in (3, 4):
        change(store, key(hour), CANCELLED, at(hour))
    change(store, key(5), WAITING, at(5))
    operations = make()
    assert (operations.overview().day.success_rate, operations.durations("etl").success_rate) == (0.5, 0.5)
    assert "1 succeeded, 1 failed, 2 cancelled (50.0% success)" in lines_of(operations.overview())[2]


def test_an_hour_separates_cancelled_running_and_waiting(store, make):
    fill(store, *(entry(hour) for hour in range(1, 5)), watermark=6)
    change(store, key(1), CANCELLED, at(1))
    change(store, key(2), WAITING, at(2))
    ran(store, key(3), at(3), None)
    hours = {f"{hour.at:%H}": hour for hour in make().overview().hours}
    told = ("cancelled", "waiting", "running", "succeeded", "failed", "skipped")
    assert [[getattr(hours[name], word) for word in told] for name in ("01", "02", "03", "04")] == [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
    ]


def test_lateness_is_that_of_scheduled_runs_that_nothing_held_back(store, make):
    caught_up = entry(1, trigger=Trigger.CATCHUP)
    fill(store, caught_up, *(entry(hour) for hour in (2, 3, 4)), watermark=6)
    ran(store, key(1), at(6), at(6) + MINUTE)  # by the length of an outage
    ran(store, key(2), at(2) + HOUR // 2, at(3))  # held back by a full queue, beyond its grace
    ran(store, key(3), at(3) + SECOND, at(4))
    ran(store, key(4), at(4) + 3 * SECOND, at(5))
    operations = make()
    assert operations.durations("etl").lateness.max == operations.overview().lateness.max == 3.0


def test_a_run_that_no_executor_has_started_does_not_run(store, make):
    fill(store, entry(1), watermark=6)
    change(store, key(1), LAUNCHING, at(1), attempt=1, executor="fleet:ex-a")
    operations = make()
    found = operations.overview()
    assert (operations.job("etl").status, operations.list_jobs().items[0].status) == ("idle", "idle")
    assert (found.running_count, found.waiting_count, found.jobs.running) == (0, 1, 0)
    change(store, key(1), LAUNCHING, at(1), started_at=at(1))
    assert operations.job("etl").status == "running"


def test_of_a_job_that_was_skipped_every_time_the_skips_are_reported(store, make):
    fill(
        store,
        entry(1, state=SKIPPED, reason=SkipReason.OVERLAP),
        entry(2, state=SKIPPED, reason=SkipReason.CONDITION),
        entry(3, state=SKIPPED, reason=SkipReason.CONDITION),
        entry(4),
        watermark=6,
    )
    operations = make()
    told = {"condition": 2, "overlap": 1}
    assert operations.job("etl").skips == operations.list_jobs().items[0].skips == told
    ran(store, key(4), at(4), at(4) + MINUTE)
    assert operations.job("etl").skips == operations.list_jobs().items[0].skips == {}


def test_what_is_next_says_whether_it_starts_or_stops(make):
    operations = make(job('schedule: {start: "0 9 * * *", stop: "45 8 * * *"}\ncommand: x\n'))
    fires = operations.overview().next
    assert [(fire.action, f"{fire.scheduled_for:%H:%M}") for fire in fires] == [("stop", "08:45"), ("start", "09:00")]
    (ahead,) = [table for table in tables_of(operations.overview(), 8) if table.title.startswith("Next")]
    assert "Action" in [column.title for column in ahead.columns]


def test_whatever_is_about_a_job_has_its_name(store, make):
    named = job(TEXT + "name: Nightly ETL\n")
    fill(store, entry(1), watermark=6, one=named)
    ran(store, key(1), at(1), None)
    operations = make(named)
    found = operations.overview()
    assert (found.running[0].job_name, found.next[0].job_name) == ("Nightly ETL", "Nightly ETL")
    assert operations.list_runs().items[0].job_name == operations.run(found.running[0].run).job_name == "Nightly ETL"

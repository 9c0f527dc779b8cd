"""Are the coming occurrences of all jobs listed, how far, and the rest of backfills?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evertick.definitions.source import Folder
from evertick.errors import InvalidArgument, NotFound
from evertick.model.blackout import Blackout
from evertick.model.instant import to_datetime
from evertick.model.ledger import Batch
from evertick.model.lifecycle import CANCELLED, RUNNING, SUCCEEDED, SkipReason, Trigger
from evertick.operations import calendar_days
from evertick.operations.local import LocalOperations
from evertick.operations.requests import backfill_request
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key

NIGHTLY = "schedule: '30 2 * * *'\ntimezone: UTC\ncommand: x\n"
PAUSED: dict[str, Any] = {"paused_at": at(1), "held": True}


@pytest.fixture
def make(store):
    """A operations on the ledger, at half past four."""

    def make(*jobs):
        folder = Folder(jobs={one.id: one for one in jobs})
        return LocalOperations(store, lambda: folder, now=lambda: at(4.5))

    return make


def planned(operations, start="2026-03-01", end="2026-03-04"):
    return [day.planned for day in operations.calendar(None, start, end, "UTC").days]


def test_the_days_to_come_of_all_jobs_are_counted(make):
    operations = make(job(name="a"), job(name="b"), job(NIGHTLY, "c"))
    assert planned(operations) == [0, 2 * 19, 2 * 24 + 1, 2 * 24 + 1]


def test_paused_and_disabled_jobs_do_not_count(store, make):
    fill(store, watermark=4, **PAUSED)
    assert planned(make(job(), job(NIGHTLY + "enabled: false\n", "off"), job(NIGHTLY, "c"))) == [0, 0, 1, 1]


def test_what_starts_next_leaves_out_jobs_that_a_blackout_keeps_from_it(make):
    now, next_one = (Blackout(at(4), at(6)), Blackout(at(4.75), at(5.5)))
    jobs = [replace(job(name=f"now-{number}"), blackouts=(now,)) for number in range(25)]
    operations = make(*jobs, replace(job(name="next"), blackouts=(next_one,)), job(NIGHTLY, "free"))
    assert [fire.job for fire in operations.overview().next] == ["free"]
    assert {fire.reason for fire in operations.upcoming(count=5).items} == {SkipReason.PAUSED}


def test_beyond_the_limit_only_the_nearest_days_are_counted(make, monkeypatch):
    monkeypatch.setattr(calendar_days, "AHEAD_MAX", 4)
    assert planned(make(job(), job(NIGHTLY, "c"))) == [0, 19, 25, None]


def test_no_job_at_all_has_nothing_to_come(make):
    assert planned(make()) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("schedule", "count"),
    [
        pytest.param("'0 12 1 1 *'", 1, id="one schedule"),
        pytest.param("['0 12 1 1 *', '0 12 2 1 *']", 2, id="several"),
    ],
)
def test_the_timeline_tells_what_is_to_come_in_fifty_years(make, schedule, count):
    operations = make(job(f"schedule: {schedule}\ntimezone: UTC\ncommand: x\n", "yearly"))
    (lane,) = operations.timeline("2076-01-01T00:00:00Z", "2076-12-01T00:00:00Z").lanes
    assert len(lane.future) == count


def test_the_timeline_tells_since_when_there_is_a_ledger(store, make):
    window = ("2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z")
    assert make(job()).timeline(*window).since is None
    fill(store, entry(2), entry(1), watermark=4)
    assert make(job()).timeline(*window).since == to_datetime(at(1))


def ask(store, name, hours, when):
    request = backfill_request(name, "etl", at(when), [at(hour) for hour in hours], by="ann")
    store.commit(Batch(by=name, requests=[request]))
    return name


def carry_out(store, name, *states):
    entries = [entry(hour)._replace(key=key(hour, name), trigger=Trigger.BACKFILL) for hour, _ in states]
    store.commit(Batch(by=name, entries=entries, answers={name: "{}"}))
    for hour, state in states:
        change(store, key(hour, name), state, at(4))


def test_backfills_are_listed_those_in_progress_first(store, make):
    fill(store, watermark=4)
    carry_out(store, ask(store, "new", [2, 3], 4), (2, SUCCEEDED), (3, CANCELLED))
    carry_out(store, ask(store, "old", [1, 2], 2), (1, SUCCEEDED), (2, RUNNING))
    ask(store, "waiting", [1], 3)
    found = make(job()).backfills("etl")
    assert [(one.request, one.ended, one.total) for one in found] == [
        ("waiting", 0, 1),
        ("old", 1, 2),
        ("new", 2, 2),
    ]
    assert (found[1].first, found[1].last, found[1].submitted_by) == (to_datetime(at(1)), to_datetime(at(2)), "ann")
    assert [one.request for one in make(job()).backfills("etl", 1)] == ["waiting"]


def test_a_job_without_backfills_has_none_and_a_stranger_is_none(store, make):
    fill(store, entry(1), watermark=4)
    assert make(job()).backfills("etl") == []
    with pytest.raises(NotFound):
        make(job(TEXT, "other")).backfills("nobody")
    with pytest.raises(InvalidArgument):
        make(job()).backfills("etl", 0)

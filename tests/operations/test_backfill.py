"""Which past occurrences a backfill runs, and how far it has come."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.model.calendar import Calendar, CalendarRule, Shift, day_of_date
from evertick.model.instant import DAY, HOUR, MINUTE, to_datetime
from evertick.model.ledger import Batch
from evertick.model.lifecycle import FAILED, SKIPPED, SUCCEEDED, SkipReason, Trigger
from evertick.model.policy import Overlap, OverlapKind
from evertick.model.schedule import CalendarSpec, CronSpec, EverySpec
from evertick.operations.backfill import (
    cancel_requests,
    excluded_range,
    find_backfill,
    plan_backfill,
    progress_of,
    read_overlap,
)
from evertick.operations.requests import backfill_request
from evertick.operations.results.requests import ExcludedRange
from evertick.operations.submission import submit
from evertick.planning.schedules import compile_all, occurrences
from evertick.stores.memory import MemoryStore
from tests.operations.ledger import at, entry, fill, job, key, ran


@pytest.fixture
def store(empty):
    """Midnight to four: succeeded, failed, skipped, in a gap (3 to 14), and nothing planned beyond 14."""
    store = empty
    gap = entry(3, state=SKIPPED, reason=SkipReason.MISSED, through=at(14), occurrences=12)
    fill(store, entry(0), entry(1), entry(2, state=SKIPPED, reason=SkipReason.OVERLAP), gap, watermark=14)
    ran(store, key(0), at(0), at(0) + MINUTE)
    ran(store, key(1), at(1), at(1) + MINUTE, FAILED)
    return store


def plan(store, start, end, now=20, **options):
    found = plan_backfill(
        store, "etl", {"etl": job()}, at(start), at(end), at(now), **{"only_missing": True, **options}
    )
    return {(one.at - at(0)) // (60 * MINUTE): (one.is_chosen, one.why) for one in found}


def test_succeeded_occurrences_are_left_out_and_all_others_run(store):
    assert plan(store, 0, 4) == {
        0: (False, "succeeded (scheduler)"),
        1: (True, "failed"),
        2: (True, "skipped: overlap"),
        3: (True, "skipped: missed"),
    }


def test_the_window_holds_its_start_and_not_its_end(store):
    assert list(plan(store, 1, 3)) == [1, 2]


def test_all_runs_what_succeeded_too(store):
    assert plan(store, 0, 1, only_missing=False) == {0: (True, "succeeded")}


def test_what_is_not_due_yet_never_runs_and_what_is_undecided_is_left_to_the_scheduler(store):
    assert plan(store, 14, 18, now=16) == {
        14: (True, "skipped: missed"),
        15: (False, "not decided yet; the scheduler will decide it"),
        16: (False, "not decided yet; the scheduler will decide it"),
        17: (False, "not due yet"),
    }
    assert [chosen for chosen, _ in plan(store, 15, 18, now=16, only_missing=False).values()] == [True, True, False]


def test_the_time_before_the_job_was_known_can_be_filled(store):
    assert plan(store, -2, 0) == {-2: (True, "not in the ledger"), -1: (True, "not in the ledger")}


def test_a_run_of_an_earlier_backfill_counts(store):
    again = entry(2, key=key(2, "b0"), trigger=Trigger.BACKFILL)
    fill(store, again, watermark=14)
    assert plan(store, 2, 3) == {2: (False, "planned (backfill)")}


FAIR = Calendar("fair", (), (day_of_date(date(2026, 3, 3)),), ("Fair of March",))
MONDAYS = Calendar("mondays", (0,))
NOON = CronSpec("0 12 * * *", "UTC")


def on_days(rule, *schedules):
    return [CalendarSpec(one, rule, "UTC") for one in schedules or (NOON,)]


@pytest.mark.parametrize(
    ("specs", "hours", "excluded"),
    [
        pytest.param(on_days(CalendarRule((FAIR,))), (24, 48), (("fair",), 1, None), id="one day"),
        pytest.param(
            on_days(CalendarRule((FAIR, MONDAYS))), (0, 48), (("mondays", "fair"), 2, None), id="two calendars"
        ),
        pytest.param(on_days(CalendarRule((MONDAYS, FAIR))), (24, 48), (("fair",), 1, None), id="only those that do"),
        pytest.param(on_days(CalendarRule((), (MONDAYS,))), (24, 72), (("mondays",), 2, None), id="outside of 'only'"),
        pytest.param(on_days(CalendarRule((FAIR,), (), Shift.NEXT)), (24, 48), (("fair",), 1, 60), id="moved"),
        pytest.param(
            on_days(CalendarRule((FAIR,)), NOON, EverySpec(12 * HOUR)), (25, 48), (("fair",), 1, None), id="once"
        ),
        pytest.param(on_days(CalendarRule((FAIR,))), (37, 48), None, id="the schedule has none there"),
        pytest.param([NOON], (37, 48), None, id="no calendar"),
    ],
)
def test_the_calendar_that_excludes_a_whole_range_is_named(specs, hours, excluded):
    # Hours of 2026-03-02, a Monday; the fair is on the day after.
    start, end = (at(0) // DAY * DAY + hour * HOUR for hour in hours)
    found = excluded_range(specs, start, end)
    if excluded is not None:
        calendars, count, moved = excluded
        moved_to = None if moved is None else to_datetime(at(0) // DAY * DAY + moved * HOUR)
        assert found == ExcludedRange(calendars, count, moved_to)
    else:
        assert found is None


@given(st.integers(-200, 200), st.integers(1, 200))
def test_candidates_are_exactly_the_occurrences_of_the_half_open_window(start_minutes, minutes):
    store = MemoryStore()
    fill(store, watermark=14)
    start, end = at(0) + start_minutes * MINUTE, at(0) + (start_minutes + minutes) * MINUTE
    found = [one.at for one in plan_backfill(store, "etl", {"etl": job()}, start, end, at(20), only_missing=True)]
    every = occurrences(compile_all(job().schedules), at(-10), at(10))
    assert found == [instant for instant in every if start <= instant < end]


@pytest.mark.parametrize(
    ("text", "start", "end", "kind", "words"),
    [
        pytest.param(
            "schedule: '0 * * * *'\ncommand: x\n", 2, 2, InvalidArgument, "not after its start", id="an empty window"
        ),
        pytest.param("command: x\n", 0, 2, Conflict, "has no schedule", id="a job without a schedule"),
        pytest.param("schedule: {every: 1s}\ncommand: x\n", 0, 3, InvalidArgument, "10,800 occurrences", id="too many"),
    ],
)
def test_a_backfill_that_makes_no_sense_is_refused(store, text, start, end, kind, words):
    with pytest.raises(kind, match=words):
        plan_backfill(store, "etl", {"etl": job(text)}, at(start), at(end), at(20), only_missing=True)


@pytest.mark.parametrize(
    ("text", "overlap"),
    [
        pytest.param("wait", Overlap(OverlapKind.WAIT), id="one after another"),
        pytest.param("parallel(3)", Overlap(OverlapKind.PARALLEL, 3), id="three at once"),
    ],
)
def test_the_rule_of_a_backfill(text, overlap):
    assert read_overlap(text) == overlap


@pytest.mark.parametrize("text", ["skip", "parallel", "parallel()", "parallel(0)", "parallel(x)", "parallel(³)", ""])
def test_a_rule_that_would_drop_runs_or_means_nothing_is_refused(text):
    with pytest.raises(InvalidArgument, match=r"Write wait, or parallel\(3\)"):
        read_overlap(text)


def taken_up(store, *hours):
    """A backfill of these hours that a scheduler has entered."""
    submit(store, backfill_request("b1", "etl", at(20), [at(hour) for hour in hours]))
    fill(store, *(entry(hour, key=key(hour, "b1"), trigger=Trigger.BACKFILL) for hour in hours), watermark=14)
    store.commit(Batch(by="a1/1#3", answers={"b1": "{}"}))
    return find_backfill(store, "etl", "b1")


def test_progress_counts_its_own_runs_by_state(store):
    request = taken_up(store, 1, 2, 3)
    ran(store, key(1, "b1"), at(20), at(20) + MINUTE)
    progress = progress_of(store, request)
    assert (progress.total, progress.ended, progress.succeeded, progress.is_over) == (3, 1, 1, False)
    for hour in (2, 3):
        ran(store, key(hour, "b1"), at(20), at(20) + MINUTE, SUCCEEDED if hour == 2 else FAILED)
    progress = progress_of(store, request)
    assert (progress.ended, progress.succeeded, progress.is_over) == (3, 2, True)


def test_cancelling_asks_for_each_run_that_has_not_ended_the_newest_first(store):
    request = taken_up(store, 1, 2, 3)
    ran(store, key(1, "b1"), at(20), at(20) + MINUTE)
    found = cancel_requests(store, request, "c", at(21))
    assert [(one.id, one.payload) for one in found] == [
        ("c-00000", '{"run_id": "etl@2026-03-02T03:00:00Z~b1"}'),
        ("c-00001", '{"run_id": "etl@2026-03-02T02:00:00Z~b1"}'),
    ]


def test_a_backfill_that_no_scheduler_has_accepted_can_be_cancelled(store):
    submit(store, backfill_request("b1", "etl", at(20), [at(1), at(2)]))
    assert len(cancel_requests(store, find_backfill(store, "etl", "b1"), "c", at(21))) == 2


def test_an_unknown_backfill_is_not_found(store):
    with pytest.raises(NotFound, match="job 'etl' has no backfill 'b9'"):
        find_backfill(store, "etl", "b9")

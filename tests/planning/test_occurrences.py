"""The index returns every occurrence of every job once, in order, and touches nothing that is not due."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evertick.errors import DefinitionError
from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_datetime
from evertick.model.schedule import AtSpec, CronSpec, EverySpec
from evertick.planning.occurrences import Due, OccurrenceIndex
from evertick.planning.schedules import Every, compile_all, next_of, occurrences
from tests.present import present

NINE = from_datetime(datetime(2026, 3, 2, 9, tzinfo=UTC))
TEN = NINE + HOUR
HOURLY = (CronSpec("0 * * * *", "UTC"),)
HALF_HOURLY = (EverySpec(30 * MINUTE),)
AT_TEN = (AtSpec(TEN),)


def index_of(horizon=NINE, **jobs):
    index = OccurrenceIndex(horizon)
    for job_id, schedules in jobs.items():
        index.add(job_id, schedules)
    return index


def pairs(due):
    return [(entry.instant, job_id) for entry in due for job_id in entry.members]


def test_an_empty_index_has_nothing_to_hand_out():
    index = OccurrenceIndex(NINE)
    assert len(index) == 0
    assert index.next_at() is None
    assert index.advance(TEN) == []
    assert index.horizon == TEN


def test_occurrences_come_in_order_of_time_then_of_the_groups_then_of_the_members():
    index = index_of(c=HALF_HOURLY, b=HOURLY, a=HOURLY, d=AT_TEN)
    assert pairs(index.advance(TEN)) == [(NINE + 30 * MINUTE, "c"), (TEN, "c"), (TEN, "b"), (TEN, "a"), (TEN, "d")]


def test_the_horizon_itself_has_been_handed_out_and_the_end_is_included():
    index = index_of(a=HOURLY)
    assert pairs(index.advance(TEN - 1)) == []
    assert pairs(index.advance(TEN)) == [(TEN, "a")]
    assert pairs(index.advance(TEN)) == []
    assert index.next_at() == TEN + HOUR


def test_a_time_before_the_horizon_yields_nothing_and_moves_nothing():
    index = index_of(a=HOURLY)
    index.advance(TEN)
    assert index.advance(NINE - DAY) == []
    assert index.horizon == TEN
    assert pairs(index.advance(TEN + HOUR)) == [(TEN + HOUR, "a")]


def test_a_job_added_later_has_only_what_comes_after_the_horizon():
    index = index_of(a=HOURLY)
    index.advance(TEN)
    index.add("b", HOURLY)
    index.add("c", AT_TEN)
    assert pairs(index.advance(TEN + HOUR)) == [(TEN + HOUR, "a"), (TEN + HOUR, "b")]


def test_a_removed_job_is_handed_out_no_more():
    index = index_of(a=HOURLY, b=HOURLY, c=HALF_HOURLY)
    index.remove("a")
    index.remove("c")
    assert "a" not in index
    assert "b" in index
    assert len(index) == 1
    assert index.next_at() == TEN
    assert pairs(index.advance(TEN)) == [(TEN, "b")]


def test_a_job_removed_between_two_occurrences_is_not_in_the_second():
    index = index_of(a=HOURLY, b=HOURLY)
    assert pairs(index.advance(TEN)) == [(TEN, "a"), (TEN, "b")]
    index.remove("a")
    assert pairs(index.advance(TEN + HOUR)) == [(TEN + HOUR, "b")]


def test_removing_an_unknown_job_changes_nothing():
    index = index_of(a=HOURLY)
    index.remove("b")
    assert pairs(index.advance(TEN)) == [(TEN, "a")]


def test_a_known_job_takes_its_new_schedules():
    index = index_of(a=HOURLY, b=HOURLY)
    index.add("a", AT_TEN)
    assert len(index) == 2
    assert pairs(index.advance(TEN + HOUR)) == [(TEN, "b"), (TEN, "a"), (TEN + HOUR, "b")]


def test_a_job_added_again_unchanged_keeps_its_place():
    index = index_of(a=HOURLY, b=HOURLY)
    index.add("a", HOURLY)
    assert pairs(index.advance(TEN)) == [(TEN, "a"), (TEN, "b")]


def test_a_one_off_that_has_been_stays_registered():
    index = index_of(a=AT_TEN)
    assert pairs(index.advance(TEN)) == [(TEN, "a")]
    assert "a" in index
    assert index.next_at() is None
    index.remove("a")
    assert "a" not in index


@pytest.mark.parametrize(
    "schedules",
    [pytest.param((), id="no schedule at all"), pytest.param((AtSpec(NINE),), id="an instant at the horizon")],
)
def test_a_job_with_nothing_to_come_is_registered_and_never_due(schedules):
    index = index_of(a=schedules)
    assert "a" in index
    assert index.next_at() is None
    assert index.advance(NINE + DAY) == []


def test_schedules_that_cannot_be_used_leave_the_index_as_it_was():
    index = index_of(a=HOURLY)
    with pytest.raises(DefinitionError):
        index.add("a", (HOURLY[0], CronSpec("61 * * * *", "UTC")))
    with pytest.raises(DefinitionError):
        index.add("b", (EverySpec(0),))
    assert len(index) == 1
    assert pairs(index.advance(TEN)) == [(TEN, "a")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            (CronSpec("0 * * * *", "UTC", "one"),),
            (CronSpec("0 * * * *", "UTC", "other"),),
            id="names that the expression does not use",
        ),
        pytest.param(HOURLY + AT_TEN, AT_TEN + HOURLY, id="another order"),
        pytest.param(HOURLY, HOURLY + HOURLY, id="a schedule twice"),
    ],
)
def test_jobs_with_the_same_schedules_share_one_entry(one, other):
    index = index_of(a=one, b=other)
    assert index.advance(TEN) == [Due(TEN, ("a", "b"))]


def test_jobs_that_hash_their_names_are_due_apart():
    index = OccurrenceIndex(NINE)
    for number in range(60):
        index.add(f"job-{number}", (CronSpec("H * * * *", "UTC", f"job-{number}"),))
    due = index.advance(TEN)
    assert len(pairs(due)) == 60
    assert len({entry.instant for entry in due}) > 20


def test_two_schedules_due_at_one_instant_are_one_occurrence():
    index = index_of(a=HOURLY + HALF_HOURLY + AT_TEN)
    assert pairs(index.advance(TEN)) == [(NINE + 30 * MINUTE, "a"), (TEN, "a")]


def test_entries_of_one_group_share_their_members():
    index = index_of(a=HALF_HOURLY, b=HALF_HOURLY)
    first, second = index.advance(TEN)
    assert first.members is second.members


def test_what_was_handed_out_does_not_change_when_jobs_come_and_go():
    index = index_of(a=HALF_HOURLY, b=HALF_HOURLY)
    for entry in index.advance(TEN):
        index.remove("a")
        index.add(f"new-{entry.instant}", HALF_HOURLY)
        assert entry.members == ("a", "b")
    assert len(index) == 3


def test_a_limit_stops_at_the_end_of_an_instant_and_the_next_call_continues():
    index = index_of(a=HALF_HOURLY, b=HOURLY, c=AT_TEN)
    assert pairs(index.advance(NINE + DAY, limit=2)) == [
        (NINE + 30 * MINUTE, "a"),
        (TEN, "a"),
        (TEN, "b"),
        (TEN, "c"),
    ]
    assert index.horizon == TEN
    assert index.next_at() == TEN + 30 * MINUTE
    assert pairs(index.advance(TEN + HOUR)) == [
        (TEN + 30 * MINUTE, "a"),
        (TEN + HOUR, "a"),
        (TEN + HOUR, "b"),
    ]


def test_a_year_of_seconds_is_handed_out_in_portions():
    index = index_of(a=(EverySpec(SECOND),))
    portion = index.advance(NINE + 365 * DAY, limit=1_000)
    assert len(portion) == 1_000
    assert index.horizon == portion[-1].instant == NINE + 1_000 * SECOND


def test_a_stretch_passed_over_names_each_job_that_was_due_once():
    at_the_end, after_it = (AtSpec(TEN + HOUR),), (AtSpec(TEN + HOUR + 1),)
    index = index_of(a=HALF_HOURLY, b=HOURLY, c=at_the_end, d=after_it, gone=(EverySpec(SECOND),))
    index.remove("gone")
    assert index.skip(TEN + HOUR) == ["a", "b", "c"]
    assert index.horizon == TEN + HOUR
    assert index.next_at() == TEN + HOUR + 1
    assert index.skip(TEN) == []
    assert index.horizon == TEN + HOUR


def test_a_preview_moves_nothing():
    index = index_of(a=HOURLY, b=HALF_HOURLY)
    index.advance(TEN)
    past = index.due_between(NINE - HOUR, NINE)
    assert pairs(past) == [(NINE - 30 * MINUTE, "b"), (NINE, "a"), (NINE, "b")]
    assert pairs(index.due_between(TEN + HOUR, TEN + HOUR + 30 * MINUTE)) == [(TEN + 90 * MINUTE, "b")]
    assert index.horizon == TEN
    assert pairs(index.advance(TEN + 30 * MINUTE)) == [(TEN + 30 * MINUTE, "b")]


def test_a_preview_stops_at_its_limit():
    index = index_of(a=HALF_HOURLY, b=HOURLY)
    assert len(index.due_between(NINE, NINE + DAY, limit=3)) == 3
    assert len(index.due_between(NINE, NINE + DAY)) == 48 + 24


class Untouchable(Exception):
    """A group that is not due was looked at."""


def test_a_tick_with_nothing_due_looks_at_no_job(monkeypatch):
    index = OccurrenceIndex(NINE)
    for number in range(1_000):
        index.add(f"job-{number}", (EverySpec(DAY + number * SECOND),))

    def refuse(*_):
        raise Untouchable

    monkeypatch.setattr(Every, "next_after", refuse)
    first_due = present(index.next_at())
    assert index.advance(first_due - 1) == []
    with pytest.raises(Untouchable):
        index.advance(first_due)


def test_a_group_is_computed_once_however_many_jobs_it_has(monkeypatch):
    computed = []
    next_after = Every.next_after
    monkeypatch.setattr(
        Every, "next_after", lambda self, instant: computed.append(instant) or next_after(self, instant)
    )
    index = OccurrenceIndex(NINE)
    for number in range(10_000):
        index.add(f"job-{number}", HALF_HOURLY)
    assert len(pairs(index.advance(TEN))) == 20_000
    assert len(computed) == 3


SPECS = st.one_of(
    st.sampled_from(
        [CronSpec("*/20 * * * *", "UTC"), CronSpec("5,35 * * * * *", "UTC"), CronSpec("0 9,10 * * *", "UTC")]
    ),
    st.integers(1, 8).map(lambda minutes: EverySpec(minutes * 10 * MINUTE)),
    st.integers(-60, 180).map(lambda minutes: AtSpec(NINE + minutes * MINUTE)),
)
JOBS = st.dictionaries(st.sampled_from("abcdefgh"), st.lists(SPECS, max_size=3).map(tuple), max_size=8)


@settings(deadline=None)
@given(jobs=JOBS, steps=st.lists(st.integers(0, 40 * MINUTE), min_size=1, max_size=6), limit=st.integers(1, 20))
def test_any_division_of_time_yields_exactly_the_scheduled_occurrences(jobs, steps, limit):
    end = NINE + sum(steps)
    expected = sorted((at, job) for job, specs in jobs.items() for at in occurrences(compile_all(specs), NINE, end))
    index, handed_out, whole = index_of(**jobs), [], index_of(**jobs).advance(end)
    for step in steps:
        until = index.horizon + step
        while index.horizon < until:
            handed_out += index.advance(until, limit)
    assert handed_out == whole
    assert sorted(pairs(whole)) == expected
    assert index_of(**jobs).due_between(NINE, end) == whole
    assert index_of(horizon=NINE - HOUR, **jobs).due_between(NINE, end) == whole


@settings(deadline=None)
@given(jobs=JOBS, first=st.integers(0, 2 * HOUR), then=st.integers(0, 2 * HOUR))
def test_passing_over_a_stretch_leaves_the_index_as_advancing_through_it_does(jobs, first, then):
    passed, advanced = index_of(**jobs), index_of(**jobs)
    named = passed.skip(NINE + first)
    assert sorted(named) == sorted({job for _, job in pairs(advanced.advance(NINE + first))})
    assert passed.next_at() == advanced.next_at()
    assert passed.advance(NINE + first + then) == advanced.advance(NINE + first + then)


# The same times of day on other days and in zones whose clocks change: groups that share the table of a day.
ALIKE = st.builds(
    "{} {} * * {}".format,
    st.sampled_from(["0,30", "*/20", "15"]),
    st.sampled_from(["1-3", "8-10", "0,23"]),
    st.sampled_from(["*", "SUN", "MON-FRI", "MON,SUN"]),
)
ZONED = st.builds(CronSpec, ALIKE, st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]))
IN_MARCH = st.integers(0, 60).map(
    lambda half_days: from_datetime(datetime(2026, 3, 1, tzinfo=UTC)) + half_days * DAY // 2
)


@settings(deadline=None)
@given(
    st.lists(ZONED, min_size=1, max_size=12), st.sets(st.integers(0, 11)), st.lists(IN_MARCH, min_size=2, max_size=6)
)
def test_jobs_with_the_same_times_of_day_are_due_as_each_is_by_itself(specs, gone, instants):
    jobs = {f"job-{number}": (spec,) for number, spec in enumerate(specs)}
    index = OccurrenceIndex(min(instants))
    for job_id, schedules in jobs.items():
        index.add(job_id, schedules)
    for job_id in [f"job-{number}" for number in gone]:
        index.remove(job_id)
        jobs.pop(job_id, None)

    def expected(start, end):
        return sorted((at, job) for job, one in jobs.items() for at in occurrences(compile_all(one), start, end))

    for start in instants:  # not in order: a preview may look back
        assert sorted(pairs(index.due_between(start, start + 2 * DAY))) == expected(start, start + 2 * DAY)
    for until in sorted(instants):
        start = index.horizon
        assert sorted(pairs(index.advance(until))) == expected(start, until)


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("abcd"), st.lists(SPECS, max_size=2).map(tuple)),
        st.tuples(st.just("remove"), st.sampled_from("abcd"), st.just(())),
        st.tuples(st.sampled_from(["advance", "skip"]), st.integers(0, 40 * MINUTE), st.just(())),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(CHANGES)
def test_any_order_of_changes_agrees_with_a_list_of_jobs(changes):
    index, jobs = OccurrenceIndex(NINE), {}
    for change, subject, schedules in changes:
        if change == "add":
            index.add(subject, schedules)
            jobs[subject] = schedules
        elif change == "remove":
            index.remove(subject)
            jobs.pop(subject, None)
        else:
            start, end = index.horizon, index.horizon + subject
            expected = sorted(
                (at, job) for job, specs in jobs.items() for at in occurrences(compile_all(specs), start, end)
            )
            if change == "advance":
                assert sorted(pairs(index.advance(end))) == expected
            else:
                assert sorted(index.skip(end)) == sorted({job for _, job in expected})
        assert len(index) == len(jobs)
        assert index._agenda.stale == sum(not group.members for group in index._agenda.groups())
        after = [next_of(compile_all(specs), index.horizon) for specs in jobs.values()]
        assert index.next_at() == min((at for at in after if at is not None), default=None)


@pytest.mark.parametrize("go_on", [OccurrenceIndex.advance, OccurrenceIndex.skip])
def test_groups_on_the_agenda_are_accounted_for_when_jobs_end_and_leave(go_on):
    index = index_of(ends=AT_TEN, leaves=HALF_HOURLY, stays=HOURLY)
    index.remove("leaves")
    assert index._agenda.stale == 1
    go_on(index, TEN)
    assert index._agenda.stale == 0
    index.remove("ends")
    assert index._agenda.stale == 0
    assert len(list(index._agenda.groups())) == 1


@pytest.mark.parametrize(
    "schedule_of",
    [
        pytest.param(lambda number: AtSpec(NINE + DAY + number), id="each at an instant of its own"),
        pytest.param(lambda _: HOURLY[0], id="all on one schedule"),
    ],
)
def test_jobs_that_come_and_go_leave_nothing_behind(schedule_of):
    index = index_of(keeper=HALF_HOURLY)

    def churn(cycles):
        for number in range(cycles):
            index.add(f"job-{number}", (schedule_of(number),))
            if number >= 50:
                index.remove(f"job-{number - 50}")
        for number in range(cycles - 50, cycles):
            index.remove(f"job-{number}")

    churn(3_000)
    tracemalloc.start()
    try:
        churn(3_000)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 1_000_000
    assert len(list(index._agenda.groups())) <= 1 + 2 * 64
    assert len(index._groups) == 1
    assert pairs(index.advance(NINE + 30 * MINUTE)) == [(NINE + 30 * MINUTE, "keeper")]

"""Every schedule answers the same four questions, and several of one job answer them together."""

from __future__ import annotations

import gc
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evertick.errors import CronError, DurationError
from evertick.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND, from_datetime, from_text
from evertick.model.schedule import AtSpec, CronSpec, EverySpec
from evertick.planning import schedules as engine_room
from evertick.planning.cron import Cron
from evertick.planning.schedules import (
    At,
    Every,
    compile_all,
    compile_schedule,
    count_days,
    count_of,
    first_of,
    newest,
    next_of,
    occurrences,
    previous_of,
)
from tests.present import present

MONDAY = from_datetime(datetime(2026, 3, 2, tzinfo=UTC))
NINE = MONDAY + 9 * HOUR
YEAR = 365 * DAY

HOURLY = CronSpec("0 * * * *", "UTC")
EVERY_SECOND = CronSpec("* * * * * *", "UTC")

SPECS = [
    pytest.param(CronSpec("*/15 * * * *", "UTC"), id="cron by the minute"),
    pytest.param(CronSpec("*/20 * * * * *", "America/New_York"), id="cron by the second, in a zone"),
    pytest.param(CronSpec("0 9 * * MON-FRI", "Europe/Berlin"), id="cron on weekdays"),
    pytest.param(EverySpec(90 * SECOND), id="every 90 seconds"),
    pytest.param(EverySpec(700 * MILLISECOND), id="every 700 milliseconds"),
    pytest.param(EverySpec(DAY), id="every day"),
    pytest.param(AtSpec(NINE), id="at nine"),
    pytest.param(AtSpec(NINE + 1), id="at a microsecond past nine"),
]
around_nine = st.integers(NINE - 2 * HOUR, NINE + 2 * HOUR)


@pytest.mark.parametrize("spec", SPECS)
@given(data=st.data())
def test_a_window_lists_what_next_after_finds_one_by_one(spec, data):
    schedule = compile_schedule(spec)
    start = data.draw(around_nine)
    end = start + data.draw(st.integers(0, 10 * MINUTE))
    walked = []
    at = schedule.next_after(start)
    while at is not None and at <= end:
        walked.append(at)
        at = schedule.next_after(at)
    assert schedule.between(start, end) == walked
    assert schedule.count(start, end) == len(walked)


@pytest.mark.parametrize("spec", SPECS)
@given(instant=around_nine)
def test_next_and_previous_enclose_an_instant_and_undo_each_other(spec, instant):
    schedule = compile_schedule(spec)
    after = schedule.next_after(instant)
    before = schedule.previous_before(instant)
    assert after is None or after > instant
    assert before is None or before < instant
    if after is not None:
        assert schedule.previous_before(after + 1) == after
        assert schedule.previous_before(after) in (before, instant)
    if before is not None:
        assert schedule.next_after(before - 1) == before
        assert schedule.next_after(before) in (after, instant)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("length", [0, -1, -HOUR])
def test_a_window_that_ends_at_or_before_its_start_is_empty(spec, length):
    schedule = compile_schedule(spec)
    assert schedule.between(NINE, NINE + length) == []
    assert schedule.count(NINE, NINE + length) == 0


def test_a_window_is_open_at_its_start_and_closed_at_its_end():
    hourly = compile_schedule(HOURLY)
    assert hourly.between(NINE, NINE + HOUR) == [NINE + HOUR]
    assert hourly.between(NINE - 1, NINE + HOUR) == [NINE, NINE + HOUR]
    assert hourly.between(NINE, NINE + HOUR - 1) == []


def test_a_fraction_of_a_second_does_not_hide_the_second_that_has_just_been():
    hourly = compile_schedule(HOURLY)
    assert hourly.previous_before(NINE + 1) == NINE
    assert hourly.previous_before(NINE) == NINE - HOUR
    assert hourly.next_after(NINE - 1) == NINE


def test_an_interval_counts_from_the_epoch():
    every = Every(7 * SECOND)
    assert present(every.next_after(NINE)) % (7 * SECOND) == 0
    assert every.between(-DAY, 14 * SECOND) == [0, 7 * SECOND, 14 * SECOND]
    assert every.count(-DAY, 14 * SECOND) == 3
    assert every.previous_before(0) is None


@pytest.mark.parametrize("period_us", [0, -SECOND, 999])
def test_an_interval_below_a_millisecond_is_refused(period_us):
    with pytest.raises(DurationError, match="too short"):
        compile_schedule(EverySpec(period_us))


def test_a_cron_expression_that_cannot_be_read_is_refused():
    with pytest.raises(CronError):
        compile_schedule(CronSpec("61 * * * *", "UTC"))


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        pytest.param("0 9 * * *", True, id="plain"),
        pytest.param("0 9 * * THU", True, id="the H of Thursday"),
        pytest.param("@hourly", True, id="the h of hourly"),
        pytest.param("CRON_TZ=Asia/Ho_Chi_Minh 0 9 * * *", True, id="the h of a zone"),
        pytest.param("H 9 * * *", False, id="H"),
        pytest.param("0 H/6 * * *", False, id="H with a step"),
    ],
)
def test_jobs_share_an_engine_unless_the_expression_hashes_their_name(text, shared):
    one, other = CronSpec(text, "UTC", "one"), CronSpec(text, "UTC", "other")
    assert (compile_schedule(one) is compile_schedule(other)) is shared


def test_ten_thousand_jobs_with_one_expression_parse_it_once(monkeypatch):
    parsed = []
    parse = Cron.parse
    monkeypatch.setattr(Cron, "parse", lambda *args: parsed.append(args) or parse(*args))
    specs = [CronSpec("7 4 3 2 *", "UTC", f"job-{number}") for number in range(10_000)]
    engines = compile_all(specs)
    assert len(parsed) == 1
    assert len(set(map(id, engines))) == 1


def test_an_unused_engine_is_forgotten():
    gc.collect()
    held = len(engine_room._engines)  # by other tests of this process
    specs = [EverySpec(SECOND + number) for number in range(5_000)]
    engines = compile_all(specs)
    assert len(engine_room._engines) >= len(specs)
    del engines
    gc.collect()
    assert len(engine_room._engines) <= held + 1_024


SEVERAL = [
    pytest.param((HOURLY, EverySpec(30 * MINUTE)), id="one inside the other"),
    pytest.param((EverySpec(2 * MINUTE), EverySpec(3 * MINUTE), EverySpec(5 * MINUTE)), id="three intervals"),
    pytest.param((HOURLY, HOURLY), id="twice the same"),
    pytest.param((CronSpec("*/7 * * * *", "UTC"), EverySpec(11 * SECOND)), id="cron and interval"),
    pytest.param((HOURLY, AtSpec(NINE), AtSpec(NINE + 1)), id="cron and two instants"),
    pytest.param((AtSpec(NINE), AtSpec(NINE + HOUR)), id="two instants"),
    pytest.param((HOURLY,), id="just one"),
    pytest.param((), id="none at all"),
]


@pytest.mark.parametrize("specs", SEVERAL)
@settings(deadline=None)
@given(start=around_nine, length=st.integers(-MINUTE, 6 * HOUR), limit=st.integers(0, 40))
def test_several_schedules_are_one_sequence_of_distinct_instants(specs, start, length, limit):
    schedules, end = compile_all(specs), start + length
    merged = occurrences(schedules, start, end)
    assert merged == sorted(set().union(*(schedule.between(start, end) for schedule in schedules)))
    assert count_of(schedules, start, end) == len(merged)
    assert newest(schedules, start, end, limit) == merged[len(merged) - min(limit, len(merged)) :]
    assert first_of(schedules, start, end) == (merged[0] if merged else None)
    following = next_of(schedules, start)
    if merged:
        assert following == merged[0]
        assert previous_of(schedules, end + 1) == merged[-1]
    else:
        assert following is None or following > end


@given(
    periods=st.lists(st.integers(1, 60).map(lambda s: s * SECOND), min_size=2, max_size=4),
    start=around_nine,
    length=st.integers(0, 10 * MINUTE),
)
def test_intervals_counted_by_arithmetic_agree_with_their_list(periods, start, length):
    schedules = [Every(period) for period in periods]
    assert count_of(schedules, start, start + length) == len(occurrences(schedules, start, start + length))


class Listed(Exception):
    """A long window was listed."""


class NeverListed(Every):
    """A schedule so dense that listing more than a little of it is the fault to find."""

    def between(self, start, end):
        if self.count(start, end) > 200_000:
            raise Listed
        return super().between(start, end)


def test_a_year_of_seconds_is_counted_without_listing_it():
    assert count_of([NeverListed(SECOND)], NINE, NINE + YEAR) == 31_536_000


def test_a_year_of_seconds_beside_a_daily_job_is_counted_without_listing_it():
    schedules = [NeverListed(SECOND), compile_schedule(CronSpec("0 9 * * *", "UTC")), At(NINE + 1)]
    assert count_of(schedules, NINE, NINE + YEAR) == 31_536_000 + 1


def test_a_year_of_two_fast_intervals_is_counted_without_listing_either():
    fast = [NeverListed(2 * MILLISECOND), NeverListed(3 * MILLISECOND)]
    year_ms = YEAR // MILLISECOND
    assert count_of(fast, 0, YEAR) == year_ms // 2 + year_ms // 3 - year_ms // 6


def test_a_day_of_a_fast_interval_beside_cron_is_looked_at_in_small_pieces():
    schedules = [NeverListed(100 * MILLISECOND), compile_schedule(EVERY_SECOND)]
    assert count_of(schedules, NINE, NINE + DAY) == DAY // (100 * MILLISECOND)


def test_the_newest_of_a_year_of_seconds_are_found_from_its_end():
    found = newest([NeverListed(SECOND)], NINE, NINE + YEAR, 3)
    assert found == [NINE + YEAR - 2 * SECOND, NINE + YEAR - SECOND, NINE + YEAR]


def test_a_year_of_cron_seconds_is_counted_and_its_newest_found():
    schedules = compile_all([EVERY_SECOND])
    assert count_of(schedules, NINE, NINE + YEAR) == 31_536_000
    assert newest(schedules, NINE, NINE + YEAR, 1) == [NINE + YEAR]


def test_the_newest_stop_at_the_start_of_the_window():
    assert newest(compile_all([HOURLY]), NINE, NINE + 2 * HOUR, 10) == [NINE + HOUR, NINE + 2 * HOUR]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    "text", ["*/7 * * * *", "30 2 * * *", "0 9 * * 1-5", "15 0 31 * *", "0 0 29 2 *", "10 */5 1,15 * *"]
)
def test_days_counted_together_are_what_they_are_one_by_one(text, zone):
    schedules = compile_all([CronSpec(text, zone)])
    # Both changes of the clock are on the way, and midnights of other zones.
    for start in (
        from_text("2026-03-01T00:00:00Z"),
        from_text("2026-10-01T22:30:00Z"),
        from_text("2028-02-20T18:15:00Z"),
    ):
        one_by_one = [count_of(schedules, at - 1, at + DAY - 1) for at in range(start, start + 60 * DAY, DAY)]
        assert count_days(schedules, start, 60) == one_by_one


def test_jobs_that_share_an_expression_share_its_engine_whatever_they_are_called():
    specs = [CronSpec("17 4 * * *", "Europe/Berlin", f"job-{number}") for number in range(5_000)]
    engines = [compile_schedule(spec) for spec in specs]  # more than are remembered
    assert all(engine is engines[0] for engine in engines)


def test_schedules_of_many_jobs_do_not_collide_where_they_are_looked_up():
    assert len({hash(CronSpec("17 4 * * *", "UTC", f"job-{number}")) for number in range(1_000)}) > 990

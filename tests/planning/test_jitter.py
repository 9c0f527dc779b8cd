"""How much later than its time an occurrence starts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_text
from evertick.model.job import Job
from evertick.model.policy import Policy
from evertick.model.schedule import AtSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.planning.jitter import shortest_distance, starts_at
from evertick.planning.schedules import compile_all, occurrences

NINE = from_text("2026-03-02T09:00Z")
HOURLY = CronSpec("0 * * * *", "UTC")


def delayed(jitter_us: int, *schedules: ScheduleSpec, name: str = "a") -> Job:
    return Job(name, schedules=schedules or (HOURLY,), policy=Policy(jitter_us=jitter_us))


SCHEDULES = st.lists(
    st.sampled_from(
        [HOURLY, CronSpec("0,30 1-3 * * *", "Europe/Berlin"), CronSpec("15 2 * * *", "Europe/Berlin"), EverySpec(HOUR)]
    ),
    min_size=1,
    max_size=3,
)
DAYS = st.integers(0, 400).map(lambda days: from_text("2026-01-01T00:00Z") + days * DAY)


@given(SCHEDULES, DAYS, st.integers(1, 7_200))
def test_runs_start_within_the_jitter_in_whole_seconds_and_in_their_order(schedules, day, seconds):
    job = delayed(seconds * SECOND, *schedules)
    due = occurrences(compile_all(job.schedules), day, day + DAY)
    starts = [starts_at(job, at) for at in due]
    assert all(at <= start <= at + seconds * SECOND for at, start in zip(due, starts, strict=True))
    assert all((start - at) % SECOND == 0 for at, start in zip(due, starts, strict=True))
    assert all(earlier < later for earlier, later in pairwise(starts))


def test_without_jitter_an_occurrence_starts_at_its_time():
    assert starts_at(delayed(0), NINE) == NINE


def test_the_delay_is_the_same_wherever_it_is_computed():
    # Two releases on one ledger must agree: this value is a promise.
    assert starts_at(delayed(30 * MINUTE, name="report"), NINE) - NINE == 1_654 * SECOND


def test_jobs_and_occurrences_are_spread_over_the_whole_jitter():
    jobs = [starts_at(delayed(59 * SECOND, name=f"job-{number}"), NINE) - NINE for number in range(3_000)]
    times = [starts_at(delayed(59 * SECOND), NINE + hour * HOUR) % HOUR for hour in range(3_000)]
    for delays in (jobs, times):
        counts = [delays.count(second * SECOND) for second in range(60)]
        assert min(counts) > 20  # 50 on average
        assert max(counts) < 90


def test_a_one_off_is_delayed_too():
    assert NINE < starts_at(delayed(HOUR, AtSpec(NINE)), NINE) <= NINE + HOUR


@pytest.mark.parametrize(
    ("specs", "shortest"),
    [
        pytest.param([EverySpec(90 * SECOND)], 90 * SECOND, id="an interval"),
        pytest.param([CronSpec("0 9,10 * * *", "UTC")], HOUR, id="two hours of a day"),
        pytest.param([CronSpec("CRON_TZ=Europe/Berlin 0 2 * * *", "UTC")], DAY, id="in a zone that changes its clocks"),
        pytest.param([CronSpec("0 0 1,28 2,3 *", "UTC")], DAY, id="the last of February"),
        pytest.param([CronSpec("*/20 * * * * *", "UTC")], 20 * SECOND, id="seconds"),
        pytest.param([CronSpec("H H * * *", "UTC", "a")], DAY, id="spread by name"),
        pytest.param([HOURLY, EverySpec(5 * MINUTE)], 5 * MINUTE, id="the closest of several"),
        pytest.param([AtSpec(NINE)], None, id="a one-off"),
    ],
)
def test_the_shortest_distance_between_two_occurrences(specs, shortest):
    assert shortest_distance(specs) == shortest

"""How many jobs start in each minute to come: all of them, or all of a shorter time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.schedule import CronSpec, EverySpec
from evertick.operations import load_forecast
from evertick.operations.load_forecast import count_starts
from evertick.planning.schedules import compile_all, occurrences
from tests.stores.building import NINE

HOURLY, MINUTELY = (CronSpec("0 * * * *", "UTC"),), (CronSpec("* * * * *", "UTC"),)
OFTEN = (EverySpec(5 * SECOND),)


def test_jobs_that_share_a_minute_are_counted_together():
    crowd = count_starts([HOURLY, HOURLY, MINUTELY], NINE, NINE + HOUR)
    assert crowd.minutes[NINE + HOUR] == 3
    assert (sum(crowd.minutes.values()), crowd.until) == (62, NINE + HOUR)


def test_one_that_is_due_all_the_time_hides_nothing_behind_it():
    crowd = count_starts([OFTEN, HOURLY], NINE, NINE + 24 * HOUR)
    assert sum(crowd.minutes.values()) == 24 * 720 + 24
    assert max(crowd.minutes) == NINE + 24 * HOUR


@given(
    st.lists(st.sampled_from([HOURLY, MINUTELY, OFTEN, (CronSpec("*/7 3 * * *", "Europe/Berlin"),)]), max_size=5),
    st.integers(-90 * SECOND, 90 * SECOND),
    st.integers(0, 3 * HOUR),
)
def test_it_counts_what_is_due_and_nothing_else(jobs, shift_us, length_us):
    after = NINE + shift_us
    expected = Counter(
        at // MINUTE * MINUTE for specs in jobs for at in occurrences(compile_all(specs), after, after + length_us)
    )
    assert count_starts(jobs, after, after + length_us).minutes == dict(sorted(expected.items()))


def test_where_too_much_is_due_it_tells_how_far_it_counted(monkeypatch):
    monkeypatch.setattr(load_forecast, "COUNTED_MAX", 100)
    crowd = count_starts([MINUTELY], NINE, NINE + 24 * HOUR)
    assert NINE + MINUTE < crowd.until < NINE + 2 * HOUR
    assert sum(crowd.minutes.values()) == (crowd.until - NINE) // MINUTE


@pytest.mark.parametrize("jobs", [pytest.param([], id="no jobs"), pytest.param([()], id="a job without a schedule")])
def test_where_nothing_is_due_there_are_no_minutes(jobs):
    assert count_starts(jobs, NINE, NINE + HOUR).minutes == {}

"""How many jobs start in each minute to come: all of them, or all of a shorter time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.blackout import Blackout
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import Job
from evertick.model.policy import Policy
from evertick.model.schedule import CronSpec, EverySpec
from evertick.operations import time_queries
from evertick.operations.time_queries import count_starts
from evertick.planning.jitter import starts_at
from evertick.planning.schedules import compile_all, occurrences
from tests.stores.builders import NINE

HOURLY, MINUTELY = (CronSpec("0 * * * *", "UTC"),), (CronSpec("* * * * *", "UTC"),)
OFTEN = (EverySpec(5 * SECOND),)


def jobs_with(*schedules):
    return [Job(f"job-{number}", "", specs) for number, specs in enumerate(schedules)]


def delayed(name):
    return Job(name, "", HOURLY, policy=Policy(jitter_us=20 * MINUTE))


def test_jobs_that_share_a_minute_are_counted_together():
    crowd = count_starts(jobs_with(HOURLY, HOURLY, MINUTELY), NINE, NINE + HOUR)
    assert crowd.minutes[NINE + HOUR] == 3
    assert (sum(crowd.minutes.values()), crowd.until) == (62, NINE + HOUR)


def test_a_job_that_is_due_all_the_time_hides_no_other():
    crowd = count_starts(jobs_with(OFTEN, HOURLY), NINE, NINE + 24 * HOUR)
    assert sum(crowd.minutes.values()) == 24 * 720 + 24
    assert max(crowd.minutes) == NINE + 24 * HOUR


@given(
    st.lists(st.sampled_from([HOURLY, MINUTELY, OFTEN, (CronSpec("*/7 3 * * *", "Europe/Berlin"),)]), max_size=5),
    st.integers(-90 * SECOND, 90 * SECOND),
    st.integers(0, 3 * HOUR),
)
def test_the_forecast_counts_what_is_due_and_nothing_else(jobs, shift_us, length_us):
    after = NINE + shift_us
    expected = Counter(
        at // MINUTE * MINUTE for specs in jobs for at in occurrences(compile_all(specs), after, after + length_us)
    )
    assert count_starts(jobs_with(*jobs), after, after + length_us).minutes == dict(sorted(expected.items()))


def test_where_too_much_is_due_it_tells_how_far_it_counted(monkeypatch):
    monkeypatch.setattr(time_queries, "COUNTED_MAX", 100)
    crowd = count_starts(jobs_with(MINUTELY), NINE, NINE + 24 * HOUR)
    assert NINE + MINUTE < crowd.until < NINE + 2 * HOUR
    assert sum(crowd.minutes.values()) == (crowd.until - NINE) // MINUTE


@pytest.mark.parametrize("jobs", [pytest.param([], id="no jobs"), pytest.param([()], id="a job without a schedule")])
def test_where_nothing_is_due_there_are_no_minutes(jobs):
    assert count_starts(jobs_with(*jobs), NINE, NINE + HOUR).minutes == {}


def test_a_start_delayed_by_jitter_counts_in_its_own_minute():
    jobs = [delayed(name) for name in "abcdefgh"]
    crowd = count_starts(jobs, NINE - MINUTE, NINE + HOUR - MINUTE)
    assert crowd.minutes == dict(sorted(Counter(starts_at(job, NINE) // MINUTE * MINUTE for job in jobs).items()))
    assert len(crowd.minutes) > 3, "the jobs are spread"


@pytest.mark.parametrize("schedules", [HOURLY, MINUTELY, OFTEN])
def test_what_is_due_in_a_blackout_does_not_count(schedules):
    inside = (Blackout(NINE + HOUR, NINE + 2 * HOUR), Blackout(NINE + 90 * MINUTE, NINE + 3 * HOUR))
    free, held = Job("free", "", schedules), Job("held", "", schedules, blackouts=inside)
    whole = count_starts([free], NINE, NINE + 4 * HOUR).minutes
    both = count_starts([free, held], NINE, NINE + 4 * HOUR).minutes
    is_inside = {minute: NINE + HOUR <= minute < NINE + 3 * HOUR for minute in whole}
    assert both == {minute: count * (1 if is_inside[minute] else 2) for minute, count in whole.items()}


def test_the_due_time_decides_whether_a_delayed_start_is_in_a_blackout():
    held = replace(delayed("a"), blackouts=(Blackout(NINE + HOUR, NINE + 2 * HOUR),))
    starts = [starts_at(held, NINE + number * HOUR) // MINUTE * MINUTE for number in (0, 2, 3)]
    assert list(count_starts([held], NINE, NINE + 4 * HOUR - 1).minutes) == starts


def test_what_was_due_before_and_starts_later_by_jitter_counts_too():
    job = delayed("a")
    starts = starts_at(job, NINE)
    assert starts > NINE
    assert count_starts([job], NINE, NINE + HOUR - MINUTE).minutes == {starts // MINUTE * MINUTE: 1}
    assert count_starts([job], starts, NINE + HOUR - MINUTE).minutes == {}

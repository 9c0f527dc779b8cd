"""When a failed run is retried."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import DAY, HOUR, MINUTE, SECOND, from_text
from evertick.model.policy import Backoff, Retry
from evertick.planning.retry import retry_at, wait_us

NINE = from_text("2026-03-02T09:00:00Z")
LINEAR = Retry(max_retries=3, delay_us=MINUTE)
retries = st.builds(
    Retry,
    max_retries=st.integers(0, 20),
    delay_us=st.integers(1, DAY),
    backoff=st.sampled_from(Backoff),
    cap_us=st.integers(1, 10 * DAY),
    jitter=st.floats(0, 1),
)
attempts = st.integers(1, 10_000)


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        pytest.param(Backoff.FIXED, [1, 1, 1, 1, 1], id="fixed waits the same"),
        pytest.param(Backoff.LINEAR, [1, 2, 3, 4, 5], id="linear waits one delay more each time"),
        pytest.param(Backoff.EXPONENTIAL, [1, 2, 4, 8, 10], id="exponential doubles up to the cap"),
    ],
)
def test_minutes_to_wait_after_each_attempt(backoff, waits):
    retry = Retry(max_retries=9, delay_us=MINUTE, backoff=backoff, cap_us=10 * MINUTE)
    assert [wait_us(retry, attempt, "run") // MINUTE for attempt in range(1, 6)] == waits


@pytest.mark.parametrize(
    ("attempt", "at"),
    [
        pytest.param(1, NINE + MINUTE, id="after the first try"),
        pytest.param(3, NINE + 3 * MINUTE, id="after the third, the last retry"),
        pytest.param(4, None, id="three retries are used up"),
    ],
)
def test_max_retries_counts_the_tries_after_the_first(attempt, at):
    assert retry_at(LINEAR, attempt, NINE, "run") == at


def test_no_retries_means_none():
    assert retry_at(Retry(), 1, NINE, "run") is None


@given(retries, attempts, st.text(max_size=20))
def test_a_wait_is_positive_and_never_beyond_the_cap_and_its_jitter(retry, attempt, seed):
    assert 0 < wait_us(retry, attempt, seed) <= retry.cap_us * (1 + retry.jitter)


@given(retries, attempts)
def test_without_jitter_a_later_attempt_never_waits_less(retry, attempt):
    calm = replace(retry, jitter=0.0)
    assert wait_us(calm, attempt, "run") <= wait_us(calm, attempt + 1, "run")


@given(retries, attempts, st.text(max_size=20))
def test_jitter_only_adds_and_is_the_same_wherever_it_is_asked(retry, attempt, seed):
    waited = wait_us(retry, attempt, seed)
    assert waited >= wait_us(replace(retry, jitter=0.0), attempt, seed)
    assert waited == wait_us(retry, attempt, seed)


def test_jitter_spreads_runs_that_failed_together():
    retry = Retry(max_retries=1, delay_us=HOUR, jitter=0.5)
    assert len({wait_us(retry, 1, f"run-{number}") // SECOND for number in range(100)}) > 80


def test_the_ten_thousandth_attempt_costs_no_more_than_the_cap():
    retry = Retry(max_retries=100_000, delay_us=SECOND, backoff=Backoff.EXPONENTIAL, cap_us=DAY)
    assert retry_at(retry, 10_000, NINE, "run") == NINE + DAY

"""Whether an occurrence is on time is decided by its grace alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import HOUR, SECOND, from_text
from evertick.planning.catchup import is_missed, missed_through

NINE = from_text("2026-03-02T09:00:00Z")
GRACE = 30 * SECOND
instants = st.integers(0, 10**16)


@pytest.mark.parametrize(
    ("now", "missed"),
    [
        pytest.param(NINE - HOUR, False, id="an hour to come"),
        pytest.param(NINE, False, id="due now"),
        pytest.param(NINE + GRACE, False, id="exactly the grace late"),
        pytest.param(NINE + GRACE + 1, True, id="a microsecond more than the grace late"),
        pytest.param(NINE + HOUR, True, id="an hour late"),
    ],
)
def test_an_occurrence_of_nine_with_half_a_minute_of_grace(now, missed):
    assert is_missed(NINE, now, GRACE) is missed


@given(instants, instants, st.integers(1, HOUR))
def test_missed_and_on_time_share_no_instant_and_leave_none_out(scheduled_for, now, grace_us):
    assert is_missed(scheduled_for, now, grace_us) is (scheduled_for <= missed_through(now, grace_us))


@given(instants, instants, st.integers(1, HOUR), st.integers(0, HOUR))
def test_a_missed_occurrence_stays_missed_as_time_goes_on(scheduled_for, now, grace_us, later_us):
    if is_missed(scheduled_for, now, grace_us):
        assert is_missed(scheduled_for, now + later_us, grace_us)

"""Percentiles of lateness are right to an eighth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import SettingsError
from evertick.loop.statistics import Lateness
from evertick.model.instant import MILLISECOND, SECOND
from evertick.settings.parts import LoopSettings

STEP_US = MILLISECOND // 100


@given(st.lists(st.integers(-SECOND, 10_000 * SECOND), min_size=1, max_size=200), st.sampled_from([1, 50, 90, 99, 100]))
def test_a_percentile_is_never_too_low_and_at_most_an_eighth_too_high(late, percent):
    lateness = Lateness()
    for late_us in late:
        lateness.add(late_us)
    ordered = sorted(max(late_us, 0) for late_us in late)
    exact = ordered[max(-(-len(ordered) * percent // 100), 1) - 1]
    assert exact <= lateness.percentile_us(percent) <= exact * 9 / 8 + STEP_US
    assert lateness.count == len(late)
    assert lateness.worst_us == ordered[-1]


def test_nothing_measured_is_nothing_late():
    assert Lateness().percentile_us(99) == 0


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        pytest.param({"preread_us": 0}, "preread", id="no pre-read"),
        pytest.param({"batches": 0}, "batches", id="no batches"),
        pytest.param({"interval_us": 6 * SECOND}, "interval", id="a loop slower than its pre-read"),
        pytest.param({"keep_us": SECOND // 2}, "keep", id="a keep shorter than one iteration"),
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(wrong, named):
    with pytest.raises(SettingsError, match=named):
        LoopSettings(**wrong)

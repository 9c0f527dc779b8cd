"""Whether an occurrence is too late to be useful, even when it is caught up."""

from __future__ import annotations

import pytest

from evertick.model.instant import DAY, MINUTE, from_text
from evertick.planning.catchup import is_too_late

NINE = from_text("2026-03-02T09:00:00Z")


@pytest.mark.parametrize(
    ("late_us", "max_delay_us", "too_late"),
    [
        pytest.param(1_000 * DAY, None, False, id="without a bound nothing is too late"),
        pytest.param(0, 10 * MINUTE, False, id="on the dot"),
        pytest.param(-MINUTE, 10 * MINUTE, False, id="still to come"),
        pytest.param(10 * MINUTE, 10 * MINUTE, False, id="exactly the bound is inside"),
        pytest.param(10 * MINUTE + 1, 10 * MINUTE, True, id="a microsecond beyond it is not"),
    ],
)
def test_lateness_against_the_bound(late_us, max_delay_us, too_late):
    assert is_too_late(NINE, NINE + late_us, max_delay_us) is too_late

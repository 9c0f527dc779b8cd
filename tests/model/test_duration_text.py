"""Is the text of a duration unambiguous?"""

from __future__ import annotations

import pytest

from evertick.model.duration import duration_text
from evertick.model.instant import HOUR, MILLISECOND, MINUTE, SECOND


@pytest.mark.parametrize(
    ("span_us", "text"),
    [
        pytest.param(3 * SECOND + 6 * MILLISECOND, "3.006s", id="not 3s6ms, which reads as 3.6"),
        pytest.param(3 * SECOND + 250 * MILLISECOND, "3.25s", id="no zeros at the end"),
        pytest.param(3 * SECOND + 1, "3s", id="nothing below a millisecond"),
        pytest.param(3 * SECOND, "3s", id="whole seconds"),
        pytest.param(12 * MILLISECOND, "12ms", id="less than a second"),
        pytest.param(0, "0ms", id="nothing"),
        pytest.param(12 * SECOND + 6 * MILLISECOND, "12s", id="no milliseconds beyond ten seconds"),
        pytest.param(HOUR + 12 * MINUTE + 41 * SECOND, "1h 12m", id="the two largest units"),
    ],
)
def test_a_length_of_time(span_us, text):
    assert duration_text(span_us) == text

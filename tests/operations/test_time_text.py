"""Are lengths of time told so that nobody misreads them?"""

from __future__ import annotations

import pytest

from evertick.model.instant import HOUR, MILLISECOND, MINUTE, SECOND
from evertick.operations.time_text import span_text


@pytest.mark.parametrize(
    ("span_us", "text"),
    [
        pytest.param(3 * SECOND + 6 * MILLISECOND, "3.006 s", id="not 3s6ms, which reads as 3.6"),
        pytest.param(3 * SECOND + 250 * MILLISECOND, "3.250 s", id="three digits"),
        pytest.param(3 * SECOND + 1, "3s", id="nothing below a millisecond"),
        pytest.param(3 * SECOND, "3s", id="whole seconds"),
        pytest.param(12 * MILLISECOND, "12ms", id="less than a second"),
        pytest.param(0, "0s", id="nothing"),
        pytest.param(12 * SECOND + 6 * MILLISECOND, "12s", id="no milliseconds beyond ten seconds"),
        pytest.param(HOUR + 12 * MINUTE + 41 * SECOND, "1h12m41s", id="long"),
    ],
)
def test_a_length_of_time(span_us, text):
    assert span_text(span_us) == text

"""Whether the work of a live occurrence has been done already."""

from __future__ import annotations

import pytest

from evertick.model.instant import HOUR, MINUTE, from_text
from evertick.model.lifecycle import Trigger
from evertick.planning.success import already_succeeded

NINE = from_text("2026-03-02T09:00:00Z")
EIGHT = NINE - HOUR


@pytest.mark.parametrize(
    ("previous_for", "last_success_at", "done"),
    [
        pytest.param(EIGHT, None, False, id="nothing ever succeeded"),
        pytest.param(EIGHT, EIGHT - MINUTE, False, id="a success before the previous occurrence"),
        pytest.param(EIGHT, EIGHT, False, id="the previous occurrence's own success"),
        pytest.param(EIGHT, EIGHT + 1, True, id="a success just after the previous occurrence"),
        pytest.param(EIGHT, NINE - MINUTE, True, id="a run by hand a minute ago"),
        pytest.param(None, NINE - MINUTE, True, id="a run by hand before the first occurrence"),
        pytest.param(None, None, False, id="the first occurrence, and nothing before it"),
    ],
)
def test_a_live_occurrence_of_nine(previous_for, last_success_at, done):
    assert already_succeeded(Trigger.SCHEDULER, previous_for, last_success_at) is done


@pytest.mark.parametrize("trigger", [one for one in Trigger if one is not Trigger.SCHEDULER])
def test_only_a_live_occurrence_is_asked(trigger):
    assert not already_succeeded(trigger, EIGHT, NINE - MINUTE)

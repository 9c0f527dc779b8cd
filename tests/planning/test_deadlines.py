"""By when an occurrence must have succeeded."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import DAY, HOUR, MINUTE, from_text
from evertick.model.lifecycle import Light
from evertick.model.policy import Expectation
from evertick.model.schedule import CronSpec, EverySpec, ScheduleSpec
from evertick.planning.deadlines import deadline_of, light_of, next_deadline, passed_deadlines
from evertick.planning.schedules import compile_all

BERLIN = "Europe/Berlin"


def by(time: str, zone: str = BERLIN) -> Expectation:
    return Expectation(by=time, timezone=zone)


@pytest.mark.parametrize(
    ("cron", "expected", "occurrence", "deadline"),
    [
        pytest.param("0 6 * * *", by("07:30"), "2026-03-02T05:00Z", "2026-03-02T06:30Z", id="on the same day"),
        pytest.param("0 22 * * *", by("07:30"), "2026-03-02T21:00Z", "2026-03-03T06:30Z", id="the next morning"),
        pytest.param("30 7 * * *", by("07:30"), "2026-03-02T06:30Z", "2026-03-03T06:30Z", id="due at that very time"),
        pytest.param("0 22 * * FRI", by("07:30"), "2026-03-06T21:00Z", "2026-03-07T06:30Z", id="once a week"),
        pytest.param("0 1 * * *", by("02:30"), "2026-03-29T00:00Z", "2026-03-29T01:00Z", id="a time that is skipped"),
        pytest.param("0 1 * * *", by("02:30"), "2026-10-24T23:00Z", "2026-10-25T00:30Z", id="a time that comes twice"),
        pytest.param("0 * * * *", by("07:30"), "2026-03-02T06:00Z", "2026-03-02T06:30Z", id="the last of several"),
        pytest.param("0 * * * *", by("07:30"), "2026-03-02T05:00Z", None, id="not those before the last"),
        pytest.param(
            "0 6 * * *", Expectation(within_us=20 * MINUTE), "2026-03-02T05:00Z", "2026-03-02T05:20Z", id="within"
        ),
    ],
)
def test_the_deadline_of_an_occurrence(cron, expected, occurrence, deadline):
    found = deadline_of(compile_all([CronSpec(cron, BERLIN)]), expected, from_text(occurrence))
    assert found == (None if deadline is None else from_text(deadline))


SCHEDULES = st.sampled_from(
    [
        CronSpec("0 6 * * *", BERLIN),
        CronSpec("*/7 * * * *", BERLIN),
        CronSpec("0 22 * * MON", BERLIN),
        EverySpec(95 * MINUTE),
        EverySpec(3 * DAY),
    ]
)
EXPECTED = st.one_of(
    st.builds(by, st.sampled_from(["00:00", "02:30", "07:30", "23:59"])),
    st.builds(Expectation, within_us=st.integers(1, 5).map(lambda hours: hours * HOUR)),
)
INSTANTS = st.integers(0, 400 * DAY).map(lambda offset: from_text("2026-03-01T00:00Z") + offset)


@given(st.lists(SCHEDULES, min_size=1, max_size=2), EXPECTED, INSTANTS, st.integers(0, 12 * DAY))
def test_passed_and_coming_deadlines_are_the_same_ones(
    specs: list[ScheduleSpec], expected: Expectation, start: int, length: int
):
    schedules, found = compile_all(specs), []
    deadline = next_deadline(schedules, expected, start)
    while deadline is not None and deadline.at <= start + length:
        found.append(deadline)
        deadline = next_deadline(schedules, expected, deadline.scheduled_for)
    assert list(passed_deadlines(schedules, expected, start, start + length)) == found[::-1]
    assert all(one.scheduled_for < other.scheduled_for and one.at <= other.at for one, other in pairwise(found))
    assert all(deadline_of(schedules, expected, one.scheduled_for) == one.at for one in found)


@pytest.mark.parametrize(
    ("has_failed", "is_late", "is_under_way", "light"),
    [
        pytest.param(False, False, False, Light.ON_TIME, id="all is well"),
        pytest.param(False, False, True, Light.ON_TIME, id="a run, or the retry of an attempt, is under way"),
        pytest.param(False, True, True, Light.LATE, id="past its deadline, and still running"),
        pytest.param(True, False, True, Light.LATE, id="it failed, and is run again"),
        pytest.param(True, False, False, Light.DOWN, id="it failed"),
        pytest.param(False, True, False, Light.DOWN, id="past its deadline, and nothing runs"),
        pytest.param(True, True, False, Light.DOWN, id="both"),
    ],
)
def test_the_light_of_a_job(has_failed, is_late, is_under_way, light):
    assert light_of(has_failed=has_failed, is_late=is_late, is_under_way=is_under_way) is light

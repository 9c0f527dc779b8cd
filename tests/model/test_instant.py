"""Whether an instant survives every form in which it is written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import InvalidArgument
from evertick.model.instant import (
    DAY,
    HOUR,
    MILLISECOND,
    MINUTE,
    SECOND,
    from_datetime,
    from_text,
    to_datetime,
    to_text,
)

EARLIEST = from_datetime(datetime.min.replace(tzinfo=UTC))
LATEST = from_datetime(datetime.max.replace(tzinfo=UTC))

instants = st.integers(EARLIEST, LATEST)
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(instants)
def test_a_datetime_gives_the_instant_back(instant):
    assert from_datetime(to_datetime(instant)) == instant


@given(st.integers(0, from_text("2200-12-31T23:59:59Z")))
def test_a_text_gives_the_instant_back(instant):
    assert from_text(to_text(instant)) == instant


@given(st.integers(EARLIEST + DAY, LATEST - DAY), offsets)
def test_the_zone_a_moment_is_written_in_does_not_move_it(instant, offset):
    there = to_datetime(instant).astimezone(offset)
    assert from_datetime(there) == instant
    assert from_text(there.isoformat()) == instant


@given(instants, instants)
def test_instants_are_ordered_as_their_moments_are(one, other):
    assert (one < other) == (to_datetime(one) < to_datetime(other))


@given(st.integers(0, LATEST), st.integers(0, LATEST))
def test_whole_seconds_are_ordered_as_their_texts_are(one, other):
    one, other = one - one % SECOND, other - other % SECOND
    assert (one < other) == (to_text(one) < to_text(other))


@given(instants)
def test_adding_a_day_adds_a_day(instant):
    day_later = min(instant + DAY, LATEST)
    assert to_datetime(day_later) - to_datetime(instant) == timedelta(microseconds=day_later - instant)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        pytest.param(0, "1970-01-01T00:00:00Z", id="the epoch"),
        pytest.param(-1, "1969-12-31T23:59:59.999999Z", id="one microsecond before it"),
        pytest.param(1_772_442_000 * SECOND, "2026-03-02T09:00:00Z", id="no fraction where there is none"),
        pytest.param(250 * MILLISECOND, "1970-01-01T00:00:00.25Z", id="a fraction as short as it can be"),
        pytest.param(SECOND + 1, "1970-01-01T00:00:01.000001Z", id="a microsecond"),
    ],
)
def test_an_instant_is_written_in_utc(instant, text):
    assert to_text(instant) == text
    assert from_text(text) == instant


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2026-03-02T10:00:00+01:00", id="an offset"),
        pytest.param("2026-03-02T09:00Z", id="no seconds"),
        pytest.param("2026-03-02 09:00:00Z", id="a space for the T"),
    ],
)
def test_a_text_in_another_form_is_the_same_instant(text):
    assert to_text(from_text(text)) == "2026-03-02T09:00:00Z"


def test_a_moment_without_a_zone_is_refused_with_what_to_do():
    with pytest.raises(InvalidArgument, match=r"without a zone.*Add tzinfo"):
        from_datetime(datetime(2026, 3, 2, 9))  # noqa: DTZ001


def test_a_text_without_an_offset_is_refused_with_what_to_write():
    with pytest.raises(ValueError, match=r"has no offset.*2026-03-02T09:00Z"):
        from_text("2026-03-02T09:00")


def test_the_units_are_built_on_each_other():
    assert (MILLISECOND, SECOND, MINUTE, HOUR, DAY) == (10**3, 10**6, 60 * 10**6, 3_600 * 10**6, 86_400 * 10**6)

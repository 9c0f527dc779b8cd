"""How a time that a user writes is read."""

from __future__ import annotations

import pytest

from evertick.errors import InvalidArgument
from evertick.model.instant import from_text, to_text
from evertick.operations.time_text import read_moment

NOW = from_text("2026-03-29T10:30:00Z")


def read(text: str, *, zone: str = "Europe/Berlin", is_ahead: bool = False) -> str:
    return to_text(read_moment(text, zone, now=NOW, is_ahead=is_ahead))


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        pytest.param("now", "2026-03-29T10:30:00Z", id="now"),
        pytest.param("1h", "2026-03-29T09:30:00Z", id="a duration is ago"),
        pytest.param("-2d", "2026-03-27T10:30:00Z", id="with a minus it is ago"),
        pytest.param("+1d12h", "2026-03-30T22:30:00Z", id="with a plus it is from now"),
        pytest.param("today", "2026-03-28T23:00:00Z", id="today began at midnight of the zone"),
        pytest.param("tomorrow", "2026-03-29T22:00:00Z", id="a day in which the clocks change has 23 hours"),
        pytest.param("yesterday", "2026-03-27T23:00:00Z", id="yesterday"),
        pytest.param("2026-03-02", "2026-03-01T23:00:00Z", id="a date is local"),
        pytest.param("2026-03-02T01:00+00:00", "2026-03-02T01:00:00Z", id="an offset is exact"),
    ],
)
def test_a_time_is_read_in_the_zone_and_relative_to_now(text, instant):
    assert read(text) == instant


def test_a_duration_is_from_now_where_only_the_future_makes_sense():
    assert read("1h", is_ahead=True) == "2026-03-29T11:30:00Z"
    assert read("-1h", is_ahead=True) == "2026-03-29T09:30:00Z"


@pytest.mark.parametrize("text", ["5x", "1.5h", "0d", "-", "soon", "--2d", "", "٣h", "1h "])
def test_anything_else_is_an_error_with_the_next_step(text):
    with pytest.raises(InvalidArgument, match=r"Write"):
        read(text)


def test_a_relative_time_before_the_epoch_is_the_epoch():
    assert read("-36500d") == "1970-01-01T00:00:00Z"


def test_where_only_exact_times_are_wanted_a_relative_one_is_an_error():
    with pytest.raises(InvalidArgument, match="is not a time"):
        read_moment("yesterday", "UTC")

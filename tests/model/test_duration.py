"""A duration is a sum of whole numbers with units, and nothing else."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evertick.errors import DurationError
from evertick.model.duration import LONGEST_US, TEXT_MAX, format_duration, parse_duration
from evertick.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        pytest.param("1s", SECOND, id="a second"),
        pytest.param("90s", 90 * SECOND, id="more seconds than a minute has"),
        pytest.param("30m", 30 * MINUTE, id="minutes"),
        pytest.param("6h", 6 * HOUR, id="hours"),
        pytest.param("3d", 3 * DAY, id="days"),
        pytest.param("2d12h", 60 * HOUR, id="days and hours"),
        pytest.param("1d30m", DAY + 30 * MINUTE, id="a unit left out between"),
        pytest.param("1d2h3m4s", DAY + 2 * HOUR + 3 * MINUTE + 4 * SECOND, id="every unit"),
        pytest.param("30m1d", DAY + 30 * MINUTE, id="in any order"),
        pytest.param("1h1h", 2 * HOUR, id="a unit twice"),
        pytest.param("05m", 5 * MINUTE, id="a leading zero"),
        pytest.param("36525d", LONGEST_US, id="exactly a century"),
    ],
)
def test_a_sum_of_whole_numbers_with_units_is_a_duration(text, duration_us):
    assert parse_duration(text) == duration_us


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        pytest.param("250ms", 250 * MILLISECOND, id="below a second"),
        pytest.param("1s500ms", 1_500 * MILLISECOND, id="a second and a half"),
        pytest.param("1m5ms", MINUTE + 5 * MILLISECOND, id="m and ms are told apart"),
        pytest.param("2m", 2 * MINUTE, id="the other units stay"),
    ],
)
def test_an_interval_may_use_milliseconds(text, duration_us):
    assert parse_duration(text, allow_subsecond=True) == duration_us


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "empty", id="nothing"),
        pytest.param("0s", "zero", id="zero"),
        pytest.param("0h30m", "'0h' is zero", id="a zero part"),
        pytest.param("-5m", "sign", id="negative"),
        pytest.param("+5m", "sign", id="a plus sign"),
        pytest.param("90", "'90' has no unit", id="no unit"),
        pytest.param("1h30", "'30' has no unit", id="no unit at the end"),
        pytest.param("h", "instead of a number", id="a unit alone"),
        pytest.param("m5", "instead of a number", id="unit before number"),
        pytest.param("5x", "'x' is not a unit", id="an unknown unit"),
        pytest.param("5min", "'min' is not a unit", id="a spelled-out unit"),
        pytest.param("2w", "'w' is not a unit", id="weeks"),
        pytest.param("5us", "'us' is not a unit", id="microseconds"),
        pytest.param("5M", "lower case", id="upper case, which could be months"),
        pytest.param("1.5h", "fraction", id="a fraction with a point"),
        pytest.param("1,5h", "fraction", id="a fraction with a comma"),
        pytest.param("1h 30m", "space", id="a space between"),
        pytest.param(" 5m", "space", id="a space before"),
        pytest.param("5m\n", "space", id="a line break behind"),
        pytest.param("5\u00a0m", "space", id="a no-break space"),
        pytest.param("1h,30m", "',' is not allowed in it", id="a comma between"),
        pytest.param("250ms", "intervals only", id="milliseconds where they have no place"),
        pytest.param("\u0665m", "is not allowed in it", id="digits of another script"),
        pytest.param("PT5M", "'P' is not allowed in it", id="an ISO 8601 duration"),
        pytest.param("36525d1s", "century", id="just over a century"),
        pytest.param("99999999999999999999d", "century", id="very many days"),
        pytest.param("9" * 5_000 + "s", "longer than 64 characters", id="thousands of digits"),
    ],
)
def test_anything_else_is_refused_with_the_reason(text, reason):
    with pytest.raises(DurationError) as refused:
        parse_duration(text)
    assert reason in refused.value.reason


def test_the_error_names_the_value_the_reason_and_an_example():
    with pytest.raises(DurationError) as refused:
        parse_duration("5x")
    assert str(refused.value) == (
        "'5x' is not a duration: 'x' is not a unit. Write whole numbers with d, h, m or s, for example 2d12h or 90s."
    )


def test_the_example_for_an_interval_shows_milliseconds():
    with pytest.raises(DurationError, match="for example 1m30s or 250ms"):
        parse_duration("5x", allow_subsecond=True)


def test_an_overlong_text_is_not_repeated_in_full():
    with pytest.raises(DurationError) as refused:
        parse_duration("1s" * 10_000)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        pytest.param(90 * SECOND, "1m30s", id="largest unit first"),
        pytest.param(60 * HOUR, "2d12h", id="zero parts left out"),
        pytest.param(DAY, "1d", id="one unit"),
        pytest.param(250 * MILLISECOND, "250ms", id="below a second"),
        pytest.param(1_500 * MILLISECOND, "1s500ms", id="a second and a half"),
        pytest.param(0, "0s", id="zero, from arithmetic"),
        pytest.param(500, "500us", id="below a millisecond, from arithmetic"),
        pytest.param(-90 * SECOND, "-1m30s", id="negative, from arithmetic"),
    ],
)
def test_a_duration_is_written_exactly(duration_us, text):
    assert format_duration(duration_us) == text


@given(st.integers(1, LONGEST_US // MILLISECOND).map(lambda ms: ms * MILLISECOND))
@example(LONGEST_US)
def test_what_is_written_parses_back(duration_us):
    assert parse_duration(format_duration(duration_us), allow_subsecond=True) == duration_us


@given(st.integers(1, LONGEST_US // SECOND).map(lambda seconds: seconds * SECOND))
def test_whole_seconds_are_written_without_milliseconds(duration_us):
    assert parse_duration(format_duration(duration_us)) == duration_us


@given(st.lists(st.tuples(st.integers(1, 999), st.sampled_from("dhms")), min_size=1, max_size=8))
def test_the_order_of_the_parts_does_not_matter(parts):
    def write(parts):
        return "".join(f"{amount}{unit}" for amount, unit in parts)

    assert parse_duration(write(parts)) == parse_duration(write(parts[::-1]))


GRAMMAR = re.compile(r"(0*[1-9][0-9]*[dhms])+")


@given(st.one_of(st.text(), st.text("0159dhms .-+mMw\u0665", max_size=TEXT_MAX)), st.booleans())
def test_a_text_is_a_positive_duration_or_a_duration_error(text, allow_subsecond):
    try:
        duration_us = parse_duration(text, allow_subsecond=allow_subsecond)
    except DurationError as refused:
        assert repr(text[:TEXT_MAX])[1:-1] in str(refused)  # noqa: PT017
    else:
        assert 0 < duration_us <= LONGEST_US


def test_exactly_the_texts_of_the_grammar_are_accepted():
    fuzz = random.Random(20260302)
    accepted = 0
    for _ in range(20_000):
        text = "".join(fuzz.choices("0019dhmsx -.", k=fuzz.randint(0, 6)))
        expected = GRAMMAR.fullmatch(text) is not None
        try:
            fits = parse_duration(text) <= LONGEST_US
        except DurationError as refused:
            fits = "century" in refused.reason
        assert fits == expected, text
        accepted += expected
    assert accepted > 200

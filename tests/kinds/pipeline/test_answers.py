"""What is read from an answer, however it is wrapped."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.kinds.pipeline.answers import Unparsable, coerce, parse_answer, parse_batch, parse_object, parse_rows
from evertick.kinds.pipeline.lenient_json import lenient_at


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param('{"severity": "high", "count": 3}', ("high", 3), id="plain JSON"),
        pytest.param('Sure!\n```json\n{"severity": "high", "count": 3}\n```\nBye', ("high", 3), id="a fenced block"),
        pytest.param('```\n{"severity": "high", "count": 3}```', ("high", 3), id="a fence without a language"),
        pytest.param('I think {"severity": "high", "count": 3} fits.', ("high", 3), id="JSON in prose"),
        pytest.param('See [1] and {x}: {"severity": "high", "count": 3}', ("high", 3), id="behind other brackets"),
        pytest.param("{'severity': 'high', 'count': 3}", ("high", 3), id="single quotes"),
        pytest.param('{severity: "high", count: 3}', ("high", 3), id="bare keys"),
        pytest.param('{"severity": "high", "count": 3,}', ("high", 3), id="a trailing comma"),
        pytest.param("{'severity': 'it isn\\'t high', 'count': 3}", ("it isn't high", 3), id="an escaped apostrophe"),
        pytest.param("{'severity': 'it isn't high', 'count': 3}", ("it isn't high", 3), id="a bare apostrophe"),
        pytest.param('[{"severity": "high", "count": 3}]', ("high", 3), id="a list of one"),
        pytest.param('{"Severity": "high", "COUNT": 3}', ("high", 3), id="other case"),
        pytest.param('{"severity": "high", "other": 1}', ("high", None), id="missing is nothing, foreign is dropped"),
        pytest.param("severity: high\ncount: 3", ("high", 3), id="lines"),
        pytest.param("- **Severity**: high\n- **Count**: 3", ("high", 3), id="lines of a Markdown list"),
        pytest.param('"severity": "high",\n"count": 3,', ("high", 3), id="JSON without its braces"),
        pytest.param("The severity is high, and the count is 3.", ("high", 3), id="prose"),
        pytest.param("{'severity': True, 'count': None}", (True, None), id="Python's words"),
        pytest.param('{"severity": {"a": [1, {"b": 2}]}, "count": 1.0}', ({"a": [1, {"b": 2}]}, 1), id="nested"),
    ],
)
def test_the_declared_fields_are_found(text, found):
    assert parse_answer(text, ("severity", "count")) == dict(zip(("severity", "count"), found, strict=True))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("I cannot help with that.", "no JSON and none of the fields", id="a refusal"),
        pytest.param("", "no JSON", id="nothing"),
        pytest.param('[{"severity": 1}, {"severity": 2}]', "2 objects for one item", id="two objects"),
        pytest.param("{" * 100_000, "no JSON", id="brackets without end"),
        pytest.param('{"a":' * 100_000, "no JSON", id="nested without end"),
    ],
)
def test_an_answer_that_says_nothing_is_refused(text, reason):
    with pytest.raises(Unparsable, match=reason):
        parse_answer(text, ("severity",))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[pytest.param(text, True, id=text) for text in ("true", "Yes", " TRUE ")],
        *[pytest.param(text, False, id=text) for text in ("false", "No")],
        *[pytest.param(text, None, id=text or "empty") for text in ("null", "None", "N/A", "")],
        pytest.param("42", 42, id="42"),
        pytest.param("-1.5", -1.5, id="-1.5"),
        pytest.param("2.0", 2, id="2.0 is 2"),
        pytest.param("1e3", 1000, id="1e3"),
        pytest.param("1e999", "1e999", id="too large for a number"),
        pytest.param("٣", "٣", id="digits of another script"),
        pytest.param("12 apples", "12 apples", id="a text that begins with a number"),
        pytest.param("9" * 5_000, "9" * 5_000, id="more digits than a number has"),
        pytest.param([1, "yes"], [1, "yes"], id="inside a list nothing is changed"),
    ],
)
def test_texts_that_mean_something_else_become_it(text, value):
    coerced = coerce(text)
    assert coerced == value
    assert type(coerced) is type(value)


def test_a_batch_is_strict_and_not_coerced():
    assert parse_batch('[{"n": "1"}, {"n": "yes", "x": 0}]', ("n",), 2) == [{"n": "1"}, {"n": "yes"}]
    assert parse_batch('```json\n[{"n": 1}, 5]\n```', ("n",), 2) == [{"n": 1}, None]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param('[{"n": 1}]', "AI returned 1 results but batch has 2 items", id="too few"),
        pytest.param("[{'n': 1}, {'n': 2}]", "it is not JSON", id="single quotes"),
        pytest.param('{"n": 1}', "no JSON array", id="an object"),
        pytest.param("[NaN, {}]", "it is not JSON", id="not a number"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(text, reason):
    with pytest.raises(Unparsable, match=reason):
        parse_batch(text, ("n",), 2)


def test_an_object_is_parsed_strictly_and_keeps_only_the_requested_fields():
    assert parse_object('Here: {"a": "1", "b": 2} ok', ("a", "c")) == {"a": "1", "c": None}
    with pytest.raises(Unparsable, match="not JSON"):
        parse_object("{a: 1}", ("a",))
    with pytest.raises(Unparsable, match="no JSON object"):
        parse_object("nothing", ("a",))


def test_rows_must_be_objects():
    assert parse_rows('[{"a": 1}, {"a": 2}]') == [{"a": 1}, {"a": 2}]
    with pytest.raises(Unparsable, match="not an object"):
        parse_rows('[{"a": 1}, 2]')


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=15,
)


@given(st.dictionaries(st.text(max_size=8), PLAIN, max_size=5))
def test_the_lenient_reader_reads_all_of_json(value):
    text = json.dumps(value)
    assert lenient_at(text, 0) == (value, len(text))


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text):
    try:
        found = parse_answer(text, ("a", "b.c(", "[x"))
    except Unparsable:
        return
    assert list(found) == ["a", "b.c(", "[x"]


@given(st.text(alphabet="{}[]:,'\"a1 \\\n`", max_size=60))
def test_no_heap_of_brackets_breaks_the_parser(text):
    try:
        found = parse_answer(text, ("a",))
    except Unparsable:
        return
    assert list(found) == ["a"]

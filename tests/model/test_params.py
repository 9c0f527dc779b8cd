"""Whether the value of a parameter is checked against its description."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.params import VALUE_MAX, problem_with
from evertick.model.work import Param


@pytest.mark.parametrize(
    ("schema", "text", "words"),
    [
        pytest.param({}, "anything", None, id="any text"),
        pytest.param({}, "", None, id="an empty text"),
        pytest.param({}, "a\0b", "NUL", id="a NUL"),
        pytest.param({}, "x" * (VALUE_MAX + 1), "characters", id="too long"),
        pytest.param({"type": "integer"}, "-12", None, id="a whole number"),
        pytest.param({"type": "integer"}, "1.0", "not a whole number", id="a fraction"),
        pytest.param({"type": "integer"}, " 1", "not a whole number", id="a space"),
        pytest.param({"type": "integer"}, "١", "not a whole number", id="a digit of another script"),
        pytest.param({"type": "integer"}, "9" * 400, "not a whole number", id="a number out of reach"),
        pytest.param({"type": "number"}, "1e3", None, id="a number with an exponent"),
        pytest.param({"type": "number"}, "nan", "not a number", id="not a number"),
        pytest.param({"type": "number"}, "1e999", "not a number", id="an infinite number"),
        pytest.param({"type": "boolean"}, "true", None, id="true"),
        pytest.param({"type": "boolean"}, "yes", "not true or false", id="yes"),
        pytest.param({"enum": ["a", "b"]}, "a", None, id="one of the words"),
        pytest.param({"enum": ["a", "b"]}, "c", "one of a, b", id="none of the words"),
        pytest.param({"type": "number", "enum": [1.0, 2.5]}, "1", None, id="the same number written otherwise"),
        pytest.param({"type": "integer", "enum": [True]}, "1", "one of true", id="true is not one"),
        pytest.param({"pattern": "[0-9]+"}, "12", None, id="a match"),
        pytest.param({"pattern": "[0-9]+"}, "12a", "does not match", id="a match of the beginning only"),
        pytest.param({"type": "integer", "minimum": 3}, "2", "the minimum is 3", id="too small"),
        pytest.param({"type": "integer", "maximum": 3}, "4", "the maximum is 3", id="too large"),
        pytest.param({"type": "integer", "minimum": 3, "maximum": 3}, "3", None, id="on the bounds"),
    ],
)
def test_a_value_is_taken_or_refused_with_its_reason(schema, text, words):
    problem = problem_with(Param("A", None, schema), text)
    assert (problem is None) == (words is None)
    assert words is None or words in str(problem)


@given(st.text(max_size=50), st.sampled_from(["string", "integer", "number", "boolean"]))
def test_no_text_makes_the_judge_fail(text, kind):
    problem = problem_with(Param("A", None, {"type": kind, "minimum": 0, "enum": [1, "a", True]}), text)
    assert problem is None or isinstance(problem, str)

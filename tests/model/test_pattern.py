"""Regular expressions that users write: none of them can block the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evertick.model.params import MATCHED_MAX, problem_with
from evertick.model.pattern import PatternError, compile_pattern
from evertick.model.work import Param

HOSTILE = ["(a+)+$", "(a|a)*b", "(a|aa)+$", "([a-zA-Z]+)*!", "(.*)*(.*)*(.*)*="]
"""Each takes a backtracking engine longer than the age of the universe on the text below."""


def test_an_expression_that_makes_others_backtrack_is_answered():
    text = "a" * 50_000 + "!?"
    # In a process of its own: an engine that backtracks holds the interpreter, and no time limit here would end it.
    code = (
        "import sys; from evertick.model.pattern import compile_pattern as c\n"
        f"print([c(p).matches_whole({text!r}) for p in {HOSTILE!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=True)
    assert done.stdout.strip() == str([False] * len(HOSTILE))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(", "missing"),
        ("(?=a)b", "look-ahead"),
        ("(?<!a)b", "look-behind"),
        (r"(a)\1", "backward references"),
        (r"(?P<x>a)(?P=x)", "backward references"),
        (r"a\Z", r"\z"),
        ("((.?){10}){100}" * 5, "too large"),
    ],
)
def test_a_pattern_that_cannot_be_matched_in_linear_time_is_refused(text, reason):
    with pytest.raises(PatternError, match=reason.replace("\\", r"\\")):
        compile_pattern(text)


@pytest.mark.parametrize("text", ["é", "\ud800", "a\ud800b", "\0", "日本語"])
def test_any_text_can_be_matched(text):
    assert compile_pattern("(?s).*").matches_whole(text)
    assert not compile_pattern("never").matches_part(text)


def test_the_whole_text_or_a_part():
    pattern = compile_pattern("[0-9]+")
    assert pattern.matches_part("a1b")
    assert not pattern.matches_whole("a1b")
    assert pattern.matches_whole("123")


def test_a_value_for_a_parameter_with_a_pattern_has_a_limit():
    param = Param("P", None, {"pattern": "a*"})
    assert problem_with(param, "a" * MATCHED_MAX) is None
    assert "characters" in (problem_with(param, "a" * (MATCHED_MAX + 1)) or "")

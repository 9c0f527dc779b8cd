"""Are the outcomes of earlier attempts kept, however many there are and whatever they contain?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.attempts import ATTEMPTS_MAX, TEXT_MAX, AttemptRecord, read_attempts, with_attempt
from evertick.model.steps import StepRecord

STEP = StepRecord("fetch", "failed", 1, 2, 1_000, 2_000, exit_code=3, detail="no", has_log=True)


def attempt(number, **known):
    return AttemptRecord(number, "failed", 1_000 * number, 1_000 * number + 5, 1, "no", "local", "d1")._replace(**known)


def text_of(*attempts):
    text = ""
    for one in attempts:
        text = with_attempt(text, one)
    return text


def test_attempts_are_read_back_as_they_were_written_oldest_first():
    known = [attempt(1, steps=(STEP,)), attempt(2, state="lost", started_at=None, exit_code=None)]
    assert list(read_attempts(text_of(*known))) == known


def test_a_repeated_message_counts_once():
    text = text_of(attempt(1), attempt(1, detail="again"))
    assert [one.detail for one in read_attempts(text)] == ["again"]


def test_of_many_the_newest_are_kept():
    found = read_attempts(text_of(*map(attempt, range(1, 100))))
    assert [one.attempt for one in found] == list(range(100 - ATTEMPTS_MAX, 100))


@given(st.integers(1, 4), st.integers(0, 3_000), st.text(max_size=400))
def test_the_text_is_bounded_and_the_newest_is_always_in_it(count, steps, detail):
    many = tuple(StepRecord(f"step-{number}", "failed", detail=detail, output="x" * 50) for number in range(steps))
    text = text_of(*(attempt(number, steps=many, detail=detail) for number in range(1, count + 1)))
    assert len(text) <= TEXT_MAX
    assert read_attempts(text)[-1].attempt == count


def test_what_a_step_handed_on_is_not_kept_twice():
    (found,) = read_attempts(text_of(attempt(1, steps=(STEP._replace(output="much", digest="d"),))))
    assert found.steps == (STEP,)


@pytest.mark.parametrize("text", ["", "{", "3", '{"a": 1}', '[{"attempt": 1}]', "[3]", '[{"state": "x"}]'])
def test_what_cannot_be_read_is_none(text):
    assert read_attempts(text) == ()

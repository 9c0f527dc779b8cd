"""Are the steps of a run read from the ledger as written, and do they stay small however much they print?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.steps import OUTPUT_MAX, TEXT_MAX, StepRecord, digest_of, read_steps, steps_text
from evertick.model.work import Command, Step

TEXTS = st.text(st.characters(codec="utf-8"), max_size=100)
RECORDS = st.builds(
    StepRecord,
    name=TEXTS,
    state=st.sampled_from(["running", "succeeded", "failed", "skipped", "lost"]),
    attempt=st.integers(1, 9),
    tries=st.integers(0, 9),
    started_at=st.none() | st.integers(0, 2**50),
    exit_code=st.none() | st.integers(-64, 255),
    detail=TEXTS,
    output=st.none() | TEXTS,
    has_log=st.booleans(),
    **dict.fromkeys(("finished_at", "user_us", "system_us", "max_rss_bytes"), st.integers(0, 2**50)),
)


@given(st.lists(RECORDS, max_size=20))
def test_what_is_written_is_read_back(records):
    assert read_steps(steps_text(records)) == tuple(records)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="none"),
        pytest.param("{", id="half of it"),
        pytest.param('{"name": "a"}', id="no list"),
        pytest.param('[1, {"name": "a"}]', id="no steps"),
        pytest.param("[" * 100_000, id="nested without end"),
        pytest.param(f'[{{"name": "a", "state": "failed", "started_at": {10**30}}}]', id="a time beyond all times"),
    ],
)
def test_a_foreign_text_has_no_steps(text):
    assert read_steps(text) == ()


def test_a_field_of_a_later_version_is_passed_over():
    assert read_steps('[{"name": "a", "state": "failed", "mood": 3}]') == (StepRecord("a", "failed"),)


def test_a_thousand_steps_that_print_and_complain_do_not_make_a_row_of_megabytes():
    many = [StepRecord(f"{n:0>100}", "failed", detail="d" * 9_999, output="o" * 99_999) for n in range(1_000)]
    text = steps_text(many)
    assert len(text) < TEXT_MAX * 1.2
    assert [step.name for step in read_steps(text)] == [step.name for step in many]
    assert all(step.is_output_cut for step in read_steps(text))


def test_a_long_output_is_cut_and_marked():
    (step,) = read_steps(steps_text([StepRecord("a", "succeeded", output="x" * (OUTPUT_MAX + 1))]))
    assert (len(step.output or ""), step.is_output_cut) == (OUTPUT_MAX, True)


def test_the_digest_of_a_step_changes_with_any_part_of_it():
    step = Step("a", Command(("x",)))
    others = [Step("a", Command(("x",)), depends=("b",)), Step("a", Command(("x",), is_shell=True))]
    assert len({digest_of(one) for one in (step, *others)}) == 3
    assert digest_of(step) == digest_of(Step("a", Command(("x",))))

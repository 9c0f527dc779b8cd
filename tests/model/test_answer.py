"""Answers to requests, as the ledger keeps them."""

from __future__ import annotations

import json

import pytest

from evertick.model.answer import RESUMED, SUPERSEDED, TAKEN, Answer, Refusal, answer_text, read_answer


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(TAKEN, id="taken up"),
        pytest.param(Answer(run_id="etl@2026-03-02T09:00:00Z~r1"), id="a run"),
        pytest.param(Answer(cancelled=("a@x", "a@y")), id="cancelled"),
        pytest.param(Answer(cancelled=()), id="nothing to cancel"),
        pytest.param(Answer(planned=0), id="an empty backfill"),
        pytest.param(Answer(paused_at=0), id="paused"),
        pytest.param(RESUMED, id="resumed"),
        pytest.param(Answer(is_resumed=False), id="was not paused"),
        pytest.param(SUPERSEDED, id="superseded"),
        pytest.param(Answer(refusal=Refusal.NOT_FOUND, text="unknown job 'x'"), id="refused"),
    ],
)
def test_what_is_written_is_read(answer):
    assert read_answer(answer_text(answer)) == answer


def test_only_what_is_set_is_written():
    assert json.loads(answer_text(Answer(planned=3))) == {"planned": 3}


def test_fields_and_refusals_of_a_later_version_are_no_error():
    found = read_answer('{"run_id": "a@x", "colour": "blue", "refusal": "too-blue", "text": "no"}')
    assert found == Answer(run_id="a@x", refusal=Refusal.CONFLICT, text="no")

"""Are the facts of an entry read as they were written?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evertick.model.facts import (
    HOLDERS_MAX,
    NO_FACTS,
    WAITS_MAX,
    Facts,
    Parent,
    Wait,
    WaitKind,
    facts_text,
    read_facts,
    with_wait,
)

names = st.tuples(st.text(min_size=1))
waits = st.builds(
    Wait, st.sampled_from(WaitKind), st.integers(0, 1 << 60), st.text(), st.just(()) | names, st.just(()) | names
)
parents = st.builds(Parent, st.text(min_size=1), st.text())


@given(st.lists(parents, max_size=3), st.lists(waits, max_size=3), st.tuples(st.text(), st.text(), st.text()))
def test_facts_are_read_back_as_they_were_written(parents, waits, words):
    facts = Facts(tuple(parents), tuple(waits), *words)
    assert read_facts(facts_text(facts)) == facts


def test_no_facts_are_no_text():
    assert facts_text(NO_FACTS) == ""
    assert read_facts("") == NO_FACTS


def test_a_wait_of_a_newer_version_is_passed_over():
    assert read_facts('{"waits":[{"kind":"moon","since":1}],"phase":"full"}') == NO_FACTS


def test_each_wait_is_noted_once_and_there_is_a_limit():
    first = Wait(WaitKind.QUEUE, 1, "db", tuple(f"a@{number}" for number in range(99)))
    facts = with_wait(with_wait(NO_FACTS, first), first._replace(since=2))
    assert [wait.since for wait in facts.waits] == [1]
    assert len(facts.waits[0].runs) == HOLDERS_MAX
    for number in range(99):
        facts = with_wait(facts, Wait(WaitKind.EXECUTOR, 3, f"fleet-{number}"))
    assert len(facts.waits) == WAITS_MAX

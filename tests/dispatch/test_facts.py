"""Whether listeners receive only what is in the ledger, in order, each of them."""

from __future__ import annotations

from typing import Any

from evertick.dispatch.facts import Answered, Facts, Withdrawn
from evertick.loop.effects import Commit, Log, Record
from evertick.loop.messages import BatchCommitted, BatchFenced, ChangesRecorded, TimePassed
from evertick.model.instant import SECOND
from evertick.model.ledger import Batch
from evertick.model.lifecycle import PLANNED, RUNNING, SKIPPED, SUCCEEDED, SkipReason, Trigger
from evertick.model.run import Change, Entry, RunKey

NINE = 1_772_442_000 * SECOND


def key(number: int) -> RunKey:
    return RunKey("a", NINE + number * SECOND)


def change(number: int, state=RUNNING) -> Change:
    return Change(key(number), state, NINE)


def entry(number: int) -> Entry:
    return Entry(key(number), PLANNED, Trigger.SCHEDULER, NINE)


def told_by(*seen: Any) -> list[object]:
    told: list[object] = []
    facts = Facts([told.extend])
    for one in seen:
        facts([one])
    return told


def test_a_change_is_published_when_it_is_written():
    first, second = Record(1, [change(1), change(2)]), Record(2, [change(1, SUCCEEDED)])
    assert told_by(first, second) == []
    assert told_by(first, second, ChangesRecorded([1])) == [change(1), change(2)]
    # The writer writes what waits in one go, whatever it was handed it in.
    assert told_by(first, second, ChangesRecorded([1, 2])) == [change(1), change(2), change(1, SUCCEEDED)]


def test_a_refused_change_is_not_published():
    seen = Record(1, [change(1), change(2)]), ChangesRecorded([1], frozenset({key(1)}))
    assert told_by(*seen) == [change(2)]


def test_an_entry_is_published_when_committed_with_earlier_withdrawals():
    skip = Entry(key(2), SKIPPED, Trigger.SCHEDULER, NINE, SkipReason.MISSED)
    commit = Commit(7, Batch("a", [entry(1), skip], withdrawn=[key(3)], changes=[change(4)]))
    assert told_by(commit) == []
    assert told_by(commit, BatchCommitted(7)) == [Withdrawn([key(3)]), entry(1), skip, change(4)]
    assert told_by(commit, BatchCommitted(7, frozenset({key(1)}))) == [Withdrawn([key(3)]), skip, change(4)]


def test_an_answer_is_published_first_when_it_is_committed():
    commit = Commit(7, Batch("a", [entry(1)], answers={"r1": "{}"}))
    assert told_by(commit) == []
    assert told_by(commit, BatchCommitted(7)) == [Answered({"r1": "{}"}.keys()), entry(1)]
    assert told_by(commit, BatchFenced(7, [3])) == []


def test_a_fenced_batch_is_not_published():
    commit = Commit(7, Batch("a", [entry(1)]))
    assert told_by(commit, BatchFenced(7, [3]), BatchCommitted(7)) == []


def test_facts_without_a_write_are_published_at_once_and_ticks_never():
    jumped = Log("clock.jumped", {"by_us": 5})
    assert told_by(TimePassed(1), jumped) == [jumped]


def test_a_listener_that_raises_takes_nothing_from_the_next(caplog):
    told: list[object] = []

    def broken(facts: object) -> None:
        raise ValueError("no")

    Facts([broken, told.extend])([Log("x", {})])
    assert told == [Log("x", {})]
    assert "listener.raised" in caplog.text

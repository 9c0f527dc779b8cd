"""The writer writes in order, retries while the store is unavailable, and folds what waits together."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from threading import Event

import pytest

from evertick.dispatch import writer as writing
from evertick.dispatch.writer import Ask, Writer, fold, hold_seconds_of
from evertick.errors import Fenced, StoreUnavailable
from evertick.loop.effects import Commit, Record
from evertick.loop.messages import BatchCommitted, BatchFenced, ChangesRecorded, Message, Shutdown
from evertick.model.ledger import Batch, Committed
from evertick.model.lifecycle import CANCELLED, LAUNCHING, PLANNED, RUNNING, SUCCEEDED, Trigger
from evertick.model.run import Change, Entry, RunKey
from evertick.stores.memory import MemoryStore

KEY = RunKey("report", 1_000_000)


class Faulty(MemoryStore):
    """A memory store that fails as often as it is told to, before or after it did its work."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[Exception] = []
        self.calls: list[str] = []
        self.gate = Event()
        self.gate.set()

    def commit(self, batch: Batch) -> Committed:
        self.gate.wait(60)
        self.calls.append("commit")
        committed = super().commit(batch)
        if self.faults:
            raise self.faults.pop(0)
        return committed

    def record(self, changes: Sequence[Change]) -> frozenset[RunKey]:
        self.gate.wait(60)
        self.calls.append(f"record {len(changes)}")
        refused = super().record(changes)
        if self.faults:
            raise self.faults.pop(0)
        return refused


@pytest.fixture
def store():
    return Faulty()


@pytest.fixture
def answers(store):
    return queue.Queue()


@pytest.fixture
def writer(store, answers, monkeypatch):
    monkeypatch.setattr(writing, "RETRY_FIRST_SECONDS", 0.001)
    writer = Writer(store, answers.put)
    writer.start()
    yield writer
    store.gate.set()
    writer.stop(5)


def commit(number: int, *keys: RunKey) -> Commit:
    entries = [Entry(key, PLANNED, Trigger.SCHEDULER, 0) for key in keys]
    return Commit(number, Batch(by=f"a/1#{number}", entries=entries))


def change(state, key=KEY, fence=1, **known) -> Change:
    return Change(key, state, 5, fence=fence, **known)


def get(answers) -> Message:
    return answers.get(timeout=180)


def test_a_commit_is_answered(writer, answers):
    writer.write(commit(1, KEY))
    assert get(answers) == BatchCommitted(1)


def test_a_commit_whose_outcome_is_unknown_is_repeated_and_ours(writer, answers, store):
    store.faults = [StoreUnavailable("the reply was lost"), StoreUnavailable("and again")]
    writer.write(commit(1, KEY))
    assert get(answers) == BatchCommitted(1, frozenset())
    assert store.calls == ["commit"] * 3


def test_a_fenced_commit_is_reported_and_the_next_one_is_written(writer, answers, store):
    store.faults = [Fenced((7,))]
    writer.write(commit(1))
    writer.write(commit(2, KEY))
    assert get(answers) == BatchFenced(1, (7,))
    assert get(answers) == BatchCommitted(2)


def test_changes_that_wait_together_are_written_together_and_counted_in_full(writer, answers, store):
    writer.write(commit(1, KEY))
    assert get(answers) == BatchCommitted(1)
    store.gate.clear()
    writer.write(commit(2))
    for number, state in enumerate((LAUNCHING, RUNNING, SUCCEEDED)):
        writer.write(Record(number, [change(state)]))
    store.gate.set()
    assert get(answers) == BatchCommitted(2)
    assert get(answers) == ChangesRecorded([0, 1, 2], frozenset())
    assert store.calls == ["commit", "commit", "record 1"]


def test_a_change_never_overtakes_a_commit(writer, answers, store):
    store.gate.clear()
    writer.write(commit(1, KEY))
    writer.write(Record(1, [change(RUNNING)]))
    writer.write(commit(2))
    writer.write(Record(2, [change(RUNNING)]))
    store.gate.set()
    said = [type(get(answers)).__name__ for _ in range(4)]
    assert said == ["BatchCommitted", "ChangesRecorded", "BatchCommitted", "ChangesRecorded"]


def test_a_question_is_asked_in_its_turn(writer, answers):
    writer.write(commit(1, KEY))
    writer.write(Ask(lambda store: [Shutdown()] if store.load().open_runs else []))
    assert [get(answers), get(answers)] == [BatchCommitted(1), Shutdown()]


def test_stopping_writes_what_waits(writer, answers, store):
    store.gate.clear()
    writer.write(commit(1, KEY))
    writer.write(Record(1, [change(LAUNCHING)]))
    store.gate.set()
    assert writer.stop(5)
    assert store.load().open_runs[0].state is LAUNCHING


def test_a_store_that_never_returns_does_not_keep_the_writer_forever(writer, store):
    store.faults = [StoreUnavailable("away")] * 1_000_000
    writer.write(commit(1, KEY))
    assert writer.stop(0.05) is False


def test_a_fault_of_ours_ends_the_writer_and_is_kept(writer, store):
    store.faults = [ZeroDivisionError()]
    writer.write(commit(1, KEY))
    assert writer.stop(5) is False
    assert isinstance(writer.failure, ZeroDivisionError)


def test_folding_keeps_the_newest_state_and_all_that_was_known():
    folded = fold(
        [
            change(LAUNCHING, attempt=1),
            change(RUNNING, started_at=7, executor="local"),
            change(LAUNCHING, RunKey("other", 1)),
            change(SUCCEEDED, finished_at=9, exit_code=0),
        ]
    )
    assert folded == [
        change(SUCCEEDED, attempt=1, started_at=7, executor="local", finished_at=9, exit_code=0),
        change(LAUNCHING, RunKey("other", 1)),
    ]


@pytest.mark.parametrize(
    "late",
    [
        pytest.param(change(CANCELLED, fence=6), id="from before another node had it"),
        pytest.param(change(CANCELLED, fence=8), id="of a run that has ended"),
    ],
)
def test_what_the_ledger_would_refuse_behind_an_end_does_not_take_the_end_with_it(late):
    ended = change(SUCCEEDED, fence=7, finished_at=9)
    assert fold([ended, late]) == [ended]


def test_a_run_that_ends_right_after_its_launch_is_written_once(writer, store, answers, monkeypatch):
    monkeypatch.setattr(writing, "HOLD_SECONDS", 60.0)
    writer.write(commit(1, KEY))
    assert get(answers) == BatchCommitted(1)
    writer.write(Record(1, [change(LAUNCHING, attempt=1)]))
    writer.write(Record(2, [change(RUNNING, started_at=6), change(SUCCEEDED, finished_at=7)]))
    assert get(answers) == ChangesRecorded([1, 2], frozenset())
    assert store.calls == ["commit", "record 1"]


def test_launches_wait_for_their_ends_for_as_long_as_the_loop_needs_for_them(writer, store, answers, monkeypatch):
    monkeypatch.setattr(writing, "HOLD_SECONDS", 0.0)
    monkeypatch.setattr(writing, "HOLD_SECONDS_EACH", 30.0)
    other = RunKey("other", 1_000_000)
    writer.write(commit(1, KEY, other))
    assert get(answers) == BatchCommitted(1)
    writer.write(Record(1, [change(LAUNCHING, attempt=1), change(LAUNCHING, other, attempt=1)]))
    writer.write(Record(2, [change(SUCCEEDED), change(SUCCEEDED, other)]))
    assert get(answers) == ChangesRecorded([1, 2], frozenset())
    assert store.calls == ["commit", "record 2"]


def test_twenty_thousand_launches_wait_longer_than_one():
    one, many = [change(LAUNCHING)], [change(LAUNCHING)] * 20_000
    assert hold_seconds_of(one) < 0.21
    assert 0.6 < hold_seconds_of(many) < 1


def test_what_is_planned_meanwhile_does_not_end_the_wait_for_the_end_of_a_launch(writer, store, answers, monkeypatch):
    monkeypatch.setattr(writing, "HOLD_SECONDS", 60.0)
    writer.write(commit(1, KEY))
    writer.write(Record(1, [change(LAUNCHING, attempt=1)]))
    writer.write(commit(2, RunKey("report", 2_000_000)))
    assert [get(answers), get(answers)] == [BatchCommitted(1), BatchCommitted(2)]
    writer.write(Record(2, [change(SUCCEEDED, finished_at=7)]))
    assert get(answers) == ChangesRecorded([1, 2], frozenset())
    assert store.calls == ["commit", "commit", "record 1"]


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(Batch(by="a/1#2", changes=[change(CANCELLED)]), id="a change"),
        pytest.param(Batch(by="a/1#2", withdrawn=[KEY]), id="a withdrawal"),
        pytest.param(Batch(by="a/1#2", answers={"r1": "{}"}), id="an answer"),
    ],
)
def test_what_is_decided_about_runs_does_not_overtake_their_launches(writer, store, answers, monkeypatch, batch):
    monkeypatch.setattr(writing, "HOLD_SECONDS", 60.0)
    writer.write(commit(1, KEY))
    writer.write(Record(1, [change(LAUNCHING, attempt=1)]))
    writer.write(Commit(2, batch))
    assert [get(answers), get(answers), get(answers)] == [
        BatchCommitted(1),
        ChangesRecorded([1], frozenset()),
        BatchCommitted(2),
    ]


def test_a_launch_that_nothing_follows_is_written_after_a_moment(writer, store, answers, monkeypatch):
    monkeypatch.setattr(writing, "HOLD_SECONDS", 0.001)
    writer.write(commit(1, KEY))
    writer.write(Record(1, [change(LAUNCHING, attempt=1)]))
    assert [get(answers), get(answers)] == [BatchCommitted(1), ChangesRecorded([1], frozenset())]


def test_what_reads_the_ledger_does_not_wait_for_the_end_of_a_launch(writer, store, answers, monkeypatch):
    monkeypatch.setattr(writing, "HOLD_SECONDS", 60.0)
    writer.write(commit(1, KEY))
    writer.write(Record(1, [change(LAUNCHING, attempt=1)]))
    writer.write(Ask(lambda ledger: [Shutdown()] if ledger.load().open_runs[0].state is LAUNCHING else []))
    assert [get(answers), get(answers), get(answers)] == [
        BatchCommitted(1),
        ChangesRecorded([1], frozenset()),
        Shutdown(),
    ]

"""Do the operations return the definition of a run when it was launched, and the outcome of every attempt?"""

from __future__ import annotations

import pytest

from evertick.definitions.source import Folder
from evertick.errors import NotFound
from evertick.model.attempts import AttemptRecord, with_attempt
from evertick.model.definition import definition_text
from evertick.model.instant import MINUTE, SECOND, to_datetime
from evertick.model.ledger import Batch, DefinitionLine
from evertick.model.lifecycle import LAUNCHING, RETRYING, RUNNING, SKIPPED, SUCCEEDED, SkipReason
from evertick.model.steps import StepRecord, steps_text
from evertick.operations.local import LocalOperations
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key, ran


@pytest.fixture
def make(store):
    """A operations on the ledger, at half past four."""

    def make(one):
        folder = Folder(jobs={one.id: one})
        return LocalOperations(store, lambda: folder, now=lambda: at(4.5))

    return make


@pytest.fixture
def edited(store, make):
    """A run that was tried twice, with an edit of its job in between and another one since."""
    texts = [TEXT.replace("command: x", f"command: echo {word}") for word in ("first", "second", "third")]
    first, second, third = map(job, texts)
    fill(store, entry(1), watermark=4)
    told = [DefinitionLine("etl", one.definition, at(0), definition_text(one)) for one in (first, second)]
    store.commit(Batch(by="a1", definitions=told))
    step = StepRecord("main", "failed", 1, started_at=at(1), finished_at=at(1) + SECOND, exit_code=3)
    failed = AttemptRecord(1, "failed", at(1), at(1) + SECOND, 3, "no", "local", first.definition, (step,))
    change(store, key(1), LAUNCHING, at(1), attempt=1, definition=first.definition)
    change(store, key(1), RETRYING, at(1) + SECOND, attempt=1, earlier=with_attempt("", failed), started_at=at(1))
    change(store, key(1), LAUNCHING, at(1) + MINUTE, attempt=2, definition=second.definition)
    own = steps_text([StepRecord("main", "succeeded", 2, started_at=at(1) + MINUTE, finished_at=at(1) + MINUTE + 5)])
    done = {"finished_at": at(1) + 2 * MINUTE, "started_at": at(1) + MINUTE, "steps": own, "exit_code": 0}
    change(store, key(1), SUCCEEDED, at(1) + 2 * MINUTE, **done)
    return make(third)


def test_a_run_has_the_definition_it_ran_and_the_changes_since(edited):
    run = edited.run(key(1).run_id)
    assert (run.definition is not None, run.is_definition_current) == (True, False)
    told = edited.run_definition(key(1).run_id)
    assert (told.digest, told.attempt, told.is_current) == (run.definition, 2, False)
    assert "command: echo second" in told.text
    changed = [(one.side, one.text.strip()) for one in told.changes if one.side != "both"]
    assert changed == [("before", "command: echo second"), ("after", "command: echo third")]


def test_an_earlier_attempt_has_its_own_definition(edited):
    assert "command: echo first" in edited.run_definition(key(1).run_id, 1).text


def test_a_run_of_the_current_definition_is_marked(make, store):
    one = job()
    fill(store, entry(4), watermark=4)
    store.commit(Batch(by="a1", definitions=[DefinitionLine("etl", one.definition, at(0), definition_text(one))]))
    change(store, key(4), RUNNING, at(4), definition=one.definition)
    told = make(one).run_definition(key(4).run_id)
    assert told.is_current
    assert {one.side for one in told.changes} == {"both"}


def test_the_run_of_a_deleted_job_still_has_its_definition(edited, store):
    gone = LocalOperations(store, Folder, now=lambda: at(4.5))
    assert gone.run(key(1).run_id).is_definition_current is None
    told = gone.run_definition(key(1).run_id)
    assert (told.is_current, told.changes, "echo second" in told.text) == (None, (), True)


@pytest.mark.parametrize(
    ("hour", "attempt", "told"),
    [
        pytest.param(3, None, "never started", id="a skip"),
        pytest.param(1, None, "not recorded", id="a run from before they were kept"),
        pytest.param(1, 7, "not recorded", id="an attempt that never was"),
    ],
)
def test_where_it_is_not_known_the_reason_is(make, store, hour, attempt, told):
    fill(store, entry(1), entry(3, state=SKIPPED, reason=SkipReason.OVERLAP), watermark=4)
    ran(store, key(1), at(1), at(2))
    with pytest.raises(NotFound, match=told):
        make(job()).run_definition(key(hour).run_id, attempt)


def test_every_attempt_is_reported_with_its_own_steps(edited):
    first, second = edited.run(key(1).run_id).attempts
    assert (first.state, first.exit_code, first.detail) == ("failed", 3, "no")
    assert [(step.name, step.state, step.duration_seconds) for step in first.steps] == [("main", "failed", 1.0)]
    assert (second.state, second.exit_code) == ("succeeded", 0)
    assert [step.state for step in second.steps] == ["succeeded"]


def test_a_run_between_two_attempts_has_the_end_of_the_last_one(store, make):
    fill(store, entry(1), watermark=4)
    failed = AttemptRecord(1, "timed_out", at(1), at(1) + SECOND)
    change(store, key(1), LAUNCHING, at(1), attempt=1)
    change(store, key(1), RETRYING, at(1) + SECOND, earlier=with_attempt("", failed), started_at=at(1))
    (told,) = make(job()).run(key(1).run_id).attempts
    assert (told.state, told.finished_at) == ("timed_out", to_datetime(at(1) + SECOND))


def test_an_attempt_that_has_not_started_does_not_have_the_start_of_the_one_before(store, make):
    fill(store, entry(1), watermark=4)
    failed = AttemptRecord(1, "failed", at(1), at(1) + SECOND)
    change(store, key(1), RETRYING, at(1) + SECOND, attempt=1, earlier=with_attempt("", failed), started_at=at(1))
    change(store, key(1), LAUNCHING, at(1) + MINUTE, attempt=2)
    assert [one.started_at for one in make(job()).run(key(1).run_id).attempts] == [to_datetime(at(1)), None]

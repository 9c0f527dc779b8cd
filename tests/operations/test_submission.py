"""How a request is submitted, and what is returned."""

from __future__ import annotations

import json

import pytest

from evertick.definitions.source import Folder
from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.loop.messages import TriggerJob
from evertick.model.answer import Answer, Refusal, answer_text
from evertick.model.facts import Parent
from evertick.model.instant import MINUTE
from evertick.model.ledger import Batch
from evertick.model.lifecycle import SUCCEEDED, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.local import LocalOperations
from evertick.operations.protocol import RunQuery
from evertick.operations.requests import message_of, messages_of, retry_request, trigger_request
from evertick.operations.submission import (
    answer_to,
    find_record,
    find_run,
    live_nodes,
    params_text,
    read_run_id,
    submit,
)
from evertick.store import Store
from tests.operations.ledger import at, entry, fill, job, key, ran

PARAMS = "params: {FORMAT: {enum: [csv, json], default: csv}, ROWS: {type: integer}}\ncommand: x\n"


def answer(store, answered):
    store.commit(Batch(by="a1/1#9", answers={"r1": answer_text(answered)}))


def test_an_answer_is_there_once_it_is_given(store):
    submit(store, trigger_request("r1", "etl", at(1)))
    assert answer_to(store, "r1") is None
    answer(store, Answer(run_id="etl@x"))
    assert answer_to(store, "r1") == Answer(run_id="etl@x")


@pytest.mark.parametrize(
    ("refusal", "kind"),
    [
        pytest.param(Refusal.NOT_FOUND, NotFound, id="no job"),
        pytest.param(Refusal.CONFLICT, Conflict, id="ended"),
    ],
)
def test_a_refusal_is_raised_with_its_reason(store, refusal, kind):
    submit(store, trigger_request("r1", "etl", at(1)))
    answer(store, Answer(refusal=refusal, text="so it is"))
    with pytest.raises(kind, match=r"so it is\. Next: "):
        answer_to(store, "r1")


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"trigger": "by-dream", "params": ""}, id="a word that is not known here"),
        pytest.param({"trigger": "manual"}, id="something is missing"),
        pytest.param([], id="of another shape"),
    ],
)
def test_a_request_of_a_newer_version_is_refused_and_blocks_no_other(store, payload):
    submit(store, trigger_request("r1", "etl", at(1))._replace(payload=json.dumps(payload)))
    submit(store, trigger_request("r2", "etl", at(2)))
    assert [message.request_id for message in messages_of(store, store.claim(None, 10))] == ["r2"]
    with pytest.raises(Conflict, match="cannot read this request; a newer version may have sent it"):
        answer_to(store, "r1")
    assert [request.id for request in store.claim(None, 10)] == ["r2"]


def test_many_requests_are_submitted_at_once(store):
    submit(store, *(trigger_request(f"r{number}", "etl", at(number)) for number in range(3)))
    submit(store)
    assert [request.id for request in store.claim(None, 10)] == ["r0", "r1", "r2"]


def found(store: Store, key: RunKey) -> LedgerRow:
    row = find_run(store, key)
    assert row is not None
    return row


def test_a_triggered_run_is_for_the_time_of_asking():
    assert message_of(trigger_request("r1", "etl", at(1))) == TriggerJob("r1", "etl", at(1), Trigger.MANUAL, "")


def test_a_retry_is_for_the_time_of_the_run_it_repeats_and_has_its_parameters(store):
    fill(store, entry(2, key=key(2, "r0"), params='{"FORMAT": "json"}', trigger=Trigger.MANUAL), watermark=3)
    message = message_of(retry_request("r1", found(store, key(2, "r0")), at(5)))
    assert message == TriggerJob(
        "r1", "etl", at(2), Trigger.RETRY, '{"FORMAT": "json"}', parents=(Parent(key(2, "r0").run_id),)
    )


def test_a_retry_of_a_backfilled_run_leaves_the_rule_of_the_backfill_behind(store):
    fill(store, entry(2, key=key(2, "b"), params='{"overlap": "wait"}', trigger=Trigger.BACKFILL), watermark=3)
    message = message_of(retry_request("r1", found(store, key(2, "b")), at(5)))
    assert isinstance(message, TriggerJob)
    assert message.params == ""


def test_a_run_is_found_by_its_id(store):
    fill(store, entry(2), entry(3), watermark=3)
    ran(store, key(2), at(2), at(2) + MINUTE)
    assert found(store, read_run_id("etl@2026-03-02T02:00:00Z")).state is SUCCEEDED
    assert find_run(store, key(2.5)) is None


@pytest.mark.parametrize("text", ["etl", "@2026-03-02T02:00:00Z", "etl@", "etl@noon", "etl@2026-03-02T02:00:00"])
def test_an_invalid_run_id_is_refused(text):
    with pytest.raises(InvalidArgument, match="invalid run id"):
        read_run_id(text)


def test_a_job_may_be_known_to_the_ledger_or_to_the_folder_alone(store):
    fill(store, watermark=1)
    assert find_record(store, "etl", {}) is not None
    assert find_record(store, "new", {"new": job(name="new")}) is None
    with pytest.raises(NotFound, match=r"unknown job 'qqq'\. Next: list the jobs"):
        find_record(store, "qqq", {})


@pytest.mark.parametrize("is_defined", [True, False], ids=["in the folder", "in the ledger"])
@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda operations: operations.list_runs(RunQuery(job="etl")), id="its runs"),
        pytest.param(lambda operations: operations.gaps("etl"), id="its gaps"),
        pytest.param(lambda operations: operations.durations("etl"), id="its durations"),
        pytest.param(lambda operations: operations.step_history("etl"), id="its steps"),
        pytest.param(lambda operations: operations.trigger("etl"), id="a run of it"),
    ],
)
def test_a_question_about_a_job_does_not_load_its_bucket_to_see_that_it_exists(store, monkeypatch, ask, is_defined):
    fill(store, watermark=1)
    folder = Folder(jobs={"etl": job()} if is_defined else {})
    operations = LocalOperations(store, lambda: folder, now=lambda: at(2))

    def refuse(buckets=None):
        raise AssertionError("it loads the jobs and the open runs of a bucket")

    monkeypatch.setattr(store, "load", refuse)
    ask(operations)


def test_nodes_that_gave_a_sign_of_life_are_seen_until_their_lease_is_over(store):
    store.lease(["node:a1/7f", "bucket:1"], "a1/7f", MINUTE, at(1))
    assert live_nodes(store, at(1) + 1) == ("a1",)
    assert live_nodes(store, at(1) + MINUTE) == ()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"ROWS": "x"}, "'ROWS' of job 'etl' is 'x', which is not a whole number", id="of another type"),
        pytest.param({"ROWS": "1", "FORMAT": "xml"}, "it is one of csv, json", id="not one of those allowed"),
        pytest.param({"ROWS": "1", "FORMT": "csv"}, "Did you mean 'FORMAT'", id="a mistyped name"),
        pytest.param({"FORMAT": "csv"}, "'ROWS' of job 'etl' has no default", id="one that must be given"),
        pytest.param({"ROWS": "1", "resume_from": "{}"}, "is reserved", id="one that is not for people"),
    ],
)
def test_a_parameter_that_the_job_does_not_take_is_refused(given, words):
    with pytest.raises(InvalidArgument, match=words):
        params_text(job(PARAMS), given)


def test_parameters_are_json_and_none_is_nothing():
    assert json.loads(params_text(job(PARAMS), {"ROWS": "7"})) == {"ROWS": "7"}
    assert json.loads(params_text(None, {"ANY": "thing"})) == {"ANY": "thing"}
    assert json.loads(params_text(job(), {"ANY": "thing"})) == {"ANY": "thing"}
    assert params_text(job(), {}) == ""

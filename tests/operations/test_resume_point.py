"""Which runs can be resumed where they failed, and what does the next run receive of the first?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evertick.errors import Conflict
from evertick.loop.messages import TriggerJob
from evertick.model.job import Job
from evertick.model.lifecycle import FAILED, LOST, SUCCEEDED, RunState, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.model.steps import StepRecord, digest_of, read_steps, steps_text
from evertick.model.work import Command, Each, Step, Work
from evertick.operations.ledger_rows import run_summary, step_of
from evertick.operations.requests import message_of, retry_request

KEY = RunKey("etl", 1_000_000)
FETCH = Step("fetch", Command(("fetch",)), output="DATA")
LOAD = Step("load", Command(("load",)), depends=("fetch",))
JOB = Job("etl", work=Work((FETCH, LOAD)))
FETCHED = StepRecord("fetch", "succeeded", output="42", digest=digest_of(FETCH))
FAILED_LOAD = StepRecord("load", "failed", exit_code=3, digest=digest_of(LOAD))


def line(*steps: StepRecord, state: RunState = FAILED, params: str = "", trigger: Trigger = Trigger.SCHEDULER):
    return LedgerRow(KEY, state, trigger, 0, "node/1#1", params=params, attempt=2, steps=steps_text(steps))


def given(row: LedgerRow, job: Job | None = JOB, *, from_failed: bool = True) -> dict:
    message = message_of(retry_request("r-1", row, 5, job=job, from_failed=from_failed))
    assert isinstance(message, TriggerJob)
    return json.loads(message.params or "{}")


@pytest.mark.parametrize("state", [FAILED, LOST])
def test_the_next_run_receives_which_steps_succeeded_and_what_they_handed_on(state):
    earlier = given(line(FETCHED, FAILED_LOAD, state=state, params='{"DAY": "monday"}'))
    assert earlier["DAY"] == "monday"
    assert (earlier["resume_from"]["run"], earlier["resume_from"]["attempt"]) == (KEY.run_id, 2)
    assert [(step["name"], step["output"]) for step in earlier["resume_from"]["steps"]] == [("fetch", "42")]


def test_of_a_step_that_failed_the_items_that_succeeded_are_kept_while_it_is_the_same():
    many = Step("many", Command(("x",)), each=Each(from_step="fetch"), depends=("fetch",))
    job = Job("etl", work=Work((FETCH, many)))
    done = StepRecord("many[0]", "succeeded", digest=f"{digest_of(many)}.0123", item_of="many", item="a")
    whole = StepRecord("many", "failed", digest=digest_of(many))
    broken = StepRecord("many[1]", "failed", digest=f"{digest_of(many)}.4567", item_of="many", item="b")
    kept = given(line(FETCHED, done, broken, whole), job)["resume_from"]["steps"]
    assert [step["name"] for step in kept] == ["fetch", "many[0]"]
    # Of a step that is kept as a whole, nobody asks for the items.
    kept = given(line(FETCHED, done, whole._replace(state="succeeded"), FAILED_LOAD), job)["resume_from"]["steps"]
    assert [step["name"] for step in kept] == ["fetch", "many"]
    other = Job("etl", work=Work((FETCH, replace(many, kind=Command(("y",))))))
    with pytest.raises(Conflict, match=r"step 'many\[0\]' succeeded"):
        given(line(FETCHED, done, broken, whole), other)


@pytest.mark.parametrize(
    ("row", "job", "reason"),
    [
        pytest.param(line(FETCHED, state=SUCCEEDED), JOB, "failed: the run succeeded", id="it succeeded"),
        pytest.param(line(FAILED_LOAD), JOB, "no step of", id="nothing of it succeeded"),
        pytest.param(line(), JOB, "no step of", id="nothing is known of its steps"),
        pytest.param(line(FETCHED), None, "no longer has a definition", id="the job is gone"),
        pytest.param(line(FETCHED), Job("etl", work=Work((LOAD,))), "step 'fetch' succeeded", id="the step is gone"),
        pytest.param(
            line(FETCHED),
            Job("etl", work=Work((Step("fetch", Command(("other",)), output="DATA"), LOAD))),
            "step 'fetch' succeeded",
            id="the step is another",
        ),
    ],
)
def test_a_run_that_cannot_be_resumed_is_refused_with_the_reason(row, job, reason):
    with pytest.raises(Conflict, match=reason):
        given(row, job)


def test_a_failed_step_may_be_another_because_that_is_how_it_is_mended():
    mended = Job("etl", work=Work((FETCH, Step("load", Command(("better",)), depends=("fetch",)))))
    assert "resume_from" in given(line(FETCHED, FAILED_LOAD), mended)


def test_a_retry_of_the_whole_forgets_what_an_earlier_one_had_kept():
    first = json.dumps(given(line(FETCHED, FAILED_LOAD, params='{"DAY": "monday"}')))
    assert given(line(FETCHED, FAILED_LOAD, params=first), from_failed=False) == {"DAY": "monday"}


def test_the_run_is_shown_with_its_steps_and_without_what_only_we_read():
    row = line(FETCHED, FAILED_LOAD, params=json.dumps(given(line(FETCHED, FAILED_LOAD))))
    run, steps = run_summary(row), map(step_of, read_steps(row.steps))
    assert (run.params, run.resumed_from) == (None, KEY.run_id)
    assert [(step.name, step.state, step.output) for step in steps] == [
        ("fetch", "succeeded", "42"),
        ("load", "failed", None),
    ]

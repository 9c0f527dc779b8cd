"""Does a step that runs another job request the run, wait for it, and withdraw it?"""

from __future__ import annotations

import json

import pytest

from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, PLANNED, SUCCEEDED
from evertick.model.policy import Backoff, Retry
from evertick.model.report import SubRunUnwanted, SubRunWanted
from evertick.model.subrun import SubRunEnd, sub_run_key
from evertick.model.work import Handlers, Secret, SubJob
from tests.executors.contract import KEY
from tests.executors.local_runs import job_of, kill, launch, of_kind, sh, until

CALL = of_kind(SubJob("other"), "call")
CHILD = sub_run_key("other", KEY, 1, "call", 1).run_id


def wanted(place, number: int = 1, times: int = 1) -> SubRunWanted:
    """What the step asked for."""

    def asked(said):
        return [one for one in said if isinstance(one, SubRunWanted) and one.number == number]

    return asked(place.reports.wait_until(lambda said: len(asked(said)) >= times))[-1]


def start(place, *steps, **known):
    executor = place.open()
    executor.launch(launch(job_of(*steps, **known)))
    return executor


def test_a_step_asks_for_a_run_and_ends_as_that_does(place):
    executor = start(place, CALL)
    assert wanted(place) == SubRunWanted(KEY, 1, "call", 1, "other", "", True)
    executor.sub_run_ended(KEY, 1, "call", 1, SubRunEnd(SUCCEEDED))
    assert place.end_of(KEY).state == SUCCEEDED
    assert [(step.name, step.state, step.sub_run) for step in place.steps] == [("call", "succeeded", CHILD)]


def test_a_failed_run_fails_the_step_with_its_id_and_reason(place):
    executor = start(place, CALL)
    wanted(place)
    executor.sub_run_ended(KEY, 1, "call", 1, SubRunEnd(FAILED, "exit code 3"))
    end = place.end_of(KEY)
    assert (end.state, end.detail) == (FAILED, f"run {CHILD} ended as failed: exit code 3")


def test_what_its_steps_handed_on_may_be_read_by_later_steps(place):
    call = of_kind(SubJob("other"), "call", output="FOUND")
    executor = start(place, call, sh('echo "$FOUND"', "show", depends=("call",)))
    wanted(place)
    executor.sub_run_ended(KEY, 1, "call", 1, SubRunEnd(SUCCEEDED, "", {"count": "7"}))
    assert place.end_of(KEY).state == SUCCEEDED
    assert json.loads(place.log(step="show")) == {"count": "7"}


def test_its_parameters_may_come_from_what_earlier_steps_handed_on(place):
    kind = SubJob("other", (("WORD", "plain"), ("DAY", "$DAY"), ("COST", "$5")))
    start(place, sh("echo monday", "day", output="DAY"), of_kind(kind, "call", depends=("day",)))
    assert json.loads(wanted(place).params) == {"WORD": "plain", "DAY": "monday", "COST": "$5"}


def test_a_parameter_from_a_variable_that_is_not_there_fails_the_step(place):
    end = place.run(job_of(of_kind(SubJob("other", (("DAY", "$NOWHERE"),)), "call")))
    assert (end.state, "no such variable" in end.detail) == (FAILED, True)


def test_a_step_that_does_not_wait_continues_when_the_run_is_in_the_ledger(place):
    executor = start(place, of_kind(SubJob("other", waits=False), "call"))
    assert wanted(place).waits is False
    executor.sub_run_ended(KEY, 1, "call", 1, SubRunEnd(PLANNED))
    assert place.end_of(KEY).state == SUCCEEDED


def test_another_try_asks_for_another_run(place):
    again = Retry(max_retries=1, delay_us=1, backoff=Backoff.FIXED)
    executor = start(place, of_kind(SubJob("other"), "call", retry=again))
    wanted(place)
    executor.sub_run_ended(KEY, 1, "call", 1, SubRunEnd(FAILED))
    wanted(place, number=2)
    executor.sub_run_ended(KEY, 1, "call", 1, SubRunEnd(FAILED))  # said twice: it is not taken for the second
    executor.sub_run_ended(KEY, 1, "call", 2, SubRunEnd(SUCCEEDED))
    assert place.end_of(KEY).state == SUCCEEDED


def test_the_next_scheduler_is_asked_again(place):
    first = start(place, CALL)
    wanted(place)
    first.close()
    executor = place.open()
    assert wanted(place, times=2) == wanted(place)
    executor.sub_run_ended(KEY, 1, "call", 1, SubRunEnd(SUCCEEDED))
    assert place.end_of(KEY).state == SUCCEEDED


@pytest.mark.parametrize("how", ["stopped", "timed out"])
def test_a_step_that_is_ended_lets_its_run_go(place, how):
    call = of_kind(SubJob("other"), "call", timeout_us=None if how == "stopped" else SECOND // 4)
    executor = start(place, call)
    wanted(place)
    if how == "stopped":
        executor.stop(KEY, 1, "enough")
    place.reports.wait_until(lambda said: SubRunUnwanted(KEY, 1, "call", 1, "other") in said)
    assert place.end_of(KEY).state == (CANCELLED if how == "stopped" else FAILED)


def test_a_run_withdrawn_without_a_scheduler_is_reported_to_the_next_one(place):
    call = of_kind(SubJob("other"), "call", timeout_us=SECOND)
    first = start(place, call)
    wanted(place)
    first.close()
    until(lambda: '"finished"' in place.journal(), "the run to end")
    place.open()
    place.reports.wait_until(lambda said: SubRunUnwanted(KEY, 1, "call", 1, "other") in said)


def test_when_the_keeper_is_killed_the_steps_still_name_the_awaited_run(place):
    start(place, CALL)
    wanted(place)
    (pid,) = place.keepers()
    kill(pid)
    place.loss_of(KEY)
    assert [(step.name, step.state, step.sub_run) for step in place.steps] == [("call", "lost", CHILD)]


def test_a_handler_may_be_a_run_of_another_job(place):
    executor = start(place, sh("true"), handlers=Handlers(on_success=of_kind(SubJob("other"), "call")))
    wanted(place)
    executor.sub_run_ended(KEY, 1, "call", 1, SubRunEnd(SUCCEEDED))
    assert place.end_of(KEY).state == SUCCEEDED


@pytest.mark.parametrize("way", ["as it is", "handed on by a step"])
def test_a_secret_becomes_no_parameter_of_another_job(place, monkeypatch, way):
    """Parameters stand in the ledger, where nothing masks them."""
    monkeypatch.setenv("TOKEN", "a-secret-value")
    call = of_kind(SubJob("other", (("Q", "$T" if way == "as it is" else "$PRINTED"),)), "call", depends=("print",))
    printed = sh("echo x${T}x", "print", output="PRINTED")
    start(place, printed, call, env=(("T", Secret("env", "TOKEN")),))
    end = place.end_of(KEY)
    assert (end.state, "holds a secret" in end.detail, "a-secret-value" in str(end)) == (FAILED, True, False)
    assert not [one for one in place.reports if isinstance(one, SubRunWanted)]

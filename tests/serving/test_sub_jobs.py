"""Jobs that run other jobs on a real scheduler: they receive the outcome, also when it is killed meanwhile."""

from __future__ import annotations

import json

import pytest

from tests.cli.serving import Scheduler
from tests.executors.local_runs import until

pytestmark = pytest.mark.slow

FILES = {
    "parent.yaml": """
params: {DAY: monday}
steps:
  - {name: first, command: echo 41, output: COUNT}
  - {name: call, job: child, params: {COUNT: $COUNT, DAY: $DAY}, output: ANSWER, depends: first}
  - {name: show, command: echo "$ANSWER", depends: call}
""",
    "child.yaml": """
params: {COUNT: {type: integer}, DAY: ''}
steps:
  - {name: add, command: echo $((COUNT + 1)) $DAY, output: SUM}
""",
    "slow-parent.yaml": "steps: [{name: call, job: slow-child}]\n",
    "slow-child.yaml": "steps: [{name: wait, command: 'touch began; while [ ! -e go ]; do sleep 0.1; done'}]\n",
    "flaky.yaml": """
steps:
  - {name: make, command: 'echo x >> made; echo 7', output: MADE}
  - {name: use, command: 'test -e ready && echo got $MADE', depends: make}
""",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(f"workingDir: {tmp_path}\n{text}")
    return tmp_path


@pytest.fixture
def scheduler(folder):
    scheduler = Scheduler(folder)
    scheduler.wait_until_said("jobs from")
    yield scheduler
    scheduler.run("cancel", "slow-child")
    scheduler.run("cancel", "slow-parent")
    scheduler.stop()


def child_of(scheduler, job: str):
    (run,) = scheduler.data("history", job)["items"]
    return run


def test_a_sub_job_gets_parameters_and_gives_its_outputs(scheduler):
    run = scheduler.data("trigger", "parent", "--wait", "--timeout", "60")["run"]
    assert run["state"] == "succeeded"
    answer = next(step for step in run["steps"] if step["name"] == "call")
    assert json.loads(answer["output"]) == {"add": "42 monday"}
    child = child_of(scheduler, "child")
    assert (child["run"], child["trigger"], child["state"]) == (answer["sub_run"], "subjob", "succeeded")
    assert scheduler.run("logs", run["run"], "--step", "show") == '{"add": "42 monday"}\n'


def test_a_cancelled_parent_cancels_its_sub_run(scheduler, folder):
    scheduler.data("trigger", "slow-parent")
    until((folder / "began").exists, "the sub-run to begin")
    scheduler.run("cancel", "slow-parent")
    until(lambda: child_of(scheduler, "slow-child")["state"] == "cancelled", "the sub-run to be cancelled")


def test_a_scheduler_that_is_killed_in_between_neither_repeats_nor_forgets_the_sub_run(scheduler, folder):
    scheduler.data("trigger", "slow-parent")
    until((folder / "began").exists, "the sub-run to begin")
    scheduler._process.kill()
    scheduler._process.wait()
    (folder / "go").touch()
    after = Scheduler(folder)
    try:
        after.wait_until_said("jobs from")
        until(lambda: child_of(after, "slow-parent")["state"] == "succeeded", "the parent to succeed")
        assert child_of(after, "slow-child")["state"] == "succeeded"
    finally:
        after.stop()


def test_a_retry_from_the_failed_step_keeps_what_succeeded(scheduler, folder):
    failed = scheduler.data("trigger", "flaky", "--wait", code=1)["run"]
    (folder / "ready").touch()
    again = scheduler.data("retry", failed["run"], "--from-failed", "--wait")["run"]
    assert (again["state"], again["resumed_from"], again["params"]) == ("succeeded", failed["run"], None)
    assert [(step["name"], step["reused_from"]) for step in again["steps"]] == [("make", failed["run"]), ("use", None)]
    assert (folder / "made").read_text() == "x\n"
    assert scheduler.run("logs", again["run"], "--step", "use") == "got 7\n"
    refused = scheduler.run("retry", again["run"], "--from-failed", code=6)
    assert refused == ""

"""A step with several items on a real scheduler, which is killed in the middle."""

from __future__ import annotations

import json

import pytest

from tests.cli.serving import Scheduler
from tests.executors.local_runs import until

pytestmark = pytest.mark.slow

JOB = """
steps:
  - {name: list, command: 'seq 1 30', output: NUMBERS}
  - name: double
    each: {from: list, maxParallel: 3, continueOnFailure: true}
    command: |
      echo $EVERTICK_RUN_ITEM >> began
      if [ $EVERTICK_RUN_ITEM = 5 ]; then until [ -e go ]; do sleep 0.05; done; fi
      if [ $EVERTICK_RUN_ITEM = 7 ]; then test -e mended || exit 1; fi
      echo $((EVERTICK_RUN_ITEM * 2))
    output: DOUBLES
  - {name: show, command: 'echo "$DOUBLES"', depends: double}
"""


def steps_of(scheduler, run: str) -> dict[str, dict]:
    return {step["name"]: step for step in scheduler.data("status", run)["steps"]}


def test_items_continue_without_their_scheduler_and_a_retry_repeats_only_those_that_failed(tmp_path):
    (tmp_path / "many.yaml").write_text(f"workingDir: {tmp_path}\n{JOB}")
    first = Scheduler(tmp_path)
    first.wait_until_said("1 job from")
    first.data("trigger", "many")
    until(lambda: (tmp_path / "began").exists() and "8" in (tmp_path / "began").read_text().split(), "items to end")
    first._process.kill()
    first.stop()
    (tmp_path / "go").touch()
    scheduler = Scheduler(tmp_path)
    try:
        scheduler.wait_until_said("1 job from")
        until(lambda: scheduler.data("history", "many")["items"][0]["state"] == "failed", "the run to end")
        run = scheduler.data("history", "many")["items"][0]["run"]
        steps = steps_of(scheduler, run)
        assert sorted((tmp_path / "began").read_text().split(), key=int) == [str(number) for number in range(1, 31)]
        failed = [name for name, step in steps.items() if step["state"] == "failed"]
        assert sorted(failed) == ["double", "double[6]"]
        assert steps["double"]["detail"] == "1 of 30 items failed; the first: double[6]: exit code 1"
        assert (steps["double[4]"]["item_of"], steps["double[4]"]["item"]) == ("double", "5")
        assert scheduler.run("logs", run, "--step", "double[4]") == "10\n"

        shown = scheduler.run("status", run, "--output", "table")
        assert [line for line in shown.splitlines() if "double[6] 7" in line and "exit code 1" in line]
        assert "(29 more items succeeded)" in shown

        (tmp_path / "mended").touch()
        (tmp_path / "began").unlink()
        again = scheduler.data("retry", run, "--from-failed", "--wait", "--timeout", "60")["run"]
        assert (again["state"], (tmp_path / "began").read_text()) == ("succeeded", "7\n")
        shown = scheduler.run("logs", again["run"], "--step", "show")
        assert json.loads(shown) == [str(2 * number) for number in range(1, 31)]
    finally:
        scheduler.stop()

"""Do commands find the scheduler of a folder wherever it keeps its state, and inside of its runs?"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invoke import code_of, run
from tests.cli.serving import Scheduler

pytestmark = pytest.mark.slow

ASK = f"{sys.executable} -m evertick history asks -o json"
FILES = {
    # In the home folder, where programs begin, and with nothing that says where the ledger is.
    "asks.yaml": (
        f"command: {ASK} > $OUT.step\nonSuccess: {ASK} > $OUT.handler; echo $EVERTICK_RUN_OUTCOME > $OUT.end\n"
    ),
    "hello.yaml": "schedule: '0 0 1 1 *'\ncommand: echo hello\n",
}


class Elsewhere(Scheduler):
    """As under the shipped unit: the state is set by the environment of the service alone."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.state = state
        super().__init__(folder)

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "EVERTICK_STATE": str(self.state)}


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory) -> Iterator[Elsewhere]:
    spot = tmp_path_factory.mktemp("spot")
    (spot / "jobs").mkdir()
    for name, text in FILES.items():
        written = text.replace("$OUT", str(spot / "out"))
        (spot / "jobs" / name).write_text(written, encoding="utf-8")
    found = Elsewhere(spot / "jobs", spot / "state")
    try:
        found.wait_until_said("jobs from")
        yield found
    finally:
        found.stop()


def test_every_command_finds_it_from_the_folder(scheduler):
    assert scheduler.data("trigger", "hello", "--wait")["run"]["state"] == "succeeded"
    assert [one["job"] for one in scheduler.data("history", "hello")["items"]] == ["hello"]
    assert scheduler.run("logs", "hello") == "hello\n"
    assert scheduler.data("why", "hello")["outcome"] == "succeeded"
    assert scheduler.data("verify")["is_sound"]
    listed = run("list", "--folder", scheduler.folder)
    assert "has not run here yet" not in listed.stderr
    checks = {one["check"]: one["finding"] for one in scheduler.data("doctor")}
    assert "running" in checks["scheduler"]
    assert scheduler.data("token", "list") is not None


def test_a_command_in_a_step_or_a_handler_asks_the_scheduler_that_started_it(scheduler):
    run_id = scheduler.data("trigger", "asks", "--wait")["run"]["run"]
    out = scheduler.folder.parent
    for who in ("step", "handler"):
        assert [one["run"] for one in json.loads((out / f"out.{who}").read_text())["items"]] == [run_id], who
    assert (out / "out.end").read_text() == "succeeded\n"


def test_the_settings_go_before_the_pointer(scheduler, tmp_path):
    asked = run("history", "hello", "--folder", scheduler.folder, EVERTICK_STATE=str(tmp_path / "none"))
    assert code_of(asked) == 5


def test_an_unreadable_state_is_reported_as_present(scheduler, monkeypatch):
    """Root may read everything, so what the kernel would tell another user is told here."""
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != scheduler.state and allowed(path, mode))
    for command in ("history", "list"):
        asked = run(command, "--folder", scheduler.folder)
        assert code_of(asked) == 5
        assert f"no access to the state folder '{scheduler.state}'" in str(asked.exception)
    found = json.loads(run("doctor", "--folder", scheduler.folder, "-o", "json").stdout)
    assert ("scheduler", "fail") in [(one["check"], one["level"]) for one in found]

"""A scheduler with a fleet as users run it: job files, commands, and their output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from evertick.executors.fleet.settings import LEASE_US
from evertick.model.steps import read_steps
from tests.cli.invoke import completed
from tests.fleet.local_fleet import ROOT, Process, wait_for
from tests.processes.proof import rows_of, verified

pytestmark = pytest.mark.slow

JOBS = {
    "everywhere": """
        routing: SHARDING_BROADCAST
        retryPolicy: {maxRetries: 2, retryDelayMs: 100}
        command: |
          echo $EVERTICK_RUN_SHARD_INDEX.$EVERTICK_RUN_ATTEMPT
          test $EVERTICK_RUN_SHARD_INDEX = 0 -o $EVERTICK_RUN_ATTEMPT = 2
    """,
    "picky": """
        runsOn: {gpu: true}
        command: echo at last
    """,
    "parent": """
        executor: fleet
        steps:
          - {name: ask, job: child}
          - {name: then, command: echo after, depends: [ask]}
    """,
    "child": """
        executor: fleet
        command: echo here
    """,
    "many": """
        executor: fleet
        steps:
          - {name: all, job: one, params: {PART: "{{ item }}"}, each: [a, b, c, d], output: PARTS}
    """,
    "one": """
        routing: ROUND
        overlap: parallel(4)
        params: {PART: ""}
        steps: [{name: main, command: echo $PART, output: DONE}]
    """,
    "lasting": """
        routing: FIRST
        blockStrategy: COVER
        command: sleep 1000
    """,
}


class Place:
    def __init__(self, folder: Path) -> None:
        self.jobs = folder / "jobs"
        self.jobs.mkdir()
        for name, text in JOBS.items():
            lines = [line[8:] for line in text.strip("\n").splitlines()]
            (self.jobs / f"{name}.yaml").write_text("\n".join(lines) + "\n")
        self.url = f"sqlite:///{self.jobs / '.evertick' / 'ledger.db'}"

    def say(self, *words: str) -> str:
        done = completed(*words, "--folder", str(self.jobs))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def row(self, job: str, state: str):
        """The newest run of a job, once it is in that state."""
        return wait_for(lambda: next((row for row in self.rows(job) if row.state == state), None), f"{job} {state}")

    def rows(self, job: str):
        return [row for row in reversed(rows_of(self.url)) if row.key.job_id == job]


def test_jobs_run_on_the_fleet_as_defined(tmp_path, local_fleet):
    local_fleet.join("ex-a", lease_us=LEASE_US)
    local_fleet.join("ex-b", lease_us=LEASE_US)
    place = Place(tmp_path)
    words = ("serve", str(place.jobs), "--fleet", local_fleet.url, "--no-web", "--patience", "1")
    scheduler = Process(*words, log=tmp_path / "serve.log")
    try:
        wait_for(lambda: (place.jobs / ".evertick" / "ledger.db").exists(), "the ledger")
        wait_for(lambda: len(json.loads(fleet("list", local_fleet.url, "-o", "json"))) == 2, "two members")
        for job in ("everywhere", "picky", "parent", "many", "lasting"):
            place.say("trigger", job)

        whole = place.row("everywhere", "succeeded")
        assert (whole.attempt, whole.executor) == (2, "fleet:*ex-a+,ex-b+")
        assert "1.2\n" in place.say("logs", whole.key.run_id, "--step", "main [1 of 2]")

        waiting = place.row("picky", "waiting")
        wait_for(lambda: place.row("picky", "waiting").detail, "the reason to be written")
        assert place.row("picky", "waiting").detail == "no-executor: of 2 members: none has gpu=true"
        assert "none has gpu=true" in place.say("why", waiting.key.run_id)
        local_fleet.join("ex-g", "--label", "gpu=true", lease_us=LEASE_US)
        assert place.row("picky", "succeeded").executor == "fleet:ex-g"

        assert place.row("parent", "succeeded").executor.startswith("fleet:ex-")
        (child,) = place.rows("child")
        assert (child.trigger, child.state) == ("subjob", "succeeded")

        many = place.row("many", "succeeded")
        (outputs,) = [step.output for step in read_steps(many.steps) if step.name == "all"]
        assert json.loads(outputs or "") == [{"main": part} for part in "abcd"]
        assert [str(row.state) for row in place.rows("one")] == ["succeeded"] * 4
        assert {"fleet:ex-a", "fleet:ex-b"} <= {row.executor for row in place.rows("one")}

        first = place.row("lasting", "running")
        assert first.executor == "fleet:ex-a"
        place.say("trigger", "lasting")
        assert place.row("lasting", "cancelled").key == first.key
        second = place.row("lasting", "running")
        place.say("cancel", second.key.run_id)
        wait_for(lambda: [str(row.state) for row in place.rows("lasting")] == ["cancelled"] * 2, "both to be ended")
    finally:
        assert scheduler.stop() == 0
    verified(place.url)


def fleet(*words: str) -> str:
    line = [sys.executable, "-m", "evertick", "fleet", *words]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180).stdout or "[]"

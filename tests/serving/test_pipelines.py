"""Pipelines from their folders to their results on a real scheduler, with the ledger in plain files."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from evertick.model.instant import to_text
from evertick.model.lifecycle import FAILED, SUCCEEDED
from evertick.model.steps import read_steps
from evertick.planning.schedules import compile_all, next_of
from evertick.settings import Settings
from tests.executors.local_runs import until
from tests.present import present
from tests.serving.served import Served

pytestmark = pytest.mark.slow

TRIAGE = """name: "Morning triage"
description: "What came in over night"

# When
schedule:
  cron: "0 9 * * 1-5"            # on weekdays
  timezone: "America/New_York"
  enabled: true

  retryPolicy:
    maxRetries: 3
    retryDelayMs: 60000
  missedExecution: "run"         # or "skip"
  window:
    maxDelayMinutes: 30          # not more than half an hour late

# What
input:
  from:
    type: csv
    path: "bugs.csv"

map:
  prompt: "Look at this bug: {{title}}"
  output: [severity, category]

reduce:
  type: json
"""
SYNC = """name: "Weekly copy"
schedule:
  cron: "0 0 * * 0"
  retryPolicy:
    maxRetries: 5
    retryDelayMs: 300000  # 5 minutes

input:
  from: { type: csv, path: "sync-targets.csv" }
map:
  prompt: "Copy {{endpoint}}"
  output: [status, records_synced]
reduce:
  type: table
"""
QUEUES = """name: "Queues"
schedule:
  cron: "*/15 9-17 * * 1-5"  # every quarter of an hour
  timezone: "America/Los_Angeles"
  missedExecution: "skip"

input:
  items:
    - queue: "fast"
    - queue: "slow"
map:
  prompt: "How deep is {{queue}}?"
  output: [depth, oldest_message_age]
reduce:
  type: json
"""
ANSWERS = f"""#!{sys.executable}
import json, os, re, sys
prompt = sys.stdin.read()
with open("asked", "a") as asked:
    asked.write(json.dumps(prompt) + "\\n")
if "broken" in prompt:
    sys.exit("no answer")
fields = re.search("these fields: (.*)", prompt).group(1).split(", ")
print(json.dumps({{field: len(field) for field in fields}}))
"""


def make(folder: Path, name: str, text: str, **files: str) -> Path:
    place = folder / name
    place.mkdir()
    (place / "pipeline.yaml").write_text(text)
    for file, content in files.items():
        (place / f"{file.replace('_', '-')}.csv").write_text(content)
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipelines")
    answer = folder / "answer"
    answer.write_text(ANSWERS)
    answer.chmod(0o700)
    make(folder, "triage", TRIAGE, bugs="title\nLogin fails\nSlow page\n")
    make(folder, "weekly-copy", SYNC, sync_targets="endpoint\n/orders\n")
    make(folder, "queues", QUEUES)
    own = f"invoker: {{command: ['{answer}']}}\nfailWhen: 1\nmaxRetries: 0\nresultFile: out/latest.json\n"
    lone = QUEUES.replace("fast", "broken").replace("schedule:\n", "schedule:\n  retryPolicy: {maxRetries: 0}\n")
    make(folder, "tolerant", lone + own.replace("maxRetries: 0\n", ""))
    make(folder, "strict", lone + own.replace("failWhen: 1\nmaxRetries: 0\n", ""))
    return folder


@pytest.fixture(scope="module")
def served(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVERTICK_INVOKER", json.dumps({"command": [str(folder / "answer")]}))
        served = Served(folder, Settings(store=f"files://{folder}"))
        yield served
        served.stop()


def state_of(folder, name: str) -> dict:
    path = folder / name / ".schedule-state.json"
    return json.loads(path.read_text()) if path.exists() else {}


def last_run(folder, name: str) -> dict:
    until(lambda: bool(state_of(folder, name).get("lastRun")), f"the state file of {name}")
    return state_of(folder, name)["lastRun"]


def printed(served, end) -> str:
    """What it printed as its result; what it says on the way goes to the same log."""
    lines = served.log(end.key, "pipeline").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("pipeline."))


def test_the_weekday_example_asks_about_each_row_and_keeps_the_result_beside_it(served, folder):
    end = served.run("triage")
    assert (end.state, end.detail) == (SUCCEEDED, None)
    asked = [json.loads(line) for line in (folder / "triage" / "asked").read_text().splitlines()]
    ending = "\n\nReturn JSON with these fields: severity, category"
    assert sorted(asked) == [f"Look at this bug: Login fails{ending}", f"Look at this bug: Slow page{ending}"]
    assert json.loads(printed(served, end)) == [
        {"input": {"title": title}, "output": {"severity": 8, "category": 8}, "success": True}
        for title in ("Login fails", "Slow page")
    ]
    last = last_run(folder, "triage")
    assert (last["success"], last["itemsProcessed"], last["error"]) == (True, 2, None)
    kept = json.loads((folder / "triage" / last["resultFile"]).read_text())
    assert kept["output"]["summary"] == {
        "totalItems": 2,
        "successfulItems": 2,
        "failedItems": 0,
        "outputFields": ["severity", "category"],
    }


@pytest.mark.parametrize("name", ["triage", "weekly-copy", "queues"])
def test_every_pipeline_shows_when_it_is_due_next(served, folder, name):
    schedules = compile_all(served.service.watch.snapshot().jobs[name].schedules)

    def is_told() -> bool:
        due = present(next_of(schedules, time.time_ns() // 1_000))
        return (state_of(folder, name).get("nextRun") or "")[:19] == to_text(due)[:19]

    until(is_told, f"the next run of {name}")


def test_the_weekly_example_makes_a_table(served):
    lines = printed(served, served.run("weekly-copy")).splitlines()
    assert lines[0] == "| # | [in] endpoint | [out] status | [out] records_synced | Status |"
    assert lines[2] == "| 1 | /orders | 6 | 14 | OK |"


def test_items_in_the_file_itself(served):
    (step,) = read_steps(served.run("queues").steps)
    assert json.loads(present(step.output))["itemsProcessed"] == 2


def test_as_many_items_may_fail_as_the_pipeline_allows(served, folder):
    assert served.run("tolerant").state == SUCCEEDED
    assert json.loads((folder / "tolerant" / "out" / "latest.json").read_text())["itemsProcessed"] == 2
    assert last_run(folder, "tolerant")["resultFile"] == "out/latest.json"


def test_a_failure_is_read_from_the_result_and_names_the_item(served, folder):
    end = served.run("strict")
    assert (end.state, end.detail.startswith("1 of 2 items failed.")) == (FAILED, True)
    assert last_run(folder, "strict")["error"] == end.detail

"""A pipeline as a process of its own: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from types import MappingProxyType

import pytest
import yaml

from evertick.kinds import StepError
from evertick.kinds.pipeline.program import pipeline_program
from evertick.model.work import Pipeline
from tests.kinds.pipeline.scripted import pipeline


def start(tmp_path, data, env=None, **more):
    folder = tmp_path / "pipe"
    folder.mkdir(exist_ok=True)
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"data": data, "directory": str(folder), **more}))
    return subprocess.Popen(
        [sys.executable, "-m", "evertick.kinds.pipeline", str(spec)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )


def finish(process):
    out, err = process.communicate(timeout=180)
    return process.returncode, out, err


def results(tmp_path):
    return [json.loads(path.read_text()) for path in sorted((tmp_path / "pipe" / ".results").iterdir())]


def test_a_good_run_prints_its_result_and_reports_and_keeps_its_progress(tmp_path):
    code, out, err = finish(start(tmp_path, pipeline(reduce={"type": "csv"})))
    assert (code, out) == (0, "endpoint,out_status,success\na,dry-run status,true\nb,dry-run status,true\n")
    assert "pipeline.progress phase=map done=2 total=2" in err
    assert "WARNING: DRY RUN: no invoker is set" in err
    (name,) = os.listdir(tmp_path / "pipe" / ".results")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.json", name)
    (result,) = results(tmp_path)
    assert (result["success"], result["itemsProcessed"], result["failure"]) == (True, 2, None)
    assert result["warnings"][0].startswith("DRY RUN")
    assert f"file=.results/{name} items=2 failed=0" in err


def test_a_dry_run_that_was_asked_for_is_not_warned_about(tmp_path):
    _, _, err = finish(start(tmp_path, pipeline(invoker="dry-run")))
    assert "WARNING" not in err


@pytest.mark.parametrize(
    ("more", "env", "code"),
    [
        pytest.param({}, {}, 1, id="any failed item fails the run"),
        pytest.param({"failWhen": 2}, {}, 0, id="unless the specification allows it"),
        pytest.param({}, {"EVERTICK_FAIL_WHEN": "100%"}, 0, id="or the environment"),
    ],
)
def test_a_run_whose_items_fail(tmp_path, more, env, code):
    data = pipeline(invoker={"command": ["/bin/sh", "-c", "echo no quota >&2; exit 3"]})
    ended, _, err = finish(start(tmp_path, data, env, **more))
    assert ended == code
    assert ("pipeline.failed reason=2 of 2 items failed. First error: '/bin/sh' exited with 3: no quota" in err) is (
        code == 1
    )
    assert results(tmp_path)[0]["output"]["summary"]["failedItems"] == 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param({"input": {}}, "'input' has no source of items", id="a bad definition"),
        pytest.param(
            pipeline(input={"from": {"type": "csv", "path": "x.csv"}}), "CSV file not found", id="no CSV file"
        ),
        pytest.param(pipeline(invoker="gpt"), "names no invoker", id="a bad invoker"),
    ],
)
def test_a_wrong_definition_ends_with_2_and_leaves_nothing(tmp_path, data, reason):
    code, out, err = finish(start(tmp_path, data))
    assert (code, out) == (2, "")
    assert reason in err
    assert "Traceback" not in err
    assert not (tmp_path / "pipe" / ".results").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_cancelled_run_ends_its_calls_and_says_so(tmp_path, number):
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    data = pipeline(
        [{"endpoint": "a"}], invoker={"command": ["/bin/sh", "-c", f"exec 5>{fifo}; echo here >&5; sleep 600"]}
    )
    process = start(tmp_path, data)
    with fifo.open() as alive:
        assert alive.readline() == "here\n"
        process.send_signal(number)
        # The end of the file: nobody is left who could write to it.
        assert alive.read() == ""
    code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert "pipeline.cancelled" in err
    assert results(tmp_path)[0]["error"] == "Operation cancelled"


def test_two_runs_of_one_second_have_two_files_and_a_name_that_is_given_is_taken(tmp_path):
    for _ in range(3):
        finish(start(tmp_path, pipeline()))
    assert len(results(tmp_path)) == 3
    finish(start(tmp_path, pipeline(), resultFile=".results/mine.json"))
    assert "mine.json" in os.listdir(tmp_path / "pipe" / ".results")


def test_a_result_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "pipe").mkdir()
    (tmp_path / "pipe" / ".results").write_text("in the way")
    code, out, err = finish(start(tmp_path, pipeline(reduce={"type": "csv"})))
    assert code == 0
    assert out.startswith("endpoint,")
    assert "WARNING: the result file could not be written" in err


def test_letters_that_no_encoding_has_do_not_break_the_end(tmp_path):
    data = pipeline(invoker={"command": ["/bin/sh", "-c", r"""printf '%s' '{"status": "\ud800 é"}'"""]})
    code, out, _ = finish(start(tmp_path, data))
    assert code == 0
    assert "? é" in out
    assert results(tmp_path)[0]["output"]["results"][0]["output"]["status"] == "\ud800 é"


@pytest.mark.parametrize("text", [pytest.param("{", id="broken"), pytest.param('{"data": 1}', id="without data")])
def test_a_specification_that_is_none_ends_with_2(tmp_path, text):
    spec = tmp_path / "spec.json"
    spec.write_text(text)
    ended = subprocess.run([sys.executable, "-m", "evertick.kinds.pipeline", str(spec)], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "specification" in ended.stderr


EXAMPLES = {
    "a daily report": (
        """
name: "Daily Bug Report"
description: "Generate daily bug triage report"
schedule:
  cron: "0 9 * * 1-5"
  timezone: "America/New_York"
  enabled: true
  retryPolicy:
    maxRetries: 3
    retryDelayMs: 60000
  missedExecution: "run"
  window:
    maxDelayMinutes: 30
input:
  from:
    type: csv
    path: "bugs.csv"
map:
  prompt: "Analyze bug: {{title}}"
  output: [severity, category]
reduce:
  type: json
""",
        "json",
    ),
    "a daily report in short": (
        """
name: "Daily Bug Report"
schedule:
  cron: "0 9 * * *"
  timezone: "America/New_York"

input:
  from: { type: csv, path: "bugs.csv" }
map:
  prompt: "Categorize: {{title}}"
  output: [severity, category]
reduce:
  type: json
""",
        "json",
    ),
    "a weekly sync": (
        """
name: "Weekly Data Sync"
schedule:
  cron: "0 0 * * 0"
  retryPolicy:
    maxRetries: 5
    retryDelayMs: 300000  # 5 minutes

input:
  from: { type: csv, path: "sync-targets.csv" }
map:
  prompt: "Sync {{endpoint}}"
  output: [status, records_synced]
reduce:
  type: table
""",
        "table",
    ),
    "a queue monitor": (
        """
name: "Queue Monitor"
schedule:
  cron: "*/15 9-17 * * 1-5"  # Every 15 min, 9-5, Mon-Fri
  timezone: "America/Los_Angeles"
  missedExecution: "skip"  # Don't catch up on missed checks

input:
  items:
    - queue: "high-priority"
    - queue: "standard"
map:
  prompt: "Check queue {{queue}} depth"
  output: [depth, oldest_message_age]
reduce:
  type: json
""",
        "json",
    ),
}


@pytest.mark.parametrize(("text", "kind"), EXAMPLES.values(), ids=EXAMPLES)
def test_an_example_runs_as_it_is_written(tmp_path, text, kind):
    folder = tmp_path / "pipe"
    folder.mkdir()
    (folder / "bugs.csv").write_text("title\nLogin fails\nExport is cut\n")
    (folder / "sync-targets.csv").write_text("endpoint\nhttps://example.org/a\nhttps://example.org/b\n")
    code, out, _ = finish(start(tmp_path, yaml.safe_load(text)))
    assert code == 0
    if kind == "table":
        assert out.splitlines()[0] == "| # | [in] endpoint | [out] status | [out] records_synced | Status |"
        assert out.count("| OK |") == 2
    else:
        found = json.loads(out)
        assert [one["success"] for one in found] == [True, True]
        assert all(value.startswith("dry-run ") for one in found for value in one["output"].values())


def test_the_program_of_a_pipeline_is_handed_all_of_it_on_a_descriptor(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    data = MappingProxyType({**pipeline(reduce={"type": "csv"}), "map": {"prompt": "{{endpoint}} {{lang}}"}})
    program = pipeline_program(Pipeline(data), str(tmp_path), {"lang": "Latin"}, ".results/one.json")
    (tmp_path / "payload").write_bytes(program.payload)
    shell = ["/bin/sh", "-c", 'exec "$@" 3<"$0"', "payload", *program.argv]
    ended = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "lang,endpoint,success\nLatin,a,true\nLatin,b,true\n")
    assert (tmp_path / ".results" / "one.json").exists()


def test_a_pipeline_that_is_not_plain_data_cannot_be_started():
    with pytest.raises(StepError, match="not plain data"):
        pipeline_program(Pipeline({"input": object()}), ".")

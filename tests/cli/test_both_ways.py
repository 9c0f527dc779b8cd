"""Whether a server and a ledger give the same answers: the same commands on one scheduler, run in three ways."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cli.invoke import code_of, run
from tests.cli.serving import Scheduler

pytestmark = pytest.mark.slow

FILES = {
    "build.yaml": (
        "description: Two steps\ntags: [nightly]\nschedule: '0 3 * * *'\ntimezone: Europe/Berlin\n"
        "steps:\n  - {name: one, command: echo 'first ä'}\n  - {name: two, command: exit 3, depends: [one]}\n"
    ),
    "bytes.yaml": r"command: printf '\377\376\000a\r\n\033[31m'" + "\n",
    "echo.yaml": "params: {WORD: {default: hello, enum: [hello, hi]}}\ncommand: echo $WORD\n",
    "hourly.yaml": "schedule: '0 * * * *'\ncatchupWindow: 6h\noverlapPolicy: all\ncommand: 'true'\n",
    "sleeper.yaml": "command: exec sleep 600\n",
}
PASSING = re.compile(r"(in|for) (?:\d+(?:\.\d+)?[dhms]+(?:\d+m?s)?)+")
"""What a sentence says about how long something takes from now."""
MOVING = {"wait_seconds", "watermark", "now", "generated_at"}
WAYS = ("the ledger", "the server", "the folder's server")
LONG_AGO = ["--from", "2026-03-01", "--to", "2026-03-03"]


class Served:
    """A scheduler with one run that failed and one that succeeded, and how to ask about it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.token = scheduler.folder / ".evertick" / "token"
        self.ways = {
            "the ledger": ["--store", scheduler.store_url, "--folder", str(scheduler.folder)],
            "the server": ["--server", scheduler.server_url, "--token-file", str(self.token)],
            "the folder's server": ["--folder", str(scheduler.folder)],
        }
        self.failed = self.ask("the ledger", "trigger", "build", "--wait")[1]["run"]["run"]
        self.good = self.ask("the ledger", "trigger", "echo", "--wait")[1]["run"]["run"]

    def ask(self, way: str, *arguments: str) -> tuple[int, Any]:
        result = run(*arguments, *self.ways[way], "-o", "json")
        return code_of(result), json.loads(result.stdout) if result.stdout else str(result.exception)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("jobs")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    scheduler = Scheduler(folder, has_server=True)
    try:
        scheduler.wait_until_said("jobs from")
        yield Served(scheduler)
    finally:
        scheduler.stop()


def settled(data: Any) -> Any:
    """The answer without what passes while one asks."""
    if isinstance(data, dict):
        return {name: settled(value) for name, value in data.items() if name not in MOVING}
    if isinstance(data, list | tuple):
        return [settled(value) for value in data]
    return PASSING.sub(r"\1 a while", data) if isinstance(data, str) else data


QUESTIONS = [
    ["list"],
    ["list", "two", "--tag", "nightly", "--status", "error"],
    ["list", "--all"],
    ["status", "build"],
    ["explain", "{failed}"],
    ["status", "hourly", "--runs", "0"],
    ["history"],
    ["history", "build", "--state", "failed", "-n", "1"],
    ["history", "--trigger", "manual", "--since", "2026-01-01"],
    ["explain", "hourly"],
    ["why", "build", "2026-03-01T03:00"],
    ["why", "hourly"],
    ["why", "{failed}"],
    ["upcoming", "-n", "5"],
    ["upcoming", "--job", "build", "-n", "2"],
    ["plan", "--until", "2199-01-01", "-n", "3", "--job", "build"],
    ["catchup", "hourly", "--dry-run"],
    ["catchup", "hourly", "--dry-run", "--keep", "latest"],
    ["backfill", "build", *LONG_AGO, "--dry-run"],
    ["logs", "{failed}"],
    ["logs", "{failed}", "--step", "one"],
    ["logs", "echo"],
    ["logs", "{beginning}"],
    ["why", "{beginning}"],
    ["why", "ech"],
    ["verify"],
]
MISTAKES = [
    pytest.param(["status", "biuld"], 3, id="no such job"),
    pytest.param(["history", "biuld"], 3, id="no such job in the history"),
    pytest.param(["why", "build", "noon"], 2, id="no time"),
    pytest.param(["why", "build@x"], 2, id="no run"),
    pytest.param(["logs", "build@2026-03-01T02:00:00Z"], 3, id="no such run"),
    pytest.param(["logs", "zz"], 3, id="the beginning of no run"),
    pytest.param(["retry", "x@2"], 3, id="the beginning of no job's run"),
    pytest.param(["explain", "{failed}", "--attempt", "7"], 3, id="no such attempt"),
    pytest.param(["logs", "{failed}", "--step", "three"], 3, id="no such step"),
    pytest.param(["trigger", "echo", "-p", "WORD=bye"], 2, id="a value that is not allowed"),
    pytest.param(["trigger", "biuld"], 3, id="no such job to run"),
    pytest.param(["cancel", "{good}"], 6, id="a run that has ended"),
    pytest.param(["retry", "{good}", "--from-failed"], 6, id="failed: the run succeeded"),
    pytest.param(["backfill", "echo", *LONG_AGO], 6, id="no schedule"),
    pytest.param(["backfill", "build", "--from", "2026-03-03", "--to", "2026-03-01"], 2, id="a window backwards"),
    pytest.param(["backfill", "build", "--cancel", "b9"], 3, id="no such backfill"),
    pytest.param(["history", "--after", "x"], 2, id="no page"),
]


@pytest.mark.parametrize("arguments", QUESTIONS, ids=" ".join)
def test_the_same_question_has_the_same_answer(served, arguments):
    asked = [argument.format(failed=served.failed, beginning=served.failed[:-3]) for argument in arguments]
    # An hour may begin meanwhile: what is compared is what was asked while nothing changed.
    for _ in range(5):
        ledger, *servers = [served.ask(way, *asked) for way in WAYS]
        if settled(served.ask("the ledger", *asked)) == settled(ledger):
            break
    assert ledger[0] == 0
    for server in servers:
        assert server[0] == 0
        assert settled(server[1]) == settled(ledger[1])


@pytest.mark.parametrize(("arguments", "code"), MISTAKES)
def test_the_same_mistake_has_the_same_words_and_exit_code(served, arguments, code):
    asked = [argument.format(failed=served.failed, good=served.good) for argument in arguments]
    ledger, *servers = [served.ask(way, *asked) for way in WAYS]
    assert ledger[0] == code
    assert servers == [ledger, ledger]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_asked_for_is_done(served, way):
    code, asked = served.ask(way, "trigger", "echo", "-p", "WORD=hi", "--wait")
    assert (code, asked["run"]["state"], asked["run"]["params"]) == (0, "succeeded", {"WORD": "hi"})
    assert asked["run"]["trigger"] == "manual"
    assert [log["text"] for log in served.ask(way, "logs", asked["run"]["run"])[1]] == ["hi\n"]
    code, retried = served.ask(way, "retry", served.failed[:-3], "--from-failed", "--wait")
    assert (code, retried["run"]["resumed_from"], retried["run"]["exit_code"]) == (1, served.failed, 3)
    assert served.ask(way, "pause", "hourly", "--note", "a move")[1]["is_answered"]
    assert served.ask(way, "status", "hourly")[1]["pause_note"] == "a move"
    assert served.ask(way, "resume", "hourly", "--catchup", "none")[1]["answer"]["is_resumed"] is True
    assert "is not paused" in run("resume", "hourly", *served.ways[way]).stdout
    code, filled = served.ask(
        way, "backfill", "hourly", "--from", "2026-03-01T00:00Z", "--to", "2026-03-01T02:00Z", "--all"
    )
    assert (code, filled["chosen"], filled["is_answered"]) == (0, 2, True)
    assert served.ask(way, "backfill", "hourly", "--cancel", filled["request"])[0] == 0
    run_id = served.ask(way, "trigger", "sleeper")[1]["run"]
    assert served.ask(way, "cancel", run_id)[1]["answer"]["cancelled"] == [run_id]


@pytest.mark.parametrize("way", WAYS)
def test_a_log_is_byte_for_byte_what_was_printed(served, way):
    """In a process of its own: what stands for standard output in these tests takes no bytes that are no text."""
    name = served.ask(way, "trigger", "bytes", "--wait")[1]["run"]["run"]
    command = [sys.executable, "-m", "evertick", "logs", name, *served.ways[way]]
    assert subprocess.run(command, capture_output=True, check=True).stdout == b"\xff\xfe\x00a\r\n\x1b[31m"


@pytest.mark.parametrize("way", WAYS)
def test_a_run_in_the_foreground_shows_its_output(served, way):
    result = run("run", "echo", "-p", "WORD=hi", *served.ways[way])
    assert (code_of(result), result.stdout) == (0, "hi\n")


@pytest.mark.parametrize("form", ["table", "yaml", "csv", "name"])
def test_every_form_is_the_same(served, form):
    shown = {way: run("history", "build", "--state", "failed", *served.ways[way], "-o", form).stdout for way in WAYS}
    assert len(set(shown.values())) == 1
    if form == "yaml":
        assert yaml.safe_load(shown["the server"])["items"]


@pytest.mark.parametrize(
    ("token", "code"),
    [
        pytest.param("evt_000000000000_" + "x" * 43, 4, id="an unknown one"),
        pytest.param("", 4, id="none"),
    ],
)
def test_a_wrong_token_is_4(served, tmp_path, token, code):
    file = tmp_path / "token"
    file.write_text(token)
    file.chmod(0o600)
    result = run("list", "--server", served.scheduler.server_url, "--token-file", file)
    assert (code_of(result), result.stdout) == (code, "")


def test_a_role_that_may_not_is_4(served, tmp_path):
    made = run("token", "create", "looker", "--role", "viewer", "--folder", served.scheduler.folder, "-o", "name")
    file = tmp_path / "token"
    file.write_text(made.stdout)
    file.chmod(0o600)
    where = ["--server", served.scheduler.server_url, "--token-file", file]
    assert code_of(run("list", *where)) == 0
    assert code_of(run("trigger", "echo", *where)) == 4


def test_a_job_whose_file_went_wrong_is_shown_as_stale_with_the_error(tmp_path):
    (tmp_path / "report.yaml").write_text("command: 'true'\n", encoding="utf-8")
    scheduler = Scheduler(tmp_path, has_server=True)
    try:
        assert scheduler.server_url
        (tmp_path / "report.yaml").write_text("comand: 'true'\n", encoding="utf-8")
        scheduler.wait_until_said("definition.refused", "report.yaml:1:1: unknown field 'comand'")
        scheduler.wait_until(lambda: scheduler.data("status", "report")["is_stale"])
        assert "runs its last valid version" in scheduler.run("status", "report")
        assert "unknown field 'comand'" in scheduler.run("status", "report")
        listed = run("list", "--folder", tmp_path)
        assert "idle (stale)" in listed.stdout
        assert "report.yaml:1:1: unknown field 'comand'" in listed.stderr
        assert scheduler.data("trigger", "report", "--wait")["run"]["state"] == "succeeded"
    finally:
        scheduler.stop()

"""The daily commands against a real `evertick serve` in a process of its own, on SQLite."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from evertick.model.instant import HOUR, SECOND, from_text, to_text
from tests.cli.serving import PATIENCE, Scheduler
from tests.cli.terminal import on_a_terminal

pytestmark = pytest.mark.slow

FILES = {
    "echo.yaml": (
        "schedule: '0 * * * *'\ntimezone: UTC\nparams: {WORD: {default: hello, pattern: '[a-z]+'}}\n"
        "command: echo $WORD for $EVERTICK_RUN_SCHEDULED_FOR; test $WORD != fail\n"
    ),
    "often.yaml": "schedule: {every: 1s, missedExecution: skip}\noverlap: skip\ncommand: 'true'\n",
    "echo-often.yaml": "schedule: {every: 2s, missedExecution: skip}\noverlap: skip\ngrace: 1s\ncommand: 'true'\n",
    "gate.yaml": "schedule: {every: 1s, missedExecution: skip}\noverlap: skip\ncommand: exec sleep 600\n",
    "steps.yaml": (
        "steps:\n  - {name: fetch, command: 'true'}\n  - {name: parse, command: 'true', depends: [fetch]}\n"
        "  - {name: load, command: exit 4, depends: [parse]}\n  - {name: never, command: 'true', depends: [load]}\n"
    ),
    "talk.yaml": "steps:\n  - {name: one, command: echo a}\n  - {name: two, command: echo b, depends: [one]}\n",
    "long.yaml": "command: exec sleep 600\n",
    "ready.yaml": "command: echo ready; exec sleep 600\n",
}


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory) -> Iterator[Scheduler]:
    folder = tmp_path_factory.mktemp("jobs")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    scheduler = Scheduler(folder)
    try:
        scheduler.wait_until_said("jobs from")
        scheduler.wait_until_said("succeeded", "often")
        yield scheduler
    finally:
        # Paused first: a second after its end it would start again, and outlive the scheduler.
        for command in (("pause", "gate"), ("cancel", "gate"), ("cancel", "long")):
            scheduler.run(*command)
        scheduler.stop()


def test_a_triggered_run_gives_its_result_its_parameters_and_its_log(scheduler):
    triggered = scheduler.data("trigger", "echo", "--param", "WORD=hi", "--wait", "--timeout", "60")
    run = triggered["run"]
    assert (run["state"], run["trigger"], run["params"]) == ("succeeded", "manual", {"WORD": "hi"})
    assert scheduler.run("logs", run["run"], "--follow") == f"hi for {run['scheduled_for']}\n"


def test_a_run_that_fails_is_1_and_may_be_retried_for_the_same_time(scheduler):
    failed = scheduler.data("trigger", "echo", "-p", "WORD=fail", "--wait", code=1)["run"]
    again = scheduler.data("retry", failed["run"], "--wait", code=1)["run"]
    assert (again["trigger"], again["scheduled_for"], again["params"]) == (
        "retry",
        failed["scheduled_for"],
        {"WORD": "fail"},
    )
    assert scheduler.data("why", again["run"])["outcome"] == "failed"


def test_waiting_ends_with_124_and_the_run_continues_until_it_is_cancelled(scheduler):
    scheduler.run("trigger", "long", "--wait", "--timeout", "0.5", code=124)
    (active,) = scheduler.data("status", "long")["active_runs"]
    assert scheduler.data("cancel", "long")["answer"]["cancelled"] == [active["run"]]


def test_ctrl_c_ends_the_waiting_with_130_and_not_the_run(scheduler):
    command = [sys.executable, "-m", "evertick", "trigger", "long", "--wait", "--folder", str(scheduler.folder)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=scheduler.env) as waiting:
        assert waiting.stderr is not None
        run_id = waiting.stderr.readline().removeprefix("Waiting for ").strip()
        waiting.send_signal(signal.SIGINT)
        said = waiting.stderr.read()
        assert (waiting.wait(PATIENCE), "The run continues" in said) == (130, True)
    assert scheduler.data("cancel", run_id)["answer"]["cancelled"] == [run_id]
    assert scheduler.data("why", run_id)["outcome"] == "cancelled"


def test_a_run_in_the_foreground_is_the_schedulers_and_shows_its_output(scheduler):
    shown = scheduler.run("run", "echo", "-p", "WORD=hi")
    assert shown.startswith("hi for ")
    data = scheduler.data("run", "echo", "-p", "WORD=fail", code=1)
    assert (data["state"], data["params"]) == ("failed", {"WORD": "fail"})
    assert scheduler.data("history", "echo", "-n", "1", "--state", "failed")["items"][0]["run"] == data["run"]
    assert scheduler.run("logs", "echo").startswith("fail for ")


def test_ctrl_c_ends_a_run_in_the_foreground(scheduler):
    command = [sys.executable, "-m", "evertick", "run", "ready", "--folder", str(scheduler.folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=scheduler.env
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=PATIENCE)
    assert (running.returncode, "Cancelling the run" in said) == (130, True)
    assert scheduler.data("history", "ready")["items"][0]["state"] == "cancelled"


def test_a_run_in_the_foreground_has_its_time(scheduler):
    assert scheduler.data("run", "long", "--timeout", "0.5", code=124)["state"] == "cancelled"


def test_the_lines_of_all_steps_are_shown_by_time(scheduler):
    run = scheduler.data("trigger", "talk", "--wait", "--timeout", "60")["run"]["run"]
    stamped = scheduler.run("logs", run, "--all-steps", "--timestamps").splitlines()
    assert [line.split(" ", 1)[1] for line in stamped] == ["one │ a", "two │ b"]
    assert stamped == sorted(stamped)
    assert scheduler.run("logs", run, "--all-steps", "--follow") == "one │ a\ntwo │ b\n"
    assert re.fullmatch(r"\S+T\S+\.\d{3}Z b\n", scheduler.run("logs", run, "--step", "two", "--timestamps"))
    assert [line["step"] for line in scheduler.data("logs", run, "--all-steps")] == ["one", "two"]
    assert scheduler.data("logs", run, "--timestamps")[0]["times"][0]["offset"] == 0


def test_top_shows_what_runs(scheduler):
    scheduler.wait_until(lambda: bool(scheduler.data("top", "--once")["running"]))
    found = scheduler.data("top", "--once")
    assert (found["scheduler"]["alive"], found["jobs"]["total"]) == (True, len(FILES))
    assert "RUNNING" in scheduler.run("top", "--once")


def test_the_active_run_of_a_job_is_cancelled_by_its_id(scheduler):
    scheduler.wait_until_said("started", "gate")
    scheduler.wait_until_said("skipped", "gate: overlap")
    active = scheduler.data("status", "gate")["active_runs"]
    assert scheduler.data("cancel", active[0]["run"])["answer"]["cancelled"] == [active[0]["run"]]
    assert scheduler.data("why", active[0]["run"])["outcome"] == "cancelled"


def test_why_names_the_run_that_was_in_the_way(scheduler):
    scheduler.wait_until_said("skipped", "gate: overlap")
    skipped = scheduler.data("history", "gate", "--reason", "overlap", "-n", "1")["items"][0]
    answer = scheduler.data("why", skipped["run"])
    assert (answer["outcome"], answer["reason"], answer["policy"]) == ("skipped", "overlap", "overlap: skip")
    assert answer["policy_from"].endswith("gate.yaml:2")
    assert answer["other_run"]["started_at"] <= skipped["scheduled_for"]
    assert "on node a1; the run of" in answer["sentences"][0]


def test_a_pause_holds_the_job_and_a_resume_lets_it_go(scheduler):
    paused = scheduler.data("pause", "often", "--note", "a move")["answer"]["paused_at"]
    # What runs goes on: the job is paused when it has ended.
    scheduler.wait_until(lambda: scheduler.data("status", "often")["status"] == "paused")
    standing = scheduler.data("status", "often")
    assert (standing["pause_note"], standing["next_at"]) == ("a move", None)
    assert scheduler.data("resume", "often", "--catchup", "none")["answer"]["is_resumed"] is True
    assert scheduler.data("status", "often")["paused_at"] is None
    # What lies in the pause is settled: it has a line, or is on time by its grace.
    at = to_text(from_text(paused) // SECOND * SECOND + SECOND)
    assert scheduler.data("why", "often", at)["outcome"] not in ("missing", "no occurrence", "unknown")


def chosen_of(preview) -> list[bool]:
    return [row["is_chosen"] for row in preview["candidates"]]


def test_a_backfill_runs_what_is_missing_and_then_nothing_is(scheduler):
    end = from_text(scheduler.data("status", "echo")["watermark"]) // HOUR * HOUR
    window = ("--from", to_text(end - 3 * HOUR), "--to", to_text(end))
    assert chosen_of(scheduler.data("backfill", "echo", *window, "--dry-run")) == [True] * 3
    asked = scheduler.data("backfill", "echo", *window, "--overlap", "parallel(2)", "--wait")
    assert (asked["chosen"], asked["answer"]["planned"]) == (3, 3)
    runs = scheduler.data("history", "echo", "--trigger", "backfill")["items"]
    assert [(run["state"], run["request"]) for run in runs] == [("succeeded", asked["request"])] * 3
    assert chosen_of(scheduler.data("backfill", "echo", *window, "--dry-run")) == [False] * 3


def test_a_terminal_sees_how_far_a_backfill_has_come(scheduler):
    end = from_text(scheduler.data("status", "echo")["watermark"]) // HOUR * HOUR
    window = ("--from", to_text(end - 30 * HOUR), "--to", to_text(end - 28 * HOUR))
    shown = on_a_terminal("backfill", "echo", *window, "--folder", str(scheduler.folder))
    assert "100%" in shown
    assert "2 succeeded." in shown


def test_a_catch_up_runs_what_a_pause_left_out(scheduler):
    scheduler.run("pause", "echo-often")
    scheduler.wait_until(lambda: scheduler.data("catchup", "echo-often", "--dry-run")["skipped"] > 1)
    scheduler.run("resume", "echo-often", "--catchup", "none")
    left_out = scheduler.data("history", "echo-often", "--reason", "paused")["items"]
    assert sum(line["occurrences"] for line in left_out) > 1
    scheduler.run("catchup", "echo-often", "--dry-run")
    asked = scheduler.data("catchup", "echo-often", "--keep", "latest")
    (request,) = asked["requests"]
    assert (asked["chosen"], request["is_answered"]) == (1, True)
    (caught,) = scheduler.data("history", "echo-often", "--trigger", "backfill")["items"]
    assert caught["scheduled_for"] == (left_out[0]["through"] or left_out[0]["scheduled_for"])
    # Asked once more, there is nothing left of it: a run for it has ended or is under way.
    assert scheduler.data("catchup", "echo-often", "--keep", "latest")["requests"] == []
    rest = scheduler.data("catchup", "echo-often", "--keep", "all")
    assert rest["chosen"] == sum(line["occurrences"] for line in left_out) - 1
    assert len(rest["requests"]) == 1


def test_what_is_left_of_a_backfill_can_be_cancelled(scheduler):
    end = from_text(scheduler.data("status", "echo")["watermark"]) // HOUR * HOUR
    window = ("--from", to_text(end - 13 * HOUR), "--to", to_text(end - 3 * HOUR))
    asked = scheduler.data("backfill", "echo", *window, "--rate", "3600", "--no-wait")
    scheduler.data("backfill", "echo", "--cancel", asked["request"])
    runs = [run for run in scheduler.data("history", "echo")["items"] if run["request"] == asked["request"]]
    assert sum(run["state"] == "cancelled" for run in runs) >= 9


def test_an_unknown_job_is_not_found_before_any_request(scheduler):
    assert scheduler.run("trigger", "ecko", code=3) == ""


def test_the_ledger_is_sound_afterwards(scheduler):
    command = [sys.executable, "-m", "evertick", "verify", "--store", scheduler.store_url, "-o", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, env=scheduler.env, timeout=PATIENCE, check=False)
    assert (ended.returncode, json.loads(ended.stdout)["is_sound"]) == (0, True)


def test_a_wait_on_a_terminal_draws_the_steps_as_a_tree(scheduler):
    written = on_a_terminal("trigger", "steps", "--wait", "--folder", str(scheduler.folder), code=1)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written)
    assert "└─ parse" in plain
    assert "   └─ load" in plain
    shown = scheduler.run("status", "steps@")
    lines = [line.split() for line in shown.splitlines() if "─" in line or line.startswith("fetch")]
    assert [line[0] if line[0] == "fetch" else line[1] for line in lines] == ["fetch", "parse", "load", "never"]
    assert re.search(r"└─ load +failed", shown)

"""A job in the foreground: its output, its result, and how it ends when it is interrupted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.cli.invoke import code_of, run
from tests.cli.terminal import on_a_terminal

STEPS = """\
steps:
  - {name: first, command: echo one}
  - {name: second, command: 'echo two >&2; exit 3', depends: [first]}
  - {name: third, command: echo three, depends: [second]}
"""
PATIENCE = 180


def job(folder: Path, text: str, name: str = "job.yaml") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def start(*arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "EVERTICK_TIMEZONE": "UTC"}
    command = [sys.executable, "-m", "evertick", "run", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def finish(*arguments: str, code: int) -> tuple[str, str]:
    with start(*arguments) as process:
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, err
    return out, err


@pytest.mark.slow
def test_the_output_is_on_stdout_and_the_result_is_the_exit_code(tmp_path):
    file = job(tmp_path, "command: echo $WORD for $EVERTICK_RUN_SCHEDULED_FOR\nparams: {WORD: {default: hello}}\n")
    out, err = finish(file, "-p", "WORD=hi", code=0)
    assert out.startswith("hi for 20")
    assert err == ""
    assert list(tmp_path.iterdir()) == [Path(file)]


@pytest.mark.slow
def test_an_exit_code_is_reported_once(tmp_path):
    assert finish(job(tmp_path, "command: exit 3\n"), code=1)[1] == "failed (exit code 3).\n"


@pytest.mark.slow
def test_steps_are_reported_as_they_end_and_the_first_failure_is_the_result(tmp_path):
    out, err = finish(job(tmp_path, STEPS), code=1)
    assert out.splitlines() == ["one", "two"]
    assert "==> first (attempt 1)" in err
    assert "failed     second in " in err
    assert "failed (exit code 3). step 'second': exit code 3." in err


@pytest.mark.slow
def test_the_output_of_steps_comes_in_the_order_in_which_they_ran(tmp_path):
    steps = "steps:\n  - {name: zeta, command: echo 1}\n  - {name: alpha, command: echo 2, depends: zeta}\n"
    out, _ = finish(job(tmp_path, steps + "onSuccess: echo 3\nonExit: echo 4\n"), code=0)
    assert out.splitlines() == ["1", "2", "3", "4"]


@pytest.mark.slow
def test_programs_get_the_run_and_the_output_goes_beside_it(tmp_path):
    out, err = finish(job(tmp_path, "command: echo hello; exit 7\n"), "-o", "json", code=1)
    data = json.loads(out)
    assert (data["state"], data["exit_code"], data["trigger"]) == ("failed", 7, "manual")
    assert "hello\n" in err


@pytest.mark.slow
def test_a_job_of_a_folder_is_run_by_its_id_regardless_of_its_schedule(tmp_path):
    job(tmp_path, "schedule: '0 0 1 1 *'\nenabled: false\ncommand: echo here\n", "yearly.yaml")
    out, _ = finish("yearly", "--folder", str(tmp_path), code=0)
    assert out == "here\n"


@pytest.mark.slow
def test_a_run_knows_the_occurrences_around_it_although_nothing_is_planned(tmp_path):
    (tmp_path / "other.yaml").write_text("schedule: '0 0 1 1 *'\ncommand: [echo, '{{ next(\"%m-%d\") }}']\n")
    text = "schedule: {every: 1s}\nsteps:\n- {name: a, command: 'echo ${EVERTICK_RUN_PREVIOUS:+known}; sleep 2'}\n"
    out, _ = finish(job(tmp_path, f"{text}- {{name: b, job: other, depends: a}}\n"), code=0)
    assert out.splitlines()[0] == "known"
    out, err = finish(str(tmp_path / "other.yaml"), code=0)
    assert (out, err.count("attempt")) == ("01-01\n", 0)


@pytest.mark.slow
def test_a_failure_is_retried_by_the_rules_of_the_job(tmp_path):
    policy = "retryPolicy: {maxRetries: 1, retryDelay: 1s}\n"
    text = f"{policy}command: echo try $EVERTICK_RUN_ATTEMPT; test $EVERTICK_RUN_ATTEMPT = 2\n"
    out, err = finish(job(tmp_path, text), code=0)
    assert out.splitlines() == ["try 1", "try 2"]
    assert "Attempt 1 failed: exit code 1. Retrying in " in err
    assert "(attempt 2)" in err


@pytest.mark.slow
def test_a_step_that_is_a_job_is_found_beside_the_file(tmp_path):
    job(tmp_path, "command: exit 4\n", "below.yaml")
    file = job(tmp_path, "steps:\n  - {name: sub, job: below}\n", "above.yaml")
    out, _ = finish(file, "-o", "json", code=1)
    (step,) = json.loads(out)["steps"]
    assert (step["name"], step["state"], step["sub_run"].startswith("below@")) == ("sub", "failed", True)
    assert "4" in step["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "a polite kill"])
def test_an_interrupt_ends_the_run_in_order(tmp_path, number):
    file = job(tmp_path, "command: |\n  trap 'echo cleaned up; exit 0' TERM\n  echo $$\n  sleep 600 & wait\n")
    with start(file) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (130, "cleaned up\n")
    assert "Cancelling the run" in err
    assert not psutil.pid_exists(pid)


@pytest.mark.slow
def test_a_timeout_ends_the_run_with_124(tmp_path):
    _, err = finish(job(tmp_path, "command: exec sleep 600\n"), "--timeout", "0.5", code=124)
    assert "Timed out after 0.5s" in err


@pytest.mark.slow
def test_a_terminal_shows_the_output_and_the_states_of_steps(tmp_path):
    shown = on_a_terminal("run", job(tmp_path, STEPS), code=1)
    assert "first │ " in shown
    assert "✓" in shown
    assert "✗" in shown
    assert "\x1b[?25h" in shown, "the cursor is given back"


@pytest.mark.slow
def test_a_terminal_shows_the_values_of_items(tmp_path):
    text = 'steps:\n- name: region\n  each: [eu, "\\e]0;owned\\a"]\n  command: exit 0\n- {name: b, command: exit 0}\n'
    shown = on_a_terminal("run", job(tmp_path, text))
    assert "region[0] eu" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert "owned" in shown
    assert "\x1b]0;" not in shown


@pytest.mark.slow
def test_a_terminal_is_not_given_what_it_would_obey(tmp_path):
    shown = on_a_terminal("run", job(tmp_path, r"command: printf '\033]0;owned\007 \033[31mred\033[0m\n'" + "\n"))
    assert "\x1b]0;" not in shown
    assert "\\x1b]0;owned" in shown


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["nowhere.yaml"], 3, "'nowhere.yaml' does not exist", id="no such file"),
        pytest.param(["./"], 3, "'./' is a folder", id="a folder"),
        pytest.param(["repotr"], 3, "Did you mean 'report'?", id="no such job"),
        pytest.param(["bad.yaml"], 2, "unknown field 'comand'", id="a file that is wrong"),
        pytest.param(["report.yaml", "-p", "WORD"], 2, "Write NAME=VALUE", id="a parameter that is none"),
    ],
)
def test_a_mistake_runs_nothing(tmp_path, monkeypatch, arguments, code, words):
    job(tmp_path, "command: touch ran\n", "report.yaml")
    job(tmp_path, "comand: touch ran\n", "bad.yaml")
    monkeypatch.chdir(tmp_path)
    result = run("run", *arguments)
    assert (code_of(result), result.stdout) == (code, "")
    assert words in str(result.exception) + result.stderr
    assert not (tmp_path / "ran").exists()

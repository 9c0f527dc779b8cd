"""Whether a shell completes commands, options, words and the names of jobs, and fast."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from evertick.cli.app import evertick
from evertick.cli.commands.completion import SHELLS
from evertick.cli.commands.scheduler import COMMANDS, SUMMARIES
from tests.cli.invoke import run
from tests.present import present

HEAVY = ("yaml", "sqlalchemy", "rich", "evertick.planning", "evertick.definitions", "evertick.operations")


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for name in ("report", "retry-me", "export"):
        (jobs / f"{name}.yaml").write_text("command: x\n", encoding="utf-8")
    monkeypatch.chdir(jobs)
    return jobs


def completed(*words: str) -> list[str]:
    *before, incomplete = words
    complete = ShellComplete(evertick, {}, "evertick", "_EVERTICK_COMPLETE")
    return [item.value for item in complete.get_completions(before, incomplete)]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        pytest.param(["ca"], ["cancel", "catchup"], id="commands"),
        pytest.param(["scheduler", "st"], ["start", "status"], id="commands of a group"),
        pytest.param(["cron", "e"], ["explain"], id="commands of another group"),
        pytest.param(["list", "--st"], ["--status", "--store"], id="options"),
        pytest.param(["list", "-o", "j"], ["json"], id="forms"),
        pytest.param(["status", "re"], ["report", "retry-me"], id="jobs"),
        pytest.param(["why", "x"], [], id="no job"),
        pytest.param(["upcoming", "--job", "ex"], ["export"], id="jobs of an option"),
        pytest.param(["resume", "report", "--catchup", "l"], ["latest"], id="choices"),
        pytest.param(["completion", "z"], ["zsh"], id="shells"),
        pytest.param(["history", "--state", "s"], ["succeeded", "skipped"], id="states of runs"),
        pytest.param(["history", "--trigger", "ca"], ["catchup"], id="triggers"),
        pytest.param(["history", "--reason", "dis"], ["disabled"], id="reasons"),
        pytest.param(["list", "--status", "p"], ["paused"], id="statuses of jobs"),
    ],
)
def test_what_is_completed(home, words, found):
    assert completed(*words) == found


def test_the_jobs_of_a_folder_that_is_named(home, tmp_path):
    assert completed("status", "--folder", str(home), "exp") == ["export"]
    assert completed("status", "--folder", str(tmp_path / "nowhere"), "exp") == []


def test_a_new_job_is_completed_at_once(home):
    assert completed("status", "n") == []
    (home / "new.yaml").write_text("command: x\n", encoding="utf-8")
    assert completed("status", "n") == ["new"]


def test_a_broken_cache_is_rebuilt(home, tmp_path):
    completed("status", "e")
    (cache,) = (tmp_path / "cache" / "evertick").iterdir()
    cache.write_text("{", encoding="utf-8")
    assert completed("status", "e") == ["export"]


def test_what_was_read_before_is_completed_without_any_heavy_import(home):
    completed("status", "e")
    code = (
        "import sys\n"
        "from evertick.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    asked = {"_EVERTICK_COMPLETE": "bash_complete", "COMP_WORDS": "evertick status e", "COMP_CWORD": "2"}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **asked}, check=True
    )
    assert ended.stdout == "plain,export\n"
    assert not set(HEAVY) & set(ended.stderr.split())


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_its_script(shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_EVERTICK_COMPLETE={shell}_complete" in result.stdout


def test_bash_really_completes(home, tmp_path):
    bash = shutil.which("bash")
    assert bash is not None, "the tests of completion need bash. Install it."
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "evertick"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m evertick "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = (
        'eval "$(evertick completion bash)"; COMP_WORDS=(evertick status re); COMP_CWORD=2; '
        '_evertick_completion evertick; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    ended = subprocess.run(
        [bash, "--norc", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}, check=True
    )
    assert ended.stdout.split() == ["report", "retry-me"]


def test_the_group_of_the_scheduler_has_the_commands_of_the_day():
    context = click.Context(evertick)
    group = evertick.get_command(context, "scheduler")
    assert isinstance(group, click.Group)
    for name in COMMANDS:
        command, same = (
            group.get_command(context, name),
            evertick.get_command(context, {"start": "serve"}.get(name, name)),
        )
        assert command is same
        assert str(present(same).help).startswith(SUMMARIES[name])


def test_the_group_of_the_scheduler_takes_what_the_commands_take(folder):
    result = run("scheduler", "history", "etl", "--limit", "1", "--folder", folder, "-o", "name")
    assert (result.exit_code, result.stdout) == (0, "etl@2027-01-15T07:00:00Z\n")

"""What `evertick validate` says about files."""

from __future__ import annotations

import json

from click.testing import CliRunner

from evertick.cli.app import evertick
from evertick.errors import NotFound

GOOD = "schedule: '@daily'\ncommand: x\n"
BAD = "schedule: '@daily'\ncomand: x\ncatchupWindow: 6\n"


def run(*arguments: object):
    return CliRunner().invoke(evertick, ["validate", *map(str, arguments)])


def test_good_files_end_with_0_and_nothing_on_stdout(tmp_path):
    (tmp_path / "a.yaml").write_text(GOOD, encoding="utf-8")
    result = run(tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "1 file, 1 job: no errors.\n"


def test_every_error_is_a_line_with_its_place_and_the_end_is_2(tmp_path):
    (tmp_path / "a.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "b.yaml").write_text(BAD, encoding="utf-8")
    result = run(tmp_path)
    assert result.exit_code == 2
    first, second = result.stdout.splitlines()
    assert first == f"{tmp_path}/b.yaml:2:1: unknown field 'comand' in job 'b'. Did you mean 'command'?"
    assert second.startswith(f"{tmp_path}/b.yaml:3:16: catchupWindow: ")
    assert result.stderr.endswith("2 files: 2 errors in 1 file.\n")


def test_files_may_be_named_one_by_one(tmp_path):
    (tmp_path / "a.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "b.yaml").write_text(BAD, encoding="utf-8")
    assert run(tmp_path / "a.yaml").exit_code == 0
    assert run(tmp_path / "a.yaml", tmp_path / "b.yaml").exit_code == 2
    assert "1 file," in run(tmp_path / "a.yaml", tmp_path / "a.yaml").stderr


def test_a_dotenv_file_that_a_run_could_not_read_is_a_warning(tmp_path):
    (tmp_path / "bad.env").write_text("A=1\nB=$C\n", encoding="utf-8")
    (tmp_path / "a.yaml").write_text("command: x\ndotenv: [bad.env, gone.env]\n", encoding="utf-8")
    result = run(tmp_path)
    assert result.exit_code == 0
    assert f"{tmp_path}/bad.env:2:3: '$' would be expanded" in result.stderr
    assert f"the dotenv file '{tmp_path}/gone.env' of job 'a' cannot be read: No such file" in result.stderr


def test_warnings_are_reported_and_do_not_change_the_end(tmp_path):
    text = "schedule: ['@daily', {at: 2020-01-01T00:00:00Z}]\noverlapPolicy: all\ncommand: x\n"
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    result = run(tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no effect without 'catchupWindow'" in result.stderr
    assert "2020-01-01T00:00:00Z, which is in the past" in result.stderr
    assert "2 warnings" in result.stderr


def test_a_job_with_nothing_to_run_is_an_error(tmp_path):
    (tmp_path / "a.yaml").write_text("schedule: '@daily'\n", encoding="utf-8")
    result = run(tmp_path)
    assert result.exit_code == 2
    assert "nothing to run" in result.stdout


def test_the_findings_as_json(tmp_path):
    (tmp_path / "b.yaml").write_text(BAD, encoding="utf-8")
    result = run(tmp_path, "-o", "json")
    assert result.exit_code == 2
    data = json.loads(result.stdout)
    assert [(error["line"], error["column"], error["field"]) for error in data["errors"]] == [
        (2, 1, "comand"),
        (3, 16, "catchupWindow"),
    ]
    assert data["jobs"] == []


def test_an_empty_folder_says_what_to_do(tmp_path):
    result = run(tmp_path)
    assert result.exit_code == 0
    assert "Found no job files" in result.stderr


def test_an_unknown_path_is_not_found(tmp_path):
    assert isinstance(run(tmp_path / "nowhere").exception, NotFound)


def test_a_name_with_control_characters_cannot_reach_the_terminal(tmp_path):
    (tmp_path / "a.yaml").write_text('command: x\n"a\\e[31m\\nb": 1\n', encoding="utf-8")
    result = run(tmp_path)
    assert len(result.stdout.splitlines()) == 1
    assert "\x1b" not in result.stdout

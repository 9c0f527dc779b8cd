"""Whether references between jobs are checked over all files of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from evertick.cli.app import evertick
from evertick.definitions.references import find_circles
from evertick.definitions.source import Folder, load_folder
from evertick.model.job import After, Job


def folder_with(path: Path, files: dict[str, str]) -> Folder:
    for name, text in files.items():
        (path / f"{name}.yaml").write_text(f"command: x\n{text}\n" if "steps" not in text else text, encoding="utf-8")
    return load_folder(path)


@pytest.mark.parametrize(
    ("files", "way"),
    [
        pytest.param({"a": "after: b", "b": "after: a"}, "a -> b -> a", id="each after the other"),
        pytest.param(
            {"a": "steps: [{name: s, job: b}]", "b": "steps: [{name: s, job: a}]"},
            "a -> b -> a",
            id="each in the other",
        ),
        pytest.param(
            {"a": "steps: [{name: s, job: b}]", "b": "onExit: {job: a}"}, "a -> b -> a", id="one when the other ends"
        ),
        pytest.param({"a": "steps: [{name: s, job: b}]\nafter: b", "b": ""}, "a -> b -> a", id="a step it comes after"),
        pytest.param({"a": "after: c", "b": "after: a", "c": "after: b"}, "a -> b -> c -> a", id="three in a circle"),
    ],
)
def test_jobs_that_start_each_other_without_end_are_not_loaded(tmp_path, files, way):
    found = folder_with(tmp_path, {**files, "other": ""})
    assert list(found.jobs) == ["other"]
    assert len(found.errors) == len(files)
    reasons = [error.reason for errors in found.errors.values() for error in errors]
    assert any(way in reason for reason in reasons)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({"a": "", "b": "after: a", "c": "after: a", "d": "after: [b, c]"}, id="a diamond"),
        pytest.param({"a": "", "b": "after: a", "c": "steps: [{name: s, job: a}, {name: t, job: b}]"}, id="steps"),
        pytest.param({"a": "steps: [{name: s, job: b}]", "b": "after: a"}, id="a step that also comes after"),
    ],
)
def test_jobs_that_end_are_loaded(tmp_path, files):
    found = folder_with(tmp_path, files)
    assert dict(found.errors) == {}
    assert list(found.jobs) == list(files)


def test_the_error_is_placed_where_the_other_job_is_named(tmp_path):
    found = folder_with(tmp_path, {"a": "priority: 1\nafter: b", "b": "after: a"})
    (error,) = found.errors[str(tmp_path / "a.yaml")]
    assert (error.line, error.field) == (3, "after")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("after: fech", "'after' names the job 'fech'", id="after"),
        pytest.param("steps:\n  - {name: s, job: fech}", "'steps' names the job 'fech'", id="a step"),
        pytest.param("constraints: {requirePreviousSuccess: fech}", "'constraints' names", id="a constraint"),
        pytest.param(
            "constraints: {maxExpectedRunTime: {value: 1h, onViolation: {startJob: fech}}}",
            "'constraints' names",
            id="an action",
        ),
    ],
)
def test_a_job_that_is_not_there_is_warned_about(tmp_path, text, words):
    found = folder_with(tmp_path, {"a": text, "fetch": ""})
    assert list(found.jobs) == ["a", "fetch"]
    (warning,) = found.warnings[str(tmp_path / "a.yaml")]
    assert words in warning.reason
    assert warning.hint == "Did you mean 'fetch'?"


def test_a_file_by_itself_is_not_asked_for_the_others(tmp_path):
    folder_with(tmp_path, {"a": "after: b", "b": ""})
    result = CliRunner().invoke(evertick, ["validate", str(tmp_path / "a.yaml")])
    assert (result.exit_code, result.stderr) == (0, "1 file, 1 job: no errors.\n")


def test_every_circle_is_broken_however_they_are_woven():
    # Two circles that share a job, one beside them, and a tail that hangs on: the tail stays.
    after = {"a": "b", "b": "a", "d": "e", "e": "f", "f": "d", "tail": "a"}
    jobs = {job_id: Job(job_id, after=After((other,))) for job_id, other in after.items()}
    jobs["c"] = Job("c", after=After(("a",)))
    jobs["b"] = Job("b", after=After(("a", "c")))
    left = {job_id: job for job_id, job in jobs.items() if job_id not in find_circles(jobs)}
    assert "tail" in left
    assert find_circles(left) == {}


def test_a_circle_of_ten_thousand_jobs_is_found():
    jobs = {f"j{number}": Job(f"j{number}", after=After((f"j{(number + 1) % 10_000}",))) for number in range(10_000)}
    assert len(find_circles(jobs)) == 10_000

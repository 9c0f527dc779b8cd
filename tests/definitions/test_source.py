"""Whether a folder gives its jobs, and an invalid file only its own errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evertick.definitions.parsed_file import SIZE_MAX
from evertick.definitions.source import load_files, load_folder
from evertick.errors import NotFound

GOOD = "schedule: '@daily'\ncommand: x\n"


def folder_with(path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text, encoding="utf-8")
    return path


def test_yaml_files_and_pipelines_are_found_in_the_order_of_their_names(tmp_path):
    found = load_folder(
        folder_with(
            tmp_path,
            {
                "b.yml": GOOD,
                "a.yaml": GOOD,
                "sync/pipeline.yaml": "input: {}\n",
                "weekly/pipeline.yml": "input: {}\n",
                "sync/other.yaml": "not: read\n",
                "deep/er/pipeline.yaml": "not: read\n",
                "notes.txt": "not: read\n",
                ".hidden.yaml": "not: read\n",
                ".git/pipeline.yaml": "not: read\n",
            },
        )
    )
    assert list(found.jobs) == ["a", "b", "sync", "weekly"]
    assert dict(found.errors) == {}
    assert [Path(file).relative_to(tmp_path).as_posix() for file in found.files] == [
        "a.yaml",
        "b.yml",
        "sync/pipeline.yaml",
        "weekly/pipeline.yml",
    ]


def test_a_bad_file_does_not_affect_another(tmp_path):
    found = load_folder(folder_with(tmp_path, {"a.yaml": GOOD, "bad.yaml": "schedule: [\n", "c.yaml": GOOD}))
    assert list(found.jobs) == ["a", "c"]
    assert [Path(file).name for file in found.errors] == ["bad.yaml"]


def test_two_files_with_one_id_are_errors_of_both_and_neither_is_loaded(tmp_path):
    files = {"a.yaml": "name: Same\n" + GOOD, "b.yaml": "name: same\n" + GOOD, "c.yaml": GOOD}
    found = load_folder(folder_with(tmp_path, files))
    assert list(found.jobs) == ["c"]
    first, second = found.errors.values()
    assert "b.yaml" in first[0].reason
    assert "a.yaml" in second[0].reason


def test_two_pipeline_files_in_one_folder_are_duplicates(tmp_path):
    files = {"sync/pipeline.yaml": "input: {}\n", "sync/pipeline.yml": "input: {}\n"}
    found = load_folder(folder_with(tmp_path, files))
    assert len(found.errors) == 2


def test_warnings_are_kept_by_file(tmp_path):
    found = load_folder(folder_with(tmp_path, {"a.yaml": "command: x\noverlapPolicy: all\n"}))
    assert [Path(file).name for file in found.warnings] == ["a.yaml"]


def test_a_missing_folder_is_not_found(tmp_path):
    with pytest.raises(NotFound, match=r"the folder .* does not exist"):
        load_folder(tmp_path / "nowhere")


def test_an_empty_folder_has_no_jobs(tmp_path):
    found = load_folder(tmp_path)
    assert (found.files, dict(found.jobs)) == ((), {})


def test_a_file_that_cannot_be_read_is_an_error_of_that_file(tmp_path):
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "link.yaml").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.yaml")  # must not be waited for
    folder_with(tmp_path, {"good.yaml": GOOD})
    found = load_folder(tmp_path)
    assert list(found.jobs) == ["good"]
    assert [Path(file).name for file in found.errors] == ["folder.yaml", "link.yaml", "pipe.yaml"]
    assert all("cannot be read" in errors[0].reason for errors in found.errors.values())


def test_a_huge_file_is_refused_without_reading_all_of_it(tmp_path):
    with (tmp_path / "huge.yaml").open("wb") as stream:
        stream.truncate(SIZE_MAX * 100)
    (errors,) = load_folder(tmp_path).errors.values()
    assert "more than 1,048,576 bytes" in errors[0].reason


def test_a_single_pipeline_file_takes_its_id_from_the_folder_around_it(tmp_path, monkeypatch):
    folder_with(tmp_path, {"sync/pipeline.yaml": "input: {}\n"})
    monkeypatch.chdir(tmp_path / "sync")
    assert list(load_files([Path("pipeline.yaml")]).jobs) == ["sync"]


@pytest.mark.slow
def test_two_thousand_files_load_and_the_invalid_ones_are_listed(tmp_path):
    for number in range(2_000):
        text = "schedule: '* * *'\n" if number % 100 == 0 else f"schedule: '{number % 60} * * * *'\ncommand: x\n"
        (tmp_path / f"job-{number:04d}.yaml").write_text(text, encoding="utf-8")
    found = load_folder(tmp_path)
    assert len(found.jobs) == 1_980
    assert len(found.errors) == 20
    assert list(found.jobs) == sorted(found.jobs)


def test_a_folder_that_may_not_be_entered_is_an_error_of_its_own(tmp_path, monkeypatch):
    folder_with(tmp_path, {"a.yaml": GOOD, "locked/pipeline.yaml": GOOD})

    def guard(call):
        def guarded(path, *arguments, **options):
            if Path(path).parent.name == "locked":
                raise PermissionError(13, "Permission denied")
            return call(path, *arguments, **options)

        return guarded

    monkeypatch.setattr(os, "stat", guard(os.stat))
    monkeypatch.setattr(os, "open", guard(os.open))
    found = load_folder(tmp_path)
    assert list(found.jobs) == ["a"]
    ((error,),) = found.errors.values()
    assert "cannot be read: Permission denied" in error.reason


def test_a_file_name_that_is_not_text_gives_a_name_that_is(tmp_path):
    (tmp_path / os.fsdecode(b"job-\xff.yaml")).write_text(GOOD, encoding="utf-8")
    (job,) = load_folder(tmp_path).jobs.values()
    assert (job.id, job.name) == ("job", "job")


class TestLinks:
    def test_a_link_out_of_the_folder_reveals_nothing_of_its_target(self, tmp_path):
        (tmp_path / "shadow").write_text("root:$6$secret-hash:19000:0:99999:7:::\n")
        jobs = tmp_path / "jobs"
        jobs.mkdir()
        (jobs / "a.yaml").symlink_to(tmp_path / "shadow")
        ((error,),) = load_folder(jobs).errors.values()
        assert "secret-hash" not in str(error)
        assert str(tmp_path / "shadow") in str(error)

    @pytest.mark.parametrize("place", ["..data", "../elsewhere"], ids=["inside, as a ConfigMap is mounted", "outside"])
    def test_a_link_to_a_job_file_is_one(self, tmp_path, place):
        jobs = folder_with(tmp_path / "jobs", {f"{place}/a.yaml": GOOD, ".keep": ""})
        (jobs / "a.yaml").symlink_to(f"{place}/a.yaml")
        assert list(load_folder(jobs).jobs) == ["a"]

    def test_an_error_behind_a_link_inside_the_folder_is_reported_whole(self, tmp_path):
        jobs = folder_with(tmp_path, {"..data/a.yaml": "comand: x\n"})
        (jobs / "a.yaml").symlink_to("..data/a.yaml")
        assert "comand" in str(load_folder(jobs).errors.values())

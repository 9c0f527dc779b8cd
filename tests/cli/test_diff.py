"""What `evertick diff` shows of a change of job files."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.invoke import code_of, run

MONDAY = ["--after", "2027-03-01T00:00:00Z"]


def git(folder, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", "-C", str(folder), *names, *words], check=True, capture_output=True)


def write(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    """Job files under version control, in a folder of the repository."""
    jobs = tmp_path / "repository" / "jobs"
    write(jobs, "report.yaml", "schedule: '0 9 * * *'\ntimezone: Europe/Berlin\ncommand: x\n")
    write(jobs, "sync.yaml", "schedule: '*/30 * * * *'\ncommand: x\n")
    write(jobs, "evertick.toml", 'timezone = "UTC"\n')
    git(tmp_path / "repository", "init")
    git(tmp_path / "repository", "add", ".")
    git(tmp_path / "repository", "commit", "-m", "the jobs")
    return jobs


def diff(folder, *options):
    result = run("diff", folder, *MONDAY, "-o", "json", *options)
    assert code_of(result) == 0, result.output
    return {one["job"]: one for one in json.loads(result.stdout)["items"]}


def test_without_a_change_nothing_differs(folder):
    assert diff(folder) == {}
    assert code_of(run("diff", folder, "--exit-code")) == 0


def test_an_occurrence_that_keeps_its_day_has_moved(folder):
    write(folder, "report.yaml", "schedule: '30 7 * * *'\ntimezone: Europe/Berlin\ncommand: x\n")
    (job,) = diff(folder, "--days", "2").values()
    assert job["moved"] == [
        {"before": "2027-03-01T08:00:00Z", "after": "2027-03-01T06:30:00Z"},
        {"before": "2027-03-02T08:00:00Z", "after": "2027-03-02T06:30:00Z"},
    ]
    assert (job["added"], job["removed"]) == ([], [])
    assert [rule["rule"] for rule in job["rules"]] == ["start.0"]


def test_a_day_without_a_counterpart_is_added_or_removed(folder):
    write(folder, "report.yaml", "schedule: '0 9 * * MON-FRI'\ntimezone: Europe/Berlin\ncommand: x\n")
    (job,) = diff(folder).values()
    assert job["removed"] == ["2027-03-06T08:00:00Z", "2027-03-07T08:00:00Z"]
    assert (job["added"], job["moved"]) == ([], [])
    assert (job["occurrences_before"], job["occurrences_after"]) == (7, 5)


def test_new_and_deleted_files_are_jobs_that_come_and_go(folder):
    (folder / "sync.yaml").unlink()
    write(folder, "extra.yaml", "schedule: '0 3 * * *'\ncommand: x\n")
    found = diff(folder, "--days", "1")
    assert {name: one["change"] for name, one in found.items()} == {"extra": "added", "sync": "removed"}
    assert len(found["sync"]["removed"]) == 48
    assert found["extra"]["added"] == ["2027-03-01T03:00:00Z"]


def test_a_disabled_job_loses_its_occurrences(folder):
    write(folder, "report.yaml", "enabled: false\nschedule: '0 9 * * *'\ntimezone: Europe/Berlin\ncommand: x\n")
    (job,) = diff(folder).values()
    assert len(job["removed"]) == 7
    assert {"rule": "enabled", "before": "yes", "after": "no"} in job["rules"]


def test_a_changed_command_does_not_change_the_schedule(folder):
    write(folder, "report.yaml", "schedule: '0 9 * * *'\ntimezone: Europe/Berlin\ncommand: y\n")
    (job,) = diff(folder).values()
    assert job["is_work_changed"]
    assert (job["rules"], job["added"], job["removed"], job["moved"]) == ([], [], [], [])


def test_the_settings_of_the_revision_count_for_its_files(folder):
    write(folder, "evertick.toml", 'timezone = "Asia/Tokyo"\n')
    result = run("diff", folder, *MONDAY, "-o", "json", EVERTICK_TIMEZONE="")
    (job,) = json.loads(result.stdout)["items"]
    assert job["job"] == "sync"
    assert {"rule": "timezone", "before": "UTC", "after": "Asia/Tokyo"} in job["rules"]


def test_a_revision_and_a_folder_can_be_the_base(folder, tmp_path):
    write(tmp_path / "former", "report.yaml", "schedule: '0 10 * * *'\ntimezone: Europe/Berlin\ncommand: x\n")
    assert diff(folder, "--base", "main") == {}
    found = diff(folder, "--base", tmp_path / "former")
    assert {name: one["change"] for name, one in found.items()} == {"report": "changed", "sync": "added"}


def test_pipelines_one_folder_down_are_compared_too(folder):
    write(folder, "triage/pipeline.yaml", "schedule: {cron: '0 1 * * *'}\ncommand: x\n")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "a pipeline")
    assert diff(folder) == {}


def test_a_job_that_is_due_all_the_time_is_compared_for_a_shorter_time(folder):
    write(folder, "sync.yaml", "schedule: {every: 1s}\ncommand: x\n")
    (job,) = diff(folder).values()
    assert job["occurrences_after"] == 7 * 24 * 3_600
    assert job["compared_until"] < "2027-03-02"
    assert len(job["added"]) < 11_000


def test_the_counts_leave_out_what_is_in_a_blackout(folder):
    blackout = 'from = "2027-03-02T00:00Z"\nto = "2027-03-03T00:00Z"\nreason = "Upgrade"\njobs = ["report"]\n'
    write(folder, "evertick.toml", f'timezone = "UTC"\n[[blackouts]]\n{blackout}')
    (job,) = diff(folder).values()
    assert job["removed"] == ["2027-03-02T08:00:00Z"]
    assert (job["occurrences_before"], job["occurrences_after"]) == (7, 6)
    assert "7 before, 6 after" in run("diff", folder, *MONDAY).stderr


def test_a_difference_can_be_the_exit_code(folder):
    (folder / "sync.yaml").unlink()
    assert code_of(run("diff", folder)) == 0
    assert code_of(run("diff", folder, "--exit-code")) == 1


def test_an_error_in_a_current_file_is_reported(folder):
    write(folder, "sync.yaml", "schedule: '* * *'\ncommand: x\n")
    result = run("diff", folder)
    assert code_of(result) == 2
    assert "sync.yaml:1" in result.output


@pytest.mark.parametrize("base", ["no-such-revision", "--upload-pack=touch x", "HEAD:jobs"])
def test_an_unknown_revision_names_the_next_step(folder, base):
    result = run("diff", folder, f"--base={base}")
    assert code_of(result) == 2
    assert "Name a git revision or a folder" in str(result.exception)


def test_a_folder_outside_of_git_needs_another_folder(tmp_path):
    write(tmp_path, "a.yaml", "command: x\n")
    result = run("diff", tmp_path, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert code_of(result) == 2
    assert "--base" in str(result.exception)


def test_people_see_what_moves_in_the_zone_of_the_job(folder):
    write(folder, "report.yaml", "schedule: '30 7 * * *'\ntimezone: Europe/Berlin\noverlap: wait\ncommand: x\n")
    shown = run("diff", folder, *MONDAY, "--days", "1").output
    assert "report  changed" in shown
    assert "overlap: skip -> wait" in shown
    assert "~ Mon 2027-03-01 09:00:00 -> 07:30:00" in shown

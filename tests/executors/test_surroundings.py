"""Where does a command run, and which variables does it find?"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from evertick.definitions.source import load_folder
from evertick.executors.fleet.bundle_folder import BundleFolder
from evertick.model.job import Job
from evertick.model.lifecycle import FAILED, SUCCEEDED
from evertick.model.work import Secret
from tests.executors.local_runs import Place, job_of, key_of, sh
from tests.present import present

pytestmark = pytest.mark.slow


@pytest.fixture
def jobs(tmp_path) -> Path:
    folder = tmp_path / "jobs" / "shop"
    folder.mkdir(parents=True)
    (folder / "hello.sh").write_text('#!/bin/sh\necho "hello from $(pwd)"\n')
    (folder / "hello.sh").chmod(0o755)
    return folder


def loaded(folder: Path, text: str, name: str = "report") -> Job:
    (folder / f"{name}.yaml").write_text(text)
    found = load_folder(folder)
    assert dict(found.errors) == {}
    return present(found.jobs.get(name))


def printed(place: Place, job: Job, number: int = 0) -> str:
    end = place.run(job, key=key_of(number, job.id))
    assert end.state is SUCCEEDED, end.detail
    return place.log(key_of(number, job.id)).decode()


@pytest.mark.parametrize(
    ("written", "folder"),
    [
        pytest.param("", "jobs/shop", id="without a word: the folder of the file"),
        pytest.param("workingDir: .", "jobs/shop", id="a dot"),
        pytest.param("workingDir: ../..", "", id="relative to the folder of the file"),
        pytest.param("workingDir: {tmp}/jobs", "jobs", id="absolute"),
    ],
)
def test_a_command_starts_in(written, folder, place, jobs, tmp_path):
    job = loaded(jobs, f"command: pwd\n{written.replace('{tmp}', str(tmp_path))}\n")
    assert printed(place, job) == f"{tmp_path / folder}\n"


def test_a_script_beside_the_file_needs_no_path_and_a_home_folder_is_a_tilde(place, jobs):
    assert printed(place, loaded(jobs, "command: ./hello.sh\n")) == f"hello from {jobs}\n"
    job = loaded(jobs, 'workingDir: "~"\ncommand: pwd\n')
    assert printed(place, job, 1) == f"{os.path.realpath(os.path.expanduser('~'))}\n"
    steps = "steps:\n  - {name: main, command: pwd, workingDir: sub}\n"
    (jobs / "sub").mkdir()
    assert printed(place, loaded(jobs, steps), 2) == f"{jobs}/sub\n"


def test_values_refer_to_what_is_already_set(place, jobs, monkeypatch):
    (jobs / "shop.env").write_text("SHOP=berlin\nKEY='k3y-$-7f41'\n")
    (jobs / "more.env").write_text("SHOP=hamburg\n")
    text = """
dotenv: [shop.env, more.env]
params: {REGION: eu}
env:
  PATH: "/opt/x/bin:${PATH}"
  TARGET: "${SHOP}/${REGION}/$$5/$HOME"
  AGAIN: "${TARGET}-${EVERTICK_RUN_JOB}"
steps:
  - name: main
    env: {LAST: "<${AGAIN}>"}
    command: 'echo "$LAST"; echo "$PATH" | cut -c1-11; echo "key $KEY"; echo "$SHOP"'
"""
    lines = printed(place, loaded(jobs, text)).splitlines()
    assert lines == ["<hamburg/eu/$5/$HOME-report>", "/opt/x/bin:", "key ***", "hamburg"]


def test_a_value_is_never_read_again(place, jobs):
    """A parameter that looks like a reference, or like shell text, stays what it is."""
    (jobs / "a.env").write_text("WORD='${PATH}$(id)'\n")
    job = loaded(jobs, 'dotenv: a.env\nenv: {COPY: "${WORD}"}\ncommand: printenv COPY | tr a-z A-Z\n')
    assert printed(place, job) == "${PATH}$(ID)\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("dotenv: gone.env\n", "gone.env' cannot be read: No such file", id="a file that is not there"),
        pytest.param("dotenv: bad.env\n", "bad.env:1:3: '$' would be expanded", id="a file with an error"),
        pytest.param("dotenv: latin.env\n", "not UTF-8 at byte 3", id="a file in another encoding"),
        pytest.param("dotenv: sub\n", "is not a file", id="a folder"),
        pytest.param("env: {A: '${GONE}'}\n", "'A' refers to ${GONE}, which is not set", id="an unknown variable"),
    ],
)
def test_a_run_fails_with_the_reason(text, words, place, jobs):
    (jobs / "bad.env").write_text("A=$B\n")
    (jobs / "latin.env").write_bytes(b"A=\xe9\n")
    (jobs / "sub").mkdir()
    end = place.run(loaded(jobs, f"command: 'true'\n{text}"))
    assert end.state is FAILED
    assert words in end.detail


def test_a_secret_inside_another_value_is_masked(place, monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", "hunter2-long")
    env = (("TOKEN", Secret("env", "SHOP_TOKEN")), ("URL", "https://x/?key=${TOKEN}"))
    place.open(environ=dict(os.environ))
    assert printed(place, job_of(sh('echo "$URL"'), env=env)) == "https://x/?key=***\n"


def test_in_a_bundle_relative_paths_are_relative_to_it(tmp_path):
    folder = BundleFolder(tmp_path / "bundles")
    (tmp_path / "bundles" / "abc").mkdir()
    words = ["launch", "a", 0, "", 1, 7, "manual", "", None, '{"working_dir":"sub","dotenv":[".env","~/x"]}', {}]
    bundle = str(tmp_path / "bundles" / "abc")
    assert f'"working_dir": "{bundle}/sub", "dotenv": ["{bundle}/.env", "~/x"]' in folder.launched_with("abc", words)[9]


def test_on_a_member_the_folder_of_the_file_is_not_used(jobs):
    job = loaded(jobs, "command: x\nexecutor: fleet\ndotenv: .env\n")
    assert (job.work.working_dir, job.work.dotenv) == (None, (".env",))


def test_a_sandbox_shows_the_folder_of_the_file_only_if_it_is_named(jobs):
    assert loaded(jobs, "command: x\nsandbox: bwrap\n").work.working_dir is None
    named = loaded(jobs, "command: x\nsandbox: bwrap\nworkingDir: .\n")
    assert named.work.working_dir == str(jobs)
    assert replace(named.work, sandbox=None) == loaded(jobs, "command: x\n").work


def test_a_run_finds_the_dates_of_its_occurrence(place, jobs):
    text = """
schedule: "0 10 * * *"
timezone: Europe/Berlin
params: {DAY: '{{ date(-1d) }}', GIVEN: '{{ date }}'}
env: {FILE: 'orders-{{ date("%Y%m%d") }}-${DAY}.csv'}
preconditions: {file_exists: "{{ date }}.ready"}
steps:
  - {name: argv, command: [printf, "%s|", "{{ previous }}", "{{ next }}"], output: AROUND}
  - name: main
    depends: argv
    command: 'echo "$FILE $GIVEN $AROUND$EVERTICK_RUN_DATE $EVERTICK_RUN_HOUR $EVERTICK_RUN_TIMEZONE"'
"""
    (jobs / "2026-03-02.ready").touch()
    job = loaded(jobs, text)
    # A form sends the default that it shows; what a person gives is never read.
    given = '{"DAY": "{{ date(-1d) }}", "GIVEN": "{{ hour }}"}'
    end = place.run(job, key=key_of(0, job.id), params=given)
    assert end.state is SUCCEEDED, end.detail
    assert place.log(key_of(0, job.id)).decode() == (
        "orders-20260302-2026-03-01.csv {{ hour }} 2026-03-01T09:00:00Z|2026-03-03T09:00:00Z|"
        "2026-03-02 10 Europe/Berlin\n"
    )

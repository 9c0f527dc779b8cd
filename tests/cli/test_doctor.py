"""What the doctor finds: nothing on a healthy scheduler, and each problem with its next step."""

from __future__ import annotations

import json
import os
import socket
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evertick.cli import times
from evertick.cli.doctor_checks import FAIL, OK, WARN, Finding, disk, machine, run_checks, scheduler
from evertick.cli.target import Target
from evertick.model.instant import DAY, to_text
from evertick.model.ledger import BUCKETS, Batch, JobRecord
from evertick.model.lifecycle import PLANNED, Trigger
from evertick.model.run import Entry, RunKey
from evertick.model.work import Container, SshCommand, Step
from evertick.settings.parts import DockerSettings
from evertick.stores import open_store
from tests.cli.invoke import code_of, run
from tests.executors.local_runs import job_of
from tests.stores.test_sqlite import filled, flip_an_index


def told(checks) -> list[tuple[str, str]]:
    return [(one[0], one[1]) for one in checks]


def findings(folder: Path, *arguments: str) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for row in json.loads(run("doctor", "--folder", folder, *arguments, "-o", "json").stdout):
        found.setdefault(row["check"], []).append(row)
    return found


def test_every_check_runs_and_changes_nothing(folder):
    (folder / ".evertick").chmod(0o700)
    before = sorted(folder.rglob("*"))
    found = findings(folder)
    assert set(found) == {
        *("version", "clock", "settings", "time zones", "limits", "jobs", "disk", "permissions", "set aside", "ledger"),
        *("scheduler", "port", "job files", "keepers"),
    }
    assert all(row["next"] for rows in found.values() for row in rows if row["level"] != OK)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("exposed", ["the folder", "a file", None])
def test_job_files_that_every_user_may_change_are_reported(tmp_path, exposed):
    (tmp_path / "a.yaml").write_text("command: x\n")
    (tmp_path / "a.yaml").chmod(0o666 if exposed == "a file" else 0o644)
    tmp_path.chmod(0o777 if exposed == "the folder" else 0o755)
    levels = [level for level, _ in told(disk.check_job_files(tmp_path))]
    assert levels == [OK if exposed is None else FAIL]


@pytest.mark.parametrize("mode", [0o700, 0o755], ids=["closed", "open to others"])
def test_a_state_folder_under_any_name_is_looked_at(tmp_path, mode):
    jobs, state = tmp_path / "jobs", tmp_path / "elsewhere"
    jobs.mkdir()
    state.mkdir(mode=mode)
    state.chmod(mode)
    (state / "ledger.db").touch(0o644)
    (jobs / "evertick.toml").write_text(f'state = "{state}"\n', encoding="utf-8")
    (found,) = {row["level"] for row in findings(jobs)["permissions"]}
    assert found == (OK if mode == 0o700 else FAIL)
    assert str(state) in findings(jobs)["disk"][0]["finding"]


def test_a_folder_that_no_scheduler_has_run_in_is_fit(tmp_path):
    (tmp_path / "a.yaml").write_text("command: x\n", encoding="utf-8")
    result = run("doctor", "--folder", tmp_path)
    assert code_of(result) == 0
    assert "the first start creates it" in result.stdout
    assert list(tmp_path.iterdir()) == [tmp_path / "a.yaml"]


def test_a_failure_is_exit_code_1_and_a_warning_is_not(tmp_path):
    assert code_of(run("doctor", "--folder", tmp_path)) == 0
    (tmp_path / "bad.yaml").write_text("comand: x\n", encoding="utf-8")
    result = run("doctor", "--folder", tmp_path)
    assert (code_of(result), "evertick validate" in result.stdout) == (1, True)


def test_a_wrong_setting_is_a_finding_and_keeps_the_others_from_nothing(tmp_path):
    (tmp_path / "evertick.toml").write_text("prot = 1\n", encoding="utf-8")
    found = findings(tmp_path)
    assert found["settings"][0]["level"] == FAIL
    assert "Did you mean 'port'" in found["settings"][0]["finding"]
    assert "clock" in found
    assert "port" in found


def test_a_ledger_that_cannot_be_read_is_a_failure(folder):
    (folder / ".evertick" / "ledger.db").write_bytes(b"no database at all" * 100)
    assert findings(folder)["ledger"][0]["level"] == FAIL


def test_an_error_of_several_lines_is_a_finding_for_each():
    told = run_checks([("one", lambda: iter([(FAIL, "it is broken:\n  page 3\n", "restore it:\n  cp a b")]))])
    assert list(told) == [
        Finding("one", FAIL, "it is broken:"),
        Finding("one", FAIL, "page 3", "restore it: cp a b"),
    ]


def test_a_check_that_raises_fails_and_the_next_one_runs():
    def breaks():
        raise ZeroDivisionError("oops")

    assert list(run_checks([("one", breaks), ("two", lambda: iter([(OK, "fine")]))])) == [
        Finding("one", FAIL, "ZeroDivisionError: oops"),
        Finding("two", OK, "fine"),
    ]


@pytest.mark.parametrize(
    ("kernel", "level", "words"),
    [
        pytest.param((True, 4_000), OK, "within 4ms", id="kept right"),
        pytest.param((True, 3_000_000), WARN, "off by 3s", id="kept badly"),
        pytest.param((False, 16_000_000), WARN, "not synchronized", id="not kept"),
        pytest.param(None, WARN, "does not report", id="not known"),
    ],
)
def test_the_clock(monkeypatch, kernel, level, words):
    monkeypatch.setattr(machine, "_kernel_clock", lambda: kernel)
    ((found, text),) = told(machine.check_clock())
    assert (found, words in text) == (level, True)


def test_the_kernel_is_really_asked():
    found = machine._kernel_clock()
    assert found is None or found[1] >= 0


def test_old_rules_of_zones_are_reported(monkeypatch):
    monkeypatch.setattr(machine, "_zones_version", lambda _: "2019c")
    assert (WARN, "the time zone data is old: version 2019c") in told(machine.check_zones("UTC", "test"))


def test_a_folder_that_cannot_be_watched_is_reported(monkeypatch, tmp_path):
    assert (OK, "the scheduler notices edits of job files at once (inotify)") in told(machine.check_limits(tmp_path))
    monkeypatch.setattr(machine, "watch_failure", lambda _: "jobs cannot be watched: the limit is reached")
    ((level, text),) = [one for one in told(machine.check_limits(tmp_path)) if "cannot be watched" in one[1]]
    assert (level, "scans the folder" in text) == (WARN, True)


def test_a_folder_that_other_users_may_use_is_a_failure(tmp_path):
    state = tmp_path / ".evertick"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    (state / "ledger.db").touch(0o600)
    ((level, text),) = told(disk.check_permissions(state))
    assert (level, "mode 755" in text) == (FAIL, True)
    state.chmod(0o700)
    (state / "ledger.db").chmod(0o644)
    assert [level for level, _ in told(disk.check_permissions(state))] == [OK]


def test_what_was_set_aside_is_reported(tmp_path):
    assert told(disk.check_set_aside(tmp_path)) == [(OK, "no unreadable state files")]
    (tmp_path / "state.json.unreadable-20260301T000000Z").touch()
    ((level, text),) = told(disk.check_set_aside(tmp_path))
    assert (level, "could not read its state" in text) == (WARN, True)


@pytest.mark.parametrize(
    ("free", "level"),
    [
        pytest.param(50 << 20, FAIL, id="too little"),
        pytest.param(500 << 20, WARN, id="little"),
        pytest.param(5 << 30, OK, id="enough"),
    ],
)
def test_the_space_of_a_disk(tmp_path, monkeypatch, free, level):
    real = os.statvfs(tmp_path)
    values = [*real][:10]
    values[1], values[4], values[7] = 1, free, 10**6  # f_frsize, f_bavail, f_favail
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(values))
    assert told(disk._space(tmp_path))[0][0] == level


def test_locks_that_hold_and_writes_that_last(tmp_path):
    found = told(disk.check_file_system(tmp_path))
    assert (OK, "file locks work between processes") in found
    assert any(text.startswith("fsync took") for _, text in found)
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_reported_unless_it_is_ours():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        assert told(scheduler.check_port("127.0.0.1", port, is_running=False))[0][0] == WARN
        assert told(scheduler.check_port("127.0.0.1", port, is_running=True))[0][0] == OK
    assert told(scheduler.check_port("192.0.2.1", 8765, is_running=False))[0][0] == FAIL


def test_without_a_scheduler_that_is_reported(folder):
    found = told(scheduler.check_scheduler(Target(folder, f"sqlite:///{folder}/.evertick/ledger.db")))
    assert found == [(WARN, "no scheduler is running")]


def test_a_ledger_that_a_clock_ahead_has_planned_into_the_future_is_a_failure(folder):
    url = f"sqlite:///{folder}/.evertick/ledger.db"
    ahead = times.now() + 365 * DAY
    with closing(open_store(url)) as store:
        store.commit(Batch(by="a", floors=dict.fromkeys(range(BUCKETS), ahead)))
    (found,) = [words for level, words in told(scheduler.check_scheduler(Target(folder, url))) if level == FAIL]
    assert to_text(ahead) in found


def test_entries_that_are_stuck_are_a_failure(folder, monkeypatch):
    url = f"sqlite:///{folder}/.evertick/ledger.db"
    now = times.now()
    key = RunKey("stuck", now - DAY)
    with closing(open_store(url)) as store:
        entry = Entry(key, PLANNED, Trigger.SCHEDULER, now - DAY)
        floors = dict.fromkeys(range(BUCKETS), now)
        store.commit(Batch(by="a", entries=[entry], jobs=[JobRecord("stuck", now)], floors=floors))
    monkeypatch.setattr(Target, "is_anyone_running", lambda *_: True)
    (failure,) = [words for level, words in told(scheduler.check_scheduler(Target(folder, url))) if level == FAIL]
    assert failure.endswith(f"stuck entries: overdue, waiting for nothing; the oldest is {key.run_id}")


def test_what_the_quick_check_misses_is_found_by_a_full_one_or_by_the_scheduler(folder, monkeypatch):
    path = folder / ".evertick" / "ledger.db"
    path.unlink()
    filled(path)
    flip_an_index(path)
    quick, whole = findings(folder)["ledger"], findings(folder, "--full")["ledger"]
    assert (quick[0]["level"], "quick integrity check" in quick[0]["finding"]) == (OK, True)
    assert (whole[0]["level"], "missing from index" in whole[0]["finding"]) == (FAIL, True)
    status = {"integrity": {"state": "damaged", "finding": "row 3 missing", "checked_at": "x"}}
    monkeypatch.setattr(Target, "scheduler_status", lambda _: status)
    last = findings(folder)["ledger"][-1]
    assert (last["level"], "row 3 missing" in last["finding"]) == (FAIL, True)
    status["integrity"]["state"] = "ok"
    assert findings(folder)["ledger"][-1]["finding"] == "the scheduler's full check passed at x"


class TestKinds:
    """Whether this machine has what the steps of its jobs need."""

    def test_a_job_without_such_steps_needs_nothing(self):
        assert list(machine.check_kinds({}, DockerSettings())) == []

    def test_ssh_needs_openssh(self, monkeypatch, tmp_path):
        jobs = {"a": job_of(Step("main", SshCommand("db1", ("true",))))}
        monkeypatch.setenv("PATH", str(tmp_path))
        ((level, finding, *_),) = machine.check_kinds(jobs, DockerSettings())
        assert level == "fail"
        assert "'ssh' is not in PATH" in finding

    def test_containers_need_an_engine_that_the_operator_allows(self, tmp_path):
        jobs = {"a": job_of(Step("main", Container("busybox")))}
        ((level, finding, *_),) = machine.check_kinds(jobs, DockerSettings())
        assert level == "fail"
        assert "not allowed" in finding
        ((level, finding, *_),) = machine.check_kinds(jobs, DockerSettings(socket=tmp_path / "absent"))
        assert level == "fail"
        assert "No such file" in finding
        ((level, *_),) = machine.check_kinds({}, DockerSettings(socket=tmp_path / "absent"))
        assert level == "warn"


def test_a_blackout_that_names_what_no_job_is_or_has_is_reported(tmp_path):
    (tmp_path / "a.yaml").write_text("tags: [db]\ncommand: x\n")
    (tmp_path / "evertick.toml").write_text(
        '[[blackouts]]\nfrom = "2097-03-06T22:00"\nto = "2097-03-07T04:00"\njobs = ["a", "b"]\ntags = ["db", "bd"]\n'
        '[[blackouts]]\nfrom = "2017-03-06T22:00"\nto = "2017-03-07T04:00"\njobs = ["gone"]\n'
    )
    found = findings(tmp_path)["blackouts"]
    assert [(row["level"], row["finding"].partition(" names ")[2]) for row in found] == [
        (WARN, "the unknown job 'b'"),
        (WARN, "the tag 'bd', which no job has"),
    ]
    assert "evertick.toml" in found[0]["next"]


def test_calendars_that_cannot_be_read_or_end_soon_are_reported(tmp_path):
    today = datetime.now(UTC).date()
    dates = {"soon": today + timedelta(days=20), "far": today + timedelta(days=400)}
    lines = [f'{name} = {{dates = ["{day}"]}}' for name, day in dates.items()]
    text = "\n".join(["[calendars]", *lines, 'weekends = {weekdays = ["SAT"]}', 'gone = {ics = "gone.ics"}', ""])
    (tmp_path / "evertick.toml").write_text(text, encoding="utf-8")
    found = {row["finding"].split("'")[1]: row for row in findings(tmp_path)["calendars"]}
    assert {name: row["level"] for name, row in found.items()} == {
        "soon": WARN,
        "far": OK,
        "weekends": OK,
        "gone": FAIL,
    }
    assert str(dates["soon"]) in found["soon"]["finding"]
    assert "add the coming days" in found["soon"]["next"]
    assert "gone.ics" in found["gone"]["finding"]
    assert found["weekends"]["finding"] == "'weekends': every SAT"

"""What `evertick upcoming` shows of a folder."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from evertick.cli.app import evertick
from evertick.errors import NotFound

NEW_YEAR = ["--after", "2027-01-01T00:00:00Z"]


def run(*arguments: object, **environ: str):
    return CliRunner(env={"EVERTICK_TIMEZONE": "UTC", **environ}).invoke(evertick, ["upcoming", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    files = {
        "often.yaml": "schedule: [{every: 20m}, '*/20 * * * *']\ncommand: x\n",
        "berlin.yaml": "description: Noon\ntimezone: Europe/Berlin\nschedule: '0 12 * * *'\ncommand: x\n",
        "service.yaml": "schedule: {start: '0 1 * * *', stop: '30 1 * * *'}\ncommand: x\n",
        "off.yaml": "enabled: false\nschedule: '* * * * *'\ncommand: x\n",
        "manual.yaml": "command: x\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def fires(result):
    return [(row["scheduled_for"][11:16], row["job"], row["action"]) for row in json.loads(result.stdout)["items"]]


def test_fires_of_all_jobs_come_in_the_order_of_time_and_two_at_one_instant_are_one(folder):
    result = run(folder, *NEW_YEAR, "--count", "6", "-o", "json")
    assert result.exit_code == 0
    assert fires(result) == [
        ("00:20", "often", "start"),
        ("00:40", "often", "start"),
        ("01:00", "often", "start"),
        ("01:00", "service", "start"),
        ("01:20", "often", "start"),
        ("01:30", "service", "stop"),
    ]


def test_until_ends_the_list(folder):
    assert len(fires(run(folder, *NEW_YEAR, "--until", "2027-01-01T00:40:00Z", "-o", "json"))) == 2


def test_a_fire_is_reported_in_its_own_zone_and_in_utc(folder):
    result = run(folder, "--after", "2027-01-01T10:59:59Z", "--count", "9", "-o", "json")
    (row,) = [row for row in json.loads(result.stdout)["items"] if row["job"] == "berlin"]
    assert row == {
        "job": "berlin",
        "job_name": "berlin",
        "action": "start",
        "scheduled_for": "2027-01-01T11:00:00Z",
        "starts_at": None,
        "local": "Fri 2027-01-01 12:00:00",
        "local_start": None,
        "offset": "+01:00",
        "timezone": "Europe/Berlin",
        "wait_seconds": 1.0,
        "what": "run",
        "reason": None,
        "detail": "",
        "day": None,
    }


def test_upcoming_of_one_job_describes_its_schedule(folder):
    result = run(folder, "--job", "berlin", "--after", "2027-01-01T10:59:59Z", "-n", "1")
    assert "Europe/Berlin" in result.stdout
    assert "12:00" in result.stderr


def test_a_table_has_the_start_where_jitter_delays_one(folder):
    (folder / "spread.yaml").write_text("schedule: '10 0 * * *'\njitter: 20m\ncommand: x\n", encoding="utf-8")
    lines = run(folder, *NEW_YEAR, "--count", "2").stdout.splitlines()
    assert lines[0].split() == ["IN", "JOB", "ACTION", "LOCAL", "TIME", "STARTS", "ZONE", "UTC"]
    assert lines[1].split()[-9:] == [
        *("Fri", "2027-01-01", "00:10:00", "Fri", "2027-01-01", "00:22:49", "UTC", "+00:00", "2027-01-01T00:10:00Z")
    ]


def test_without_a_terminal_the_tables_are_aligned_text(folder):
    result = run(folder, *NEW_YEAR, "--count", "1")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["IN", "JOB", "ACTION", "LOCAL", "TIME", "ZONE", "UTC"]
    assert lines[1].split() == [
        *("20m", "often", "start", "Fri", "2027-01-01", "00:20:00", "UTC", "+00:00", "2027-01-01T00:20:00Z")
    ]
    assert "\x1b" not in result.stdout
    assert "Next: evertick serve" in result.stderr


def test_a_bad_file_is_reported_on_stderr_and_ends_with_2_and_the_others_are_shown(folder):
    (folder / "bad.yaml").write_text("schedule: '* *'\ncommand: x\n", encoding="utf-8")
    result = run(folder, *NEW_YEAR, "-o", "json")
    assert result.exit_code == 2
    assert len(fires(result)) == 12
    assert "bad.yaml:1:11" in result.stderr
    assert "Ignored 1 of 6 job files" in result.stderr


def test_an_empty_folder_says_what_to_do_next(tmp_path):
    result = run(tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "There are no jobs" in result.stderr
    assert "Next: evertick init" in result.stderr
    assert json.loads(run(tmp_path, "-o", "json").stdout) == {"items": []}


def test_a_folder_where_nothing_is_due_says_so(tmp_path):
    (tmp_path / "manual.yaml").write_text("command: x\n", encoding="utf-8")
    result = run(tmp_path)
    assert (result.stdout, "No enabled job is due" in result.stderr) == ("", True)


def test_a_missing_folder_is_not_found(tmp_path):
    assert isinstance(run(tmp_path / "nowhere").exception, NotFound)


@pytest.fixture
def closed(tmp_path):
    """A job that is due each morning, and not on weekends or on one day off."""
    settings = '[calendars]\nweekends = {weekdays = ["SAT", "SUN"]}\noff = {dates = {"2027-01-04" = "Stocktaking"}}\n'
    (tmp_path / "evertick.toml").write_text(settings, encoding="utf-8")
    text = "schedule: '0 9 * * *'\ncalendar: {skip: [weekends, off]}\ncommand: x\n"
    (tmp_path / "report.yaml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("one", [[], ["--job", "report"]], ids=["of all jobs", "of one job"])
def test_excluded_days_are_shown_on_request_with_their_names(closed, one):
    # 2027-01-01 is a Friday.
    plain = run(closed, *NEW_YEAR, *one, "--count", "2", "-o", "json")
    assert [row["scheduled_for"][:10] for row in json.loads(plain.stdout)["items"]] == ["2027-01-01", "2027-01-05"]
    found = json.loads(run(closed, *NEW_YEAR, *one, "--count", "5", "--all", "-o", "json").stdout)["items"]
    assert [(row["scheduled_for"][8:10], row["what"], row["day"]) for row in found] == [
        ("01", "run", None),
        ("02", "skip: calendar", "Saturday"),
        ("03", "skip: calendar", "Sunday"),
        ("04", "skip: calendar", "Stocktaking"),
        ("05", "run", None),
    ]
    assert (found[3]["reason"], found[3]["detail"]) == ("calendar", "Stocktaking is in the calendar off")
    table = run(closed, *NEW_YEAR, *one, "--count", "5", "--all").stdout
    assert "skip: calendar" in table
    assert "Stocktaking is in the calendar off" in table

"""What `evertick cron` says about an expression."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from evertick.cli.app import evertick
from evertick.errors import CronError
from evertick.model.instant import from_text
from evertick.operations.codec import to_data
from evertick.operations.cron_preview import preview_cron
from evertick.planning.cron import Cron

BERLIN = ["--timezone", "Europe/Berlin"]


def run(*arguments: str, **environ: str):
    return CliRunner(env=environ).invoke(evertick, ["cron", *arguments])


def test_the_next_fires_are_reported_in_local_time_and_in_utc():
    result = run("next", "30 2 * * *", *BERLIN, "--after", "2027-03-27T00:00:00Z", "--count", "2")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["IN", "LOCAL", "TIME", "ZONE", "UTC"],
        ["1h", "30m", "Sat", "2027-03-27", "02:30:00", "Europe/Berlin", "+01:00", "2027-03-27T01:30:00Z"],
        ["1d", "1h", "Sun", "2027-03-28", "03:00:00", "Europe/Berlin", "+02:00", "2027-03-28T01:00:00Z"],
    ]


def test_the_next_fires_as_json():
    result = run("next", "@hourly", *BERLIN, "--after", "2027-01-01T00:30:00+01:00", "-n", "1", "-o", "json")
    assert json.loads(result.stdout) == [
        {
            "scheduled_for": "2027-01-01T00:00:00Z",
            "local": "Fri 2027-01-01 01:00:00",
            "offset": "+01:00",
            "timezone": "Europe/Berlin",
            "wait_seconds": 1800.0,
            "note": None,
        }
    ]


def test_json_is_the_answer_of_the_operation():
    expression, start = "30 2 * * *", "2027-03-27T00:00:00Z"
    answer = to_data(preview_cron(Cron.parse(expression, "Europe/Berlin"), expression, from_text(start), 3))
    assert json.loads(run("explain", expression, *BERLIN, "--after", start, "-o", "json").stdout) == answer
    rows = json.loads(run("next", expression, *BERLIN, "--after", start, "-n", "3", "-o", "json").stdout)
    assert rows == answer["next"]
    assert rows[1]["note"] is not None  # a change of the clock moves it


def test_without_a_zone_the_setting_holds():
    result = run("next", "@daily", "-o", "json", EVERTICK_TIMEZONE="Asia/Tokyo")
    assert {row["timezone"] for row in json.loads(result.stdout)} == {"Asia/Tokyo"}


def test_h_is_computed_from_the_name():
    rows = [run("next", "H H * * *", "--name", name, "-n", "1", "-o", "json").stdout for name in ("a", "b", "a")]
    assert json.loads(rows[0])[0]["local"] == json.loads(rows[2])[0]["local"]
    assert json.loads(rows[0])[0]["local"] != json.loads(rows[1])[0]["local"]


def test_an_expression_is_explained_in_english_with_its_fields_and_the_years_clock_changes():
    result = run("explain", "30 2 * * *", *BERLIN, "--after", "2027-01-01T00:00:00Z")
    assert result.exit_code == 0
    assert "02:30" in result.stdout.splitlines()[0]
    assert ["hour", "2"] in [line.split() for line in result.stdout.splitlines()]
    assert "Sun 2027-03-28" in result.stdout
    assert "Sun 2027-10-31" in result.stdout


def test_a_zone_without_clock_changes_is_reported_as_such():
    assert "no effect" in run("explain", "30 2 * * *", "--timezone", "UTC").stdout


def test_an_explanation_as_json():
    data = json.loads(run("explain", "@daily", *BERLIN, "--after", "2027-01-01T00:00:00Z", "-o", "json").stdout)
    assert data["fields"]["hour"] == "0"
    assert len(data["next"]) == 3
    assert data["next"][0]["scheduled_for"] == "2027-01-01T23:00:00Z"


@pytest.mark.parametrize("command", ["next", "explain"])
@pytest.mark.parametrize("arguments", [["0 22-2 * * *"], ["@daily", "--timezone", "Europe/Berln"]])
def test_what_cannot_be_read_is_an_error_with_a_suggestion(command, arguments):
    result = run(command, *arguments)
    assert isinstance(result.exception, CronError)
    assert result.exception.hint


@pytest.mark.parametrize(
    "arguments",
    [["@daily", "--after", "someday"], ["@daily", "--after", "0001-01-01"], ["@daily", "--count", "0"], []],
)
def test_what_cannot_be_used_ends_with_2(arguments):
    assert run("next", *arguments).exit_code == 2

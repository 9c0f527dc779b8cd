"""How `expectBy` and `expectWithin` are read."""

from __future__ import annotations

import pytest

from evertick.definitions.parser import parse_definition
from evertick.model.instant import MINUTE
from evertick.model.policy import Expectation
from evertick.operations.rules import explain
from evertick.settings import Settings

DAILY = "schedule: '0 6 * * *'\ntimezone: Europe/Berlin\ncommand: x\n"


def parse(text: str):
    return parse_definition(text, "jobs/a.yaml", Settings())


@pytest.mark.parametrize(
    ("line", "expected", "rule"),
    [
        pytest.param(
            'expectBy: "07:30"',
            Expectation(by="07:30", timezone="Europe/Berlin"),
            ("expectBy", "07:30 (Europe/Berlin)", "jobs/a.yaml:4"),
            id="a time of day",
        ),
        pytest.param(
            "expectBy: 7:30",
            Expectation(by="07:30", timezone="Europe/Berlin"),
            ("expectBy", "07:30 (Europe/Berlin)", "jobs/a.yaml:4"),
            id="without quotes, which is a number in other YAML",
        ),
        pytest.param(
            "expectWithin: 1h20m",
            Expectation(within_us=80 * MINUTE),
            ("expectWithin", "1h20m", "jobs/a.yaml:4"),
            id="a duration",
        ),
    ],
)
def test_a_deadline_is_read_and_explained(line, expected, rule):
    job = parse(f"{DAILY}{line}\n").job
    assert job.policy.expectation == expected
    assert rule in [(one.name, one.value, one.origin) for one in explain(job)]


def test_the_zone_is_that_of_the_schedules():
    job = parse("schedule: 'CRON_TZ=Asia/Tokyo 0 6 * * *'\ncommand: x\nexpectBy: '07:30'\n").job
    assert job.policy.expectation.timezone == "Asia/Tokyo"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param("expectBy: '24:00'", "'expectBy' cannot be '24:00'; it is a time of day.", id="no such hour"),
        pytest.param("expectBy: 6h", "'expectBy' cannot be '6h'; it is a time of day.", id="a duration"),
        pytest.param("expectBy: [1]", "'expectBy' must be a text", id="a list"),
        pytest.param("expectWithin: 0m", "0m", id="no time at all"),
        pytest.param(
            "expectBy: '07:30'\nexpectWithin: 20m",
            "'expectBy' on line 4 and 'expectWithin' on line 5 contradict each other",
            id="both",
        ),
    ],
)
def test_a_deadline_that_cannot_be_is_refused(line, said):
    parsed = parse(f"{DAILY}{line}\n")
    assert parsed.job is None
    assert any(said in error.reason for error in parsed.errors), parsed.errors


def test_a_deadline_without_a_schedule_is_a_warning():
    (warning,) = parse("command: x\nexpectWithin: 20m\n").warnings
    assert "'expectWithin' has no effect without a schedule" in warning.reason

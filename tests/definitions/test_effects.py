"""Whether every field of a definition changes its job: a field that is ignored in silence would mislead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from evertick.definitions.catalogue.job import JOB, PIPELINE
from evertick.definitions.parser import parse_definition
from evertick.definitions.schema import TABLES
from evertick.model.job import Job
from evertick.settings import Settings
from evertick.settings.calendars import CalendarSource

WEEKENDS, WORK_DAYS = CalendarSource(weekdays=(5, 6)), CalendarSource(weekdays=(0, 1, 2, 3, 4))
WITH_BATCH = Settings(queues=(("batch", 2),), calendars=(("weekends", WEEKENDS), ("work-days", WORK_DAYS)))
HOOK = "https://example.org/hook"
OTHER_HOOK = "https://example.org/other"
CONDITION = {"file_exists": "data.csv"}
CHANGE: Any = "~"
"""Where the table that is looked at stands in its definition."""


def parsed(fields: dict[str, Any]) -> Job:
    """The job that the fields define, without where they were written."""
    definition = parse_definition(json.dumps(fields), "jobs/a.yaml", WITH_BATCH)
    assert definition.job is not None, definition.errors
    return replace(definition.job, origins={}, definition="")


JOB_VALUES = {
    "steps": [{"name": "a", "command": "x"}],
    "kubernetes": {"image": "busybox"},
    "preconditions": CONDITION,
    "handlers": {"onExit": "x"},
    "overlapPolicy": "all",
    "calendar": {"skip": "weekends"},
    "window": {"maxDelayMinutes": 3},
    "retryPolicy": {"maxRetries": 2},
    "constraints": {"maxAllowedRunTime": "2h"},
    "notify": {"on_failure": {"webhook": HOOK}},
}
"""For fields whose table has no example of its own."""
JOB_BESIDE = {"overlapPolicy": {"catchupWindow": "6h"}, "scope": {"routing": "ROUND"}}
"""What a field speaks of must be there; without it the field is warned about."""


@pytest.mark.parametrize("name", [name for name in JOB if name not in PIPELINE])
def test_every_field_of_a_job_has_an_effect(name):
    base: dict[str, Any] = {"command": "y", "schedule": "@daily", **JOB_BESIDE.get(name, {})}
    kept = {key: value for key, value in base.items() if key != "command" or name not in ("steps", "kubernetes")}
    example = JOB_VALUES[name] if JOB[name].example is None else JOB[name].example
    assert parsed({**kept, name: example}) != parsed(base)


BLOCK_VALUES = {
    "window": {"maxDelayMinutes": 3},
    "retryPolicy": {"maxRetries": 2},
    "notify": {"on_failure": {"webhook": HOOK}},
    "condition": CONDITION,
    "missedExecution": "run",
    "enabled": False,
}


class Place(NamedTuple):
    """Where an inner table stands, and what each of its fields is given."""

    around: dict[str, Any]
    """The job, with `CHANGE` where the table stands."""
    minimum: dict[str, Any]
    """The table with nothing but what it must have."""
    values: Mapping[str, Any] = MappingProxyType({})
    """For fields whose table has no example of its own."""
    beside: Mapping[str, dict[str, Any]] = MappingProxyType({})
    """The minimum for a field that goes with another one."""
    rivals: tuple[frozenset[str], ...] = ()
    """Fields of which a table has one at most."""


KINDS = frozenset({"command", "script", "python", "http", "job", "kubernetes", "docker", "ssh"})
KIND_BESIDE: dict[str, dict[str, Any]] = {
    "command": {"script": "x"},
    "shell": {"script": "x"},
    "interpreter": {"script": "x"},
    "with": {"python": "etl:load"},
    "params": {"job": "other"},
    "wait": {"job": "other"},
}
KIND_VALUES: dict[str, Any] = {
    "kubernetes": {"image": "busybox"},
    "docker": {"image": "busybox"},
    "ssh": {"host": "db1", "command": "true"},
    "shell": "/bin/bash",
    "interpreter": "python3",
    "with": {"day": 3},
    "params": {"DAY": "3"},
    "retryPolicy": {"maxRetries": 2},
}
TIMES = frozenset({"cron", "every", "at"})
ACTIONS = {"onViolation": {"startJob": "other"}}
POD = {"image": "busybox"}


def step(**fields: Any) -> dict[str, Any]:
    """A job of one step."""
    return {"steps": [{"name": "a", **fields}]}


def command(**fields: Any) -> dict[str, Any]:
    return {"command": "x", **fields}


PLACES = {
    "step": Place(
        {"steps": [{"name": "b", "command": "x"}, CHANGE]},
        {"name": "a", "command": "y"},
        {
            **KIND_VALUES,
            "depends": "b",
            "each": ["eu", "us"],
            "matrix": {"size": ["s", "l"]},
            "repeat": {"interval": "10s", "limit": 3},
            "continueOn": {"failure": True},
            "continueOnFailure": True,
            "preconditions": CONDITION,
        },
        {name: {"name": "a", **fields} for name, fields in KIND_BESIDE.items()},
        (KINDS,),
    ),
    "handler": Place(command(onExit=CHANGE), {"command": "y"}, KIND_VALUES, KIND_BESIDE, (KINDS,)),
    "handlers": Place(command(handlers=CHANGE), {}),
    "schedule": Place(command(schedule=CHANGE), {"cron": "@daily"}, BLOCK_VALUES, rivals=(TIMES,)),
    "startStop": Place(command(schedule=CHANGE), {"start": "@daily"}),
    "scheduleEntry": Place(command(schedule=[CHANGE]), {"cron": "@daily"}, rivals=(TIMES,)),
    "window": Place(command(schedule="@daily", window=CHANGE), {"maxDelayMinutes": 5}),
    "calendar": Place(
        command(schedule="0 9 * * *", calendar=CHANGE),
        {"skip": "weekends"},
        {"skip": "work-days", "only": "work-days", "shift": "next"},
    ),
    "retryPolicy": Place(
        command(retryPolicy=CHANGE),
        {"maxRetries": 1},
        {"jitter": 0.5, "retryDelayMs": 1_000},
        rivals=(frozenset({"maxRetries", "limit"}),),
    ),
    "http": Place(
        step(http=CHANGE),
        {"url": HOOK},
        {"url": OTHER_HOOK, "headers": {"X-Day": "3"}, "body": {"day": 3}, "expect": 204},
    ),
    "kubernetes": Place(step(kubernetes=CHANGE), POD, {"resources": {"limits": {"memory": "1Gi"}}}),
    "docker": Place(step(docker=CHANGE), {"image": "busybox"}),
    "registry": Place(
        step(docker={"image": "busybox", "registry": CHANGE}), {"username": "other", "password": {"file": "token"}}
    ),
    "ssh": Place(step(ssh=CHANGE), {"host": "db2", "command": "true"}),
    "sshPlace": Place(command(ssh=CHANGE), {"host": "db2"}),
    "clusterResources": Place(step(kubernetes={**POD, "resources": CHANGE}), {}),
    "clusterSecret": Place(
        step(kubernetes={**POD, "secrets": {"PASSWORD": CHANGE}}),
        {"name": "database", "key": "password"},
        {"name": "archive", "key": "word"},
    ),
    "each": Place(
        {"steps": [{"name": "list", "command": "x", "output": "L"}, {"name": "a", "command": "x", "each": CHANGE}]},
        {"values": ["eu"]},
        {"from": "list", "values": ["us"], "matrix": {"size": ["s", "l"]}},
        rivals=(frozenset({"values", "from", "matrix"}),),
    ),
    "repeat": Place(
        step(command="x", repeat=CHANGE),
        {"interval": "1s", "limit": 2},
        {"until": CONDITION},
        rivals=(frozenset({"interval", "every"}),),
    ),
    "continueOn": Place(
        step(command="x", continueOn=CHANGE), {"exitCodes": [7]}, {"skipped": True, "markSuccess": True}
    ),
    "sandbox": Place(command(sandbox=CHANGE), {"kind": "systemd-run"}),
    "param": Place(
        command(params={"DAY": CHANGE}),
        {"default": "7"},
        {
            "enum": ["3", "7"],
            "pattern": "[0-9]",
            "minimum": 1,
            "maximum": 9,
            "description": "Which day.",
        },
        {
            "minimum": {"type": "integer", "default": 7},
            "maximum": {"type": "integer", "default": 7},
        },
    ),
    "secret": Place(
        command(env={"A": CHANGE}),
        {"env": "KEY"},
        {"env": "TOKEN", "file": "/run/token"},
        rivals=(frozenset({"env", "file"}),),
    ),
    "condition": Place(
        command(condition=CHANGE),
        {"command": "date"},
        {"http": HOOK, "expected": "re:.*"},
        rivals=(frozenset({"file_exists", "command", "http"}),),
    ),
    "after": Place(command(after=CHANGE), {"jobs": ["one", "two"]}, {"jobs": "three"}),
    "notify": Place(command(notify=CHANGE), {}, dict.fromkeys(TABLES["notify"].fields, HOOK)),
    "channel": Place(command(notify={"on_late": CHANGE}), {"smtp": "a@example.org"}, {"webhook": HOOK, "slack": HOOK}),
    "webhook": Place(
        command(notify={"on_late": {"webhook": CHANGE}}),
        {"url": OTHER_HOOK},
        {"url": HOOK, "headers": {"X-Day": "3"}, "env": "ADDRESS", "file": "/run/address"},
        rivals=(frozenset({"url", "env", "file"}),),
    ),
    "constraints": Place(command(constraints=CHANGE), {}, {"preRunHook": HOOK, "postRunHook": HOOK}),
    "runsLimit": Place(command(constraints={"maxConcurrentRuns": CHANGE}), {"value": 2}, {"value": 3, **ACTIONS}),
    "timeLimit": Place(
        command(constraints={"maxExpectedRunTime": CHANGE}), {"value": "2h"}, {"value": "3h", **ACTIONS}
    ),
    "hook": Place(command(constraints={"preRunHook": CHANGE}), {"url": OTHER_HOOK}, {"url": HOOK, **ACTIONS}),
    "requiredJobs": Place(command(constraints={"requirePreviousSuccess": CHANGE}), {}, {"jobs": "other", **ACTIONS}),
    "action": Place(
        command(constraints={"maxExpectedRunTime": {"value": "2h", "onViolation": CHANGE}}),
        {"startJob": "one"},
        {"startJob": "other", "webhook": HOOK},
        rivals=(frozenset({"startJob", "webhook", "kill"}),),
    ),
}
"""Every inner table of a definition, by its name in the schema."""


def test_every_inner_table_is_looked_at():
    assert set(PLACES) == set(TABLES)


def filled(around: Any, table: dict[str, Any]) -> Any:
    """The definition with the table where it stands."""
    if around == CHANGE:
        return table
    if isinstance(around, dict):
        return {key: filled(value, table) for key, value in around.items()}
    return [filled(value, table) for value in around] if isinstance(around, list) else around


@pytest.mark.parametrize(
    ("table", "name"),
    [
        pytest.param(table, name, id=f"{table} {name}")
        for table in PLACES
        for name in TABLES[table].fields
        if (table, name) != ("param", "required")
    ],
)
def test_every_field_of_an_inner_table_has_an_effect(table, name):
    place = PLACES[table]
    example = TABLES[table].fields[name].example
    base = place.beside.get(name, place.minimum)
    replaced = {rival for rivals in place.rivals if name in rivals for rival in rivals}
    kept = {key: value for key, value in base.items() if key not in replaced}
    changed = {**kept, name: place.values.get(name, example)}
    assert parsed(filled(place.around, changed)) != parsed(filled(place.around, base))


@pytest.mark.parametrize("param", [{"required": False}, {"required": True, "default": "7"}])
def test_whether_a_parameter_is_required_must_agree_with_its_default(param):
    # It repeats what the default says: its effect is the error where the two differ.
    (error,) = parse_definition(json.dumps(command(params={"DAY": param})), "jobs/a.yaml").errors
    assert "required" in error.reason or error.field == "params.DAY.required"

"""Whether the schema for editors accepts what the parser accepts, and has the same fields."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from evertick.cli.app import evertick
from evertick.definitions.catalogue.job import JOB, PIPELINE
from evertick.definitions.nodes import plain_data
from evertick.definitions.parser import parse_definition
from evertick.definitions.schema import TABLES, job_schema
from evertick.definitions.yaml import read_yaml
from evertick.settings import Settings
from tests.definitions.mini_schema import misfits, references

ROOT = Path(__file__).parents[2]
SCHEMA = job_schema()
EXAMPLES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").rglob("*.yaml"))
PAGES = [
    (page, number, text)
    for page in ("README.md", "docs/definitions.md")
    for number, text in enumerate(
        re.findall(r"^```yaml\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    )
]


def fits(text: str) -> list[str]:
    document = read_yaml(text)
    assert document.problems == ()
    assert document.root is not None
    return list(misfits(plain_data(document.root), SCHEMA, SCHEMA))


@pytest.mark.parametrize("path", EXAMPLES)
def test_every_example_fits(path):
    assert fits((ROOT / path).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(("page", "number", "text"), PAGES, ids=[f"{page} {number}" for page, number, _text in PAGES])
def test_every_job_on_the_pages_fits(page, number, text):
    assert fits(text) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("comand: x\n", id="an unknown field"),
        pytest.param("command: x\ncatchupWindow: 6\n", id="a duration without a unit"),
        pytest.param("command: x\noverlap: parallel\n", id="parallel without a number"),
        pytest.param("command: x\nenabled: yes\n", id="yes"),
        pytest.param("steps: []\n", id="no steps"),
        pytest.param("steps: [{command: x}]\n", id="a step without a name"),
        pytest.param("command: x\nafter: {mode: any}\n", id="after no job"),
        pytest.param("command: x\nconstraints: {maxConcurrentRuns: 0}\n", id="no run at once"),
        pytest.param("command: x\nnotify: {on_failure: {pager: x}}\n", id="an unknown channel"),
    ],
)
def test_the_schema_rejects_what_the_parser_refuses(text):
    assert parse_definition(text, "jobs/a.yaml").errors
    assert fits(text) != []


def test_every_reference_has_its_table_and_every_table_is_referred_to():
    named = {reference.removeprefix("#/$defs/") for reference in references(SCHEMA)}
    assert named == set(TABLES) == set(SCHEMA["$defs"])


def test_every_field_says_what_it_is_for():
    tables = {"job": JOB, **{name: table.fields for name, table in TABLES.items()}}
    bad = [
        f"{name}.{field}"
        for name, fields in tables.items()
        for field in fields
        if not fields[field].about.endswith(".")
    ]
    assert bad == []


WITH_BATCH = Settings(queues=(("batch", 2),))
EXAMPLE_FIELDS = [(name, field.example) for name, field in JOB.items() if field.example is not None]


@pytest.mark.parametrize(("name", "example"), EXAMPLE_FIELDS, ids=[name for name, _example in EXAMPLE_FIELDS])
def test_the_example_of_a_field_is_accepted(name, example):
    fields = {name: example} if name in {"command", "steps"} else {"command": "x", name: example}
    if name in {"overlapPolicy"}:
        fields["catchupWindow"] = "6h"
    if name == "jitter":
        fields["schedule"] = "@daily"
    assert parse_definition(json.dumps(fields), "jobs/a.yaml", WITH_BATCH).errors == ()
    assert list(misfits(fields, SCHEMA, SCHEMA)) == []


@pytest.mark.parametrize("name", [name for name in JOB if name not in PIPELINE])
def test_every_field_of_the_table_is_read(name):
    # An empty value is an error of every field that is read, and never an unknown field.
    (error, *_others) = [
        error for error in parse_definition(f"{name}: \n", "jobs/a.yaml").errors if error.field == name
    ]
    assert "has no value" in error.reason


@pytest.mark.parametrize(
    ("table", "text"),
    [
        pytest.param("step", "steps:\n  - {NAME: }\n", id="step"),
        pytest.param("schedule", "schedule: {NAME: }\n", id="schedule"),
        pytest.param("scheduleEntry", "schedule:\n  - {NAME: }\n", id="scheduleEntry"),
        pytest.param("startStop", "schedule: {NAME: }\n", id="startStop"),
        pytest.param("window", "window: {NAME: }\n", id="window"),
        pytest.param("retryPolicy", "retryPolicy: {NAME: }\n", id="retryPolicy"),
        pytest.param("http", "steps:\n  - {name: a, http: {NAME: }}\n", id="http"),
        pytest.param("repeat", "steps:\n  - {name: a, repeat: {NAME: }}\n", id="repeat"),
        pytest.param("continueOn", "steps:\n  - {name: a, continueOn: {NAME: }}\n", id="continueOn"),
        pytest.param("handlers", "handlers: {NAME: }\n", id="handlers"),
        pytest.param("handler", "onExit: {NAME: }\n", id="handler"),
        pytest.param("param", "params: {A: {NAME: }}\n", id="param"),
        pytest.param("secret", "env: {A: {NAME: }}\n", id="secret"),
        pytest.param("condition", "condition: {NAME: }\n", id="condition"),
        pytest.param("after", "after: {NAME: }\n", id="after"),
        pytest.param("notify", "notify: {NAME: }\n", id="notify"),
        pytest.param("channel", "notify: {on_late: {NAME: }}\n", id="channel"),
        pytest.param("constraints", "constraints: {NAME: }\n", id="constraints"),
        pytest.param("runsLimit", "constraints: {maxConcurrentRuns: {NAME: }}\n", id="runsLimit"),
        pytest.param("timeLimit", "constraints: {maxAllowedRunTime: {NAME: }}\n", id="timeLimit"),
        pytest.param("hook", "constraints: {preRunHook: {NAME: }}\n", id="hook"),
        pytest.param("requiredJobs", "constraints: {requirePreviousSuccess: {NAME: }}\n", id="requiredJobs"),
        pytest.param("action", "constraints: {requirePreviousSuccess: {onViolation: {NAME: }}}\n", id="action"),
    ],
)
def test_every_field_of_an_inner_table_is_read(table, text):
    for name in TABLES[table].fields:
        errors = parse_definition(text.replace("NAME", name), "jobs/a.yaml").errors
        assert errors
        assert [error.reason for error in errors if "unknown field" in error.reason] == []


def test_the_command_prints_it():
    result = CliRunner().invoke(evertick, ["schema"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == SCHEMA
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_synonym_is_in_the_table_of_the_migration_pages():
    page = (ROOT / "docs" / "migrating" / "synonyms.md").read_text(encoding="utf-8")
    tables = [JOB, *(table.fields for table in TABLES.values())]
    synonyms = {name for fields in tables for name, field in fields.items() if field.is_synonym}
    assert {"misfire", "overlapPolicy", "blockStrategy", "missedExecution"} < synonyms
    assert [name for name in sorted(synonyms) if not re.search(rf"\b{name}\b", page)] == []

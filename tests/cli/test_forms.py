"""Whether every command gives its result in every form, alone on stdout, and the same in each."""

from __future__ import annotations

import csv
import io
import json

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from evertick.cli.app import COMMANDS, evertick
from evertick.cli.output import FORMS, csv_text, yaml_text
from tests.cli.invoke import code_of, failed_run, run, strictly, through_jq

WINDOW = ["--from", "2027-01-15T05:00", "--to", "2027-01-15T08:00"]
CASES = [
    pytest.param(["list"], "etl", id="list"),
    pytest.param(["list", "--status", "paused"], None, id="a list of nothing"),
    pytest.param(["status", "etl"], "etl", id="status"),
    pytest.param(["history"], "etl@2027-01-15T07:00:00Z", id="history"),
    pytest.param(["why", "etl", "2027-01-15T06:00"], "etl@2027-01-15T06:00:00Z", id="why"),
    pytest.param(["explain", "etl"], "enabled", id="explain"),
    pytest.param(["catchup", "etl", "--dry-run"], "2027-01-15T07:00:00Z", id="catchup"),
    pytest.param(["backfill", "etl", *WINDOW, "--dry-run"], "2027-01-15T05:00:00Z", id="a dry backfill"),
    pytest.param(["trigger", "etl"], "cli-", id="trigger"),
    pytest.param(["retry", failed_run()], "cli-", id="retry"),
    pytest.param(["pause", "etl"], "etl", id="pause"),
    pytest.param(["resume", "etl"], "etl", id="resume"),
    pytest.param(["cancel", "etl"], "cli-", id="cancel"),
]
FREE = [
    pytest.param(
        ["cron", "next", "@daily", "-n", "2", "--after", "2027-01-01"], "2027-01-02T00:00:00Z", id="cron next"
    ),
    pytest.param(["cron", "explain", "@daily"], "@daily", id="cron explain"),
    pytest.param(["schema"], "name", id="schema"),
]
STREAMS = {"completion", "fleet join", "fleet start", "scheduler start", "serve"}
"""What they print is no data: a script for a shell, or what happens while it happens."""


def leaves(group: click.Group, path: str = ""):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


@pytest.mark.parametrize(("name", "command"), [pytest.param(*leaf, id=leaf[0]) for leaf in leaves(evertick)])
def test_every_command_takes_every_form(name, command):
    options = {option for parameter in command.params for option in parameter.opts}
    if name in STREAMS:
        assert "-o" not in options
        return
    (output,) = [parameter for parameter in command.params if "-o" in parameter.opts]
    assert tuple(output.type.choices) == FORMS


@pytest.mark.parametrize(("arguments", "name"), CASES)
def test_a_result_is_the_same_in_every_form(folder, arguments, name):
    shown = {form: run(*arguments, "--folder", folder, "-o", form) for form in FORMS}
    check(shown, name)


@pytest.mark.parametrize(("arguments", "name"), FREE)
def test_a_result_without_a_ledger_is_the_same_in_every_form(arguments, name):
    check({form: run(*arguments, "-o", form) for form in FORMS}, name)


def check(shown, name) -> None:
    assert {code_of(result) for result in shown.values()} == {0}
    text = {form: result.stdout for form, result in shown.items()}
    data = strictly(text["json"])
    assert through_jq(text["json"]) == data
    assert comparable(yaml.safe_load(text["yaml"])) == comparable(data)
    rows = list(csv.DictReader(io.StringIO(text["csv"])))
    names = text["name"].splitlines()
    assert len(rows) == len(names) or len(rows) == 1
    assert "\x1b" not in "".join(text.values())
    if name is None:
        assert (rows, names) == ([], [])
    else:
        assert names[0].startswith(name)
        assert text["table"]


def comparable(data):
    """Without what differs from call to call: the id of the request that it makes, and the time until a start."""
    if isinstance(data, list):
        return [comparable(one) for one in data]
    if not isinstance(data, dict):
        return data
    return {name: comparable(value) for name, value in data.items() if name not in ("request", "wait_seconds")}


plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
documents = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(documents)
def test_yaml_equals_json(data):
    text = yaml_text(data)
    assert text.isascii()
    assert yaml.safe_load(text) == strictly(json.dumps(data))


@given(st.lists(st.fixed_dictionaries({"a": st.text(), "b": plain})))
def test_csv_can_be_read_back(rows):
    read = list(csv.DictReader(io.StringIO(csv_text(rows), newline="")))
    # What a spreadsheet would carry out stands behind an apostrophe.
    assert [row["a"] for row in read] == [
        f"'{row['a']}" if row["a"].startswith(("=", "+", "-", "@", "\t", "\r")) else row["a"] for row in rows
    ]


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        pytest.param([], "", id="nothing is no line"),
        pytest.param([{"a": None, "b": True}], "a,b\n,true\n", id="nothing is empty, a truth is as in JSON"),
        pytest.param([{"a": [1, "x"]}, {"b": 'q"'}], 'a,b\n"[1, ""x""]",\n,"q"""\n', id="what is not plain is JSON"),
    ],
)
def test_csv_cells(rows, text):
    assert csv_text(rows) == text


def test_every_command_of_the_table_is_there():
    assert {name.split()[0] for name, _ in leaves(evertick)} == set(COMMANDS)

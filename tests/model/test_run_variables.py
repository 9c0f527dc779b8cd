"""Do the variables of a run share no name with a setting?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from evertick.executors.keeper.environment import ALLOWED, marks_of_attempt, run_variables, step_variables
from evertick.executors.protocol import LaunchMessage
from evertick.model import run_variables as variables
from evertick.model.run import RunKey
from evertick.settings.catalogue import catalogue
from evertick.settings.load import CONFIG

ROOT = Path(__file__).parent.parent.parent
SETTINGS = {setting.variable for setting in catalogue().values()} | {CONFIG}
TEXTS = [
    path
    for folder in ("docs", "examples", "deploy", "tests", "bench", "src/evertick/cli")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".md", ".yaml", ".py", ".toml", ".service"} and "__pycache__" not in path.parts
]


def test_no_name_is_both_a_setting_and_a_variable_of_a_run():
    assert not SETTINGS & variables.RUN_VARIABLES.keys()


def test_no_setting_is_in_the_family_and_nothing_of_a_run_is_outside_of_it():
    assert not [name for name in SETTINGS if name.startswith(variables.FAMILY)]
    assert not [name for name in variables.RUN_VARIABLES if not name.startswith(variables.FAMILY)]
    assert not [name for name in SETTINGS if any(known.startswith(f"{name}_") for known in variables.RUN_VARIABLES)]


def test_a_run_finds_what_the_catalogue_lists_and_nothing_else():
    order = LaunchMessage(RunKey("report", 0), 2, 7, "manual", '{"a": 1}', 5, "")
    told = {**run_variables(order, "report@x#1/3", "mark", "/state"), **step_variables("r", 1, "main")}
    found = {name for name in told if name != "TRACEPARENT"}
    assert found <= variables.RUN_VARIABLES.keys()
    assert not {name for name in ALLOWED if name in SETTINGS}


def test_a_container_receives_nothing_of_this_machine():
    told = run_variables(LaunchMessage(RunKey("report", 0), 1, 1, "manual", "", None, ""), "report@x")
    assert not {variables.KEEPER, variables.HOME} & told.keys()


def test_processes_from_before_the_upgrade_are_known_by_their_old_marks():
    old = [b"EVERTICK_RUN_ID=report@x", b"EVERTICK_ATTEMPT=2", b"EVERTICK_KEEPER=mark", b"EVERTICK_JOB=report"]
    assert marks_of_attempt("report@x", 2, "mark") <= {variables.as_written_now(one) for one in old}


@pytest.mark.parametrize(
    "name", ["JOB", "STEP", "ATTEMPT", "SCHEDULED_FOR", "TRIGGER", "PARAMS", "FENCE", "SHARD_INDEX"]
)
def test_no_page_example_or_test_uses_a_name_of_before(name):
    old = re.compile(rf"\$\{{?EVERTICK_{name}\b")
    assert not [path.relative_to(ROOT).as_posix() for path in TEXTS if old.search(path.read_text(encoding="utf-8"))]

"""How commands show the steps of a run."""

from __future__ import annotations

import json

import pytest

from evertick.cli.step_tree import tree_of, with_items
from tests.cli.invoke import code_of, failed_run, make_folder, run


def drawn(**depends):
    return [f"{line.prefix}{line.name}" for line in tree_of(list(depends), depends)]


def test_steps_without_dependencies_are_roots():
    assert drawn(a=[], b=[]) == ["a", "b"]


def test_a_step_is_below_the_one_it_depends_on():
    assert drawn(build=[], test=["build"], lint=["build"], ship=["test"]) == [
        "build",
        "├─ test",
        "│  └─ ship",
        "└─ lint",
    ]


def test_the_last_of_several_dependencies_is_the_parent_and_the_others_are_named():
    lines = tree_of(["a", "b", "c"], {"a": [], "b": [], "c": ["a", "b"]})
    assert [(line.prefix, line.name, line.also) for line in lines] == [
        ("", "a", ()),
        ("", "b", ()),
        ("└─ ", "c", ("a",)),
    ]


def test_items_are_below_their_step_in_their_order_and_before_what_depends_on_it():
    items = [("list", None), ("all[10]", "all"), ("all[9]", "all"), ("all", None)]
    depends = with_items({"list": (), "all": ("list",), "show": ("all",)}, items)
    assert [f"{line.prefix}{line.name}" for line in tree_of(list(depends), depends)] == [
        "list",
        "└─ all",
        "   ├─ all[9]",
        "   ├─ all[10]",
        "   └─ show",
    ]


@pytest.mark.parametrize(
    "depends",
    [
        pytest.param({"a": ["b"], "b": ["a"]}, id="a circle"),
        pytest.param({"a": ["a"]}, id="a step that depends on itself"),
        pytest.param({"a": ["gone"]}, id="a dependency that is not there"),
    ],
)
def test_every_step_is_drawn_once_whatever_the_dependencies(depends):
    assert sorted(line.name for line in tree_of(list(depends), depends)) == sorted(depends)


def test_status_of_a_run_shows_steps_that_have_not_started(tmp_path):
    make_folder(tmp_path)
    shown = run("status", failed_run(), "--folder", tmp_path).output
    assert "state      failed" in shown
    assert "exit code  3" in shown
    assert "main  -" in shown


def test_explain_says_which_steps_run_for_many_values(tmp_path):
    (tmp_path / "many.yaml").write_text(
        "steps:\n  - {name: list, command: ls, output: L}\n  - {name: all, command: x, each: {from: list}}\n"
        "  - {name: grid, command: x, matrix: {a: [1, 2], b: [1, 2]}}\n  - {name: one, command: x, each: [a]}\n"
    )
    rules = json.loads(run("explain", "many", "--folder", tmp_path, "-o", "json").output)
    assert "list, all (for each value of list), grid (for 4 values), one (for 1 value)" in json.dumps(rules)


def test_status_takes_a_unique_beginning_of_a_run_id(tmp_path):
    make_folder(tmp_path)
    found = json.loads(run("status", failed_run()[:-6], "--folder", tmp_path, "-o", "json").stdout)
    assert found["run"] == failed_run()


def test_history_shows_the_steps_of_each_run(tmp_path):
    make_folder(tmp_path)
    result = run("history", "etl", "--steps", "--folder", tmp_path, "-o", "json")
    assert code_of(result) == 0
    assert all("steps" in item and "depends" in item for item in json.loads(result.stdout)["items"])
    assert "Steps" in run("history", "etl", "--steps", "--folder", tmp_path).output


def test_a_catch_up_of_all_jobs_can_only_be_previewed(tmp_path):
    make_folder(tmp_path)
    assert code_of(run("catchup", "--folder", tmp_path)) == 2
    result = run("catchup", "--dry-run", "--folder", tmp_path)
    assert code_of(result) == 0
    assert "None of 1 scheduled job has missed an occurrence." in result.output

"""Which items a filter lets pass."""

from __future__ import annotations

import pytest

from evertick.kinds.pipeline.filter import passes
from evertick.kinds.pipeline.filter_definition import read_filter
from evertick.kinds.pipeline.invoker import Answer
from evertick.kinds.pipeline.run import run_pipeline
from tests.kinds.pipeline.scripted import Scripted, hang, pipeline, run
from tests.present import present

ITEM = {"n": 5, "text": "Login Fails", "csv": "5", "on": True, "owner": {"team": "core"}, "none": None, "a.b": "dot"}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        pytest.param("n equals 5", True, id="a number equals itself"),
        pytest.param("n equals '5'", False, id="a number is not its text"),
        pytest.param("csv equals 5", False, id="a text of a CSV file is not a number"),
        pytest.param("on equals 1", False, id="true is not one"),
        pytest.param("csv not_equals 5", True, id="and so it differs"),
        pytest.param("missing equals 5", False, id="a missing field equals nothing"),
        pytest.param("missing not_equals 5", False, id="nor does it differ"),
        pytest.param("missing not_in [5]", False, id="nor is it outside"),
        pytest.param("none not_contains x", False, id="null is missing too"),
        pytest.param("n in [4, 5]", True, id="in"),
        pytest.param("csv in [4, 5]", False, id="in is strict as well"),
        pytest.param("csv not_in [4, 5]", True, id="not_in"),
        pytest.param("text contains FAIL", True, id="contains knows no case"),
        pytest.param("text not_contains fail", False, id="not_contains neither"),
        pytest.param("csv greater_than 4", True, id="a text is compared as a number"),
        pytest.param("csv less_than 5", False, id="less than"),
        pytest.param("csv gte 5", True, id="at least"),
        pytest.param("csv lte 4.5", False, id="at most"),
        pytest.param("text greater_than 1", False, id="what is no number is not greater"),
        pytest.param("text less_than 1", False, id="and not less"),
        pytest.param("text matches ^Log.*s$", True, id="matches"),
        pytest.param("text matches ^log", False, id="matches knows case"),
        pytest.param("owner.team equals core", True, id="a way into nested fields"),
        pytest.param("owner.team.x equals core", False, id="that ends too early"),
        pytest.param("a.b equals dot", True, id="a dot in a name"),
    ],
)
def test_a_rule(rule, holds):
    import yaml

    field, operator, value = rule.split(" ", 2)
    key = {"in": "values", "not_in": "values", "matches": "pattern"}.get(operator, "value")
    data = {
        "filter": {
            "type": "rule",
            "rules": [
                {"field": field, "operator": operator, key: yaml.safe_load(value) if operator != "matches" else value}
            ],
        }
    }
    assert passes(ITEM, present(present(read_filter(data)).rule)) is holds


@pytest.mark.parametrize(
    ("mode", "kept"), [pytest.param("all", ["c"], id="all"), pytest.param("any", ["a", "b", "c"], id="any")]
)
def test_rules_hold_all_together_or_any_of_them(mode, kept):
    items = [
        {"endpoint": "a", "n": 1, "up": True},
        {"endpoint": "b", "n": 9},
        {"endpoint": "c", "n": 9, "up": True},
        {"endpoint": "d"},
    ]
    rules = [{"field": "n", "operator": "gte", "value": 5}, {"field": "up", "operator": "equals", "value": True}]
    result = run(pipeline(items, filter={"type": "rule", "rule": {"rules": rules, "mode": mode}}))
    assert [one.item["endpoint"] for one in present(result.output).results] == kept
    assert (present(result.filtered).included, present(result.filtered).excluded) == (len(kept), 4 - len(kept))


def kept_by(filter_, answer, items="abc"):
    data = pipeline([{"endpoint": name} for name in items], filter=filter_)
    asked = []

    def invoke(prompt):
        if prompt.startswith("Keep"):
            asked.append(prompt.removeprefix("Keep "))
            return answer(prompt.removeprefix("Keep "))
        return '{"status": 1}'

    result = run_pipeline(data, ".", Scripted(invoke))
    return [one.item["endpoint"] for one in result.output.results] if result.output else [], sorted(asked), result


ASK = {"prompt": "Keep {{endpoint}}"}


@pytest.mark.parametrize("word", ["yes", "It is TRUE.", "include it", "Pass"])
def test_an_affirmative_answer_keeps_an_item(word):
    assert kept_by({"type": "ai", "ai": ASK}, lambda name: word if name == "b" else "nope, bypassed")[0] == ["b"]


def test_with_fields_a_boolean_decides_and_all_else_is_an_error():
    answers = {"a": '{"include": true}', "b": '{"include": false}', "c": '{"include": "yes"}', "d": "yes"}
    kept, _, result = kept_by({"type": "ai", "ai": {**ASK, "output": ["include"]}}, answers.get, "abcd")
    assert kept == ["a"]
    assert len(result.filtered.errors) == 2
    assert result.failure.startswith("2 of 3 items failed")


RULE = {"rules": [{"field": "endpoint", "operator": "in", "values": ["a", "b"]}]}


def test_and_asks_only_about_those_that_the_rules_keep():
    kept, asked, _ = kept_by({"type": "hybrid", "rule": RULE, "ai": ASK}, lambda name: "yes" if name == "b" else "no")
    assert (kept, asked) == (["b"], ["a", "b"])


def test_or_asks_only_about_those_that_the_rules_drop_and_keeps_the_order():
    filter_ = {
        "type": "hybrid",
        "rule": {"rules": [{"field": "endpoint", "operator": "equals", "value": "b"}]},
        "ai": ASK,
        "combineMode": "or",
    }
    kept, asked, _ = kept_by(filter_, lambda name: "yes" if name == "a" else "no")
    assert (kept, asked) == (["a", "b"], ["a", "c"])


def test_a_filter_that_is_not_answered_in_time_is_asked_once_and_drops_the_item():
    calls = []

    def invoke(call):
        calls.append(call)
        return hang(call)

    data = pipeline([{"endpoint": "a"}], filter={"type": "ai", "ai": {**ASK, "timeoutMs": 20}})
    result = run_pipeline(data, ".", invoke)
    assert len(calls) == 1
    assert (result.output, present(result.filtered).errors) == (None, ("filter: timed out after 20 ms",))
    assert result.failure == "1 of 1 items failed. First error: filter: timed out after 20 ms"


def test_a_filter_that_drops_everything_does_not_fail():
    kept, _, result = kept_by({"type": "ai", "ai": ASK}, lambda _: Answer(True, "no"))
    assert (kept, result.failure) == ([], None)

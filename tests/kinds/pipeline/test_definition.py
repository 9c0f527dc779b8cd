"""What a pipeline file may contain, and the error of each fault in it."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.errors import DefinitionError
from evertick.kinds.pipeline.definition import CsvFile, read_definition
from tests.kinds.pipeline.scripted import pipeline
from tests.present import present

NO = object()


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        pytest.param({"name": " "}, "'name' must be a non-empty text", id="an empty name"),
        pytest.param({"input": None}, "'input' is missing", id="no input"),
        pytest.param({"map": None}, "'map' is missing", id="no map"),
        pytest.param({"reduce": None}, "'reduce' is missing", id="no reduce"),
        pytest.param({"map": "x"}, "'map' must be a map", id="a map that is a text"),
        pytest.param({"input": {}}, "'input' has no source of items", id="an input without items"),
        pytest.param({"input__from": [{}]}, "has items and from", id="items twice"),
        pytest.param({"input": {"items": "a"}}, "must be a list of maps", id="items that are a text"),
        pytest.param({"input": {"items": [{}, 5]}}, "a int as item 2", id="an item that is a number"),
        pytest.param({"input": {"from": "x.csv"}}, "'input.from' must be a map", id="a bare file name"),
        pytest.param({"input": {"from": {"type": "json", "path": "x"}}}, "Only csv", id="another kind of file"),
        pytest.param({"input": {"from": {"type": "csv"}}}, "has no path", id="no path"),
        pytest.param(
            {"input": {"from": {"type": "csv", "path": "x", "delimiter": ";;"}}}, "one character", id="a long delimiter"
        ),
        pytest.param({"input__limit": -1}, "'input.limit' is -1", id="a negative limit"),
        pytest.param({"input__limit": True}, "'input.limit' is True", id="a limit that is true"),
        pytest.param({"input__parameters": [{"value": 1}]}, "no name in entry 1", id="a parameter without a name"),
        pytest.param({"input__parameters": [{"name": "a"}]}, "gives 'a' no value", id="a parameter without a value"),
        pytest.param({"input": {"generate": {"prompt": "x", "schema": ["a"]}}}, "autoApprove", id="items to approve"),
        pytest.param(
            {"input": {"generate": {"prompt": "x", "schema": ["a b"], "autoApprove": True}}}, "'a b'", id="a bad field"
        ),
        pytest.param({"map__prompt": None}, "'map' has no prompt", id="no prompt"),
        pytest.param({"map__promptFile": "x"}, "both prompt and promptFile", id="two prompts"),
        pytest.param({"map__prompt": 5}, "must be a text", id="a prompt that is a number"),
        pytest.param({"map__skill": "../x"}, "not a valid skill name", id="a skill that leads elsewhere"),
        pytest.param({"map__output": "status"}, "must be a list", id="fields that are a text"),
        pytest.param({"map__output": ["a", "A"]}, "a field twice", id="a field twice"),
        pytest.param({"map__output": [5]}, "5, which is not a name", id="a field that is a number"),
        pytest.param({"map__parallel": 0}, "'map.parallel' is 0", id="nobody at once"),
        pytest.param({"map__parallel": 101}, "from 1 to 100", id="too many at once"),
        pytest.param({"map__timeoutMs": 0}, "'map.timeoutMs' is 0", id="no time"),
        pytest.param({"map__batchSize": 1.5}, "'map.batchSize' is 1.5", id="half an item"),
        pytest.param({"reduce": {}}, "'reduce.type' is None", id="no type"),
        pytest.param({"reduce": {"type": "ai"}}, "'reduce' has no prompt", id="an AI reduce without a prompt"),
        pytest.param({"job": {"prompt": "x"}}, "'job' cannot be combined with 'input'", id="a job beside a map"),
        pytest.param({"failWhen": "many"}, "'failWhen' is 'many'", id="a threshold that is a word"),
        pytest.param({"failWhen": "101%"}, "'failWhen' is '101%'", id="more than all"),
        pytest.param({"failWhen": -1}, "'failWhen' is -1", id="less than none"),
        pytest.param({"filter": {"type": "x"}}, "'filter.type' is 'x'", id="a filter that is not known"),
        pytest.param({"filter": {"type": "rule", "rules": []}}, "has no rule", id="a filter without rules"),
        pytest.param({"filter": {"type": "rule", "rules": [5]}}, "must be a map", id="a rule that is a number"),
        pytest.param(
            {"filter": {"type": "rule", "rules": [{"field": "a", "operator": "is"}]}},
            "'is'",
            id="an operator that is not known",
        ),
        pytest.param(
            {"filter": {"type": "rule", "rules": [{"field": "a", "operator": "in", "value": 1}]}},
            "no values",
            id="the wrong key for an operator",
        ),
        pytest.param(
            {"filter": {"type": "rule", "rules": [{"field": "a", "operator": "matches", "pattern": "("}]}},
            "cannot be read",
            id="a bad pattern",
        ),
        pytest.param(
            {"filter": {"type": "ai", "prompt": "x", "output": ["a"]}},
            "'include'",
            id="an AI filter that cannot decide",
        ),
        pytest.param({"filter": {"type": "hybrid", "rule": {}}}, "'filter.ai' is missing", id="half a hybrid"),
    ],
)
def test_a_fault_is_named(parts, reason):
    with pytest.raises(DefinitionError) as caught:
        read_definition(pipeline(**parts))
    assert reason in str(caught.value)
    assert caught.value.field is not None


def test_the_defaults():
    definition = read_definition(pipeline(map={"prompt": "x"}))
    wanted = present(definition.map)
    assert (
        wanted.fields,
        wanted.parallel,
        wanted.timeout_ms,
        wanted.batch_size,
        wanted.model,
    ) == (
        (),
        5,
        600_000,
        1,
        None,
    )


def test_keys_that_are_not_a_pipelines_are_ignored():
    extra = {"schedule": {"cron": "x"}, "description": "y", "future": [1]}
    assert read_definition({**pipeline(), **extra}) == read_definition(pipeline())


def test_no_items_at_all_are_items():
    assert present(read_definition(pipeline([])).input).items == ()


def test_a_list_after_from_is_items_and_a_map_is_a_file():
    assert present(read_definition(pipeline(input={"from": [{"model": "a"}]})).input).items == ({"model": "a"},)
    source = {"from": {"type": "csv", "path": "x.csv", "delimiter": "\t"}}
    assert present(read_definition(pipeline(input=source)).input).csv == CsvFile("x.csv", "\t")


def test_read_only_data_is_data():
    frozen = MappingProxyType(
        {name: MappingProxyType(part) if isinstance(part, dict) else part for name, part in pipeline().items()}
    )
    assert read_definition(frozen) == read_definition(pipeline())


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["items", "from", "type", "prompt", "output", "rules", "field", "parameters", "name", "generate", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["name", "input", "map", "reduce", "filter", "job", "failWhen", "parameters"]), ANYTHING
    )
)
def test_whatever_is_written_is_read_or_refused_with_its_field(data):
    try:
        definition = read_definition(data)
    except DefinitionError as error:
        field = error.field
    else:
        field = "map" if definition.map is not None else "job" if definition.single is not None else None
    assert field

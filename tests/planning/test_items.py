"""Which items does a step with `each` have?"""

from __future__ import annotations

import pytest

from evertick.model.template import Expression, render_template
from evertick.model.work import NOTHING, Command, Each, Item, ItemValue, Step, Work
from evertick.model.work_json import from_plain, to_plain
from evertick.planning.items import (
    ITEM_MAX,
    ITEMS_MAX,
    ItemsError,
    digest_of_value,
    item_name,
    item_value_of,
    items_of,
    parse_list,
    step_of,
)

X = Command(("x",))


def texts(*values: str) -> tuple[ItemValue, ...]:
    return tuple(map(ItemValue, values))


def day(expression: Expression) -> str:
    assert expression.name == "date"
    return "2026-03-02"


def values_of(each: Each, outputs: dict[str, str] | None = None) -> list[str]:
    return [item.value.shown for item in items_of(Step("a", X, each=each), day, outputs or {})]


@pytest.mark.parametrize(
    ("printed", "values"),
    [
        pytest.param("a\nb\n\n c\r\n", ["a", "b", " c"], id="lines, without empty ones"),
        pytest.param("", [], id="nothing"),
        pytest.param(" \n", [], id="blanks"),
        pytest.param("[]", [], id="an empty list"),
        pytest.param('["a b", 1, 2.5, true, ""]', ["a b", "1", "2.5", "true", ""], id="a JSON list"),
        pytest.param('\n[\n "a",\n "b"\n]\n', ["a", "b"], id="a JSON list on several lines"),
        pytest.param('[{"f": "x", "n": 1}]', ['{"f": "x", "n": "1"}'], id="objects"),
        pytest.param('{"f": "x"}\n{"f": "ü"}\n', ['{"f": "x"}', '{"f": "ü"}'], id="objects on lines"),
    ],
)
def test_what_a_step_printed_is_a_list(printed, values):
    assert [value.shown for value in parse_list(printed)] == values
    assert values_of(Each(from_step="list"), {"list": printed}) == values


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        pytest.param("[1, 2", "begins with '[' and is not a JSON list", id="half a list"),
        pytest.param("[" * 100_000, "begins with '[' and is not a JSON list", id="a deep list"),
        pytest.param('["a", null]', "element 1 is null", id="null"),
        pytest.param('["a", ["b"]]', "element 1 is a list", id="a list in it"),
        pytest.param('[{"a": {"b": 1}}]', "'a' of element 0 is an object", id="an object in an object"),
        pytest.param("[{}]", "element 0 is an object", id="an empty object"),
        pytest.param('{\n  "a": 1\n}', "line 1 is not a JSON object", id="an object on several lines"),
        pytest.param('{"a": 1}\nb', "line 2 is not a JSON object", id="a text behind an object"),
        pytest.param('[{"a-b": 1}]', "item 0 has a part 'a-b', which cannot be", id="a name for no variable"),
        pytest.param('[{"a": 1, "A": 2}]', "would be the same variable", id="two names for one variable"),
        pytest.param("a\0b", "item 0 holds a NUL byte", id="a NUL"),
        pytest.param("x" * (ITEM_MAX + 1), f"item 0 has {ITEM_MAX + 1:,} characters", id="a long value"),
        pytest.param("x\n" * (ITEMS_MAX + 1), f"it has {ITEMS_MAX + 1:,} items; 1,000 are allowed", id="too many"),
    ],
)
def test_what_cannot_be_a_list_is_an_error_that_says_why(printed, reason):
    with pytest.raises(ItemsError) as raised:
        values_of(Each(from_step="list"), {"list": printed})
    assert reason in str(raised.value)


def test_a_step_that_printed_nothing_because_it_did_not_succeed_is_an_error():
    with pytest.raises(ItemsError, match="step 'list' printed no list"):
        values_of(Each(from_step="list"))


def test_as_many_items_as_are_allowed_are_allowed():
    assert len(values_of(Each(from_step="list"), {"list": "x\n" * ITEMS_MAX})) == ITEMS_MAX


def test_a_matrix_has_every_combination_with_the_last_name_changing_first():
    matrix = (("region", ("eu", "us")), ("day", ("{{ date }}", "today")))
    assert values_of(Each(matrix=matrix)) == [
        '{"region": "eu", "day": "2026-03-02"}',
        '{"region": "eu", "day": "today"}',
        '{"region": "us", "day": "2026-03-02"}',
        '{"region": "us", "day": "today"}',
    ]
    assert values_of(Each(matrix=(("region", ("eu", "us")), ("day", ())))) == []


def test_a_matrix_with_too_many_combinations_is_refused_before_it_is_made():
    tens = tuple(str(number) for number in range(10))
    with pytest.raises(ItemsError, match="10,000,000,000 combinations"):
        values_of(Each(matrix=tuple((f"n{number}", tens) for number in range(10))))


def test_listed_values_may_hold_dates():
    each = Each((*texts("{{ date }}", "b"), ItemValue("", (("day", "{{ date }}"),))))
    assert values_of(each) == ["2026-03-02", "b", '{"day": "2026-03-02"}']


def test_an_item_is_replaced_by_its_value_and_its_parts():
    parts = Item("a", 3, ItemValue("", (("region", "eu"), ("size", "s"))))
    text = '{{ item("region") }}-{{ item("size") }} {{ date }} {{ item }}'
    assert render_template(text, item_value_of(parts, day)) == 'eu-s 2026-03-02 {"region": "eu", "size": "s"}'
    plain = Item("a", 3, ItemValue("$x {{ date }}"))
    assert render_template("{{ item }}", item_value_of(plain, day)) == "$x {{ date }}"
    with pytest.raises(ItemsError, match="item 3 has no part 'zone'"):
        render_template('{{ item("zone") }}', item_value_of(parts, day))


@pytest.mark.parametrize(
    ("name", "step"), [("a[0]", "a"), ("a[1][12]", "a[1]"), ("a", None), ("a[]", None), ("a[x]", None), ("[1]", None)]
)
def test_the_name_of_an_item_says_which_step_it_belongs_to(name, step):
    assert step_of(name) == step
    assert step is None or step_of(item_name(step, 999)) == step


def test_values_that_differ_have_digests_that_differ():
    values = [*texts("a", "b", ""), ItemValue("", (("a", "b"),)), ItemValue("", (("b", "a"),))]
    assert len({digest_of_value(value) for value in values}) == len(values)


def test_what_a_step_runs_for_is_part_of_the_work_that_another_process_is_handed():
    each = Each((ItemValue("a"), ItemValue("", (("b", "c"),))), None, (("n", ("1", "2")),), 3, True)
    work = Work((Step("a", X, each=each), Step("b", X, each=Each(from_step="a"))))
    assert from_plain(to_plain(work)) == work
    assert to_plain(NOTHING) == {}

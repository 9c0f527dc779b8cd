"""Which items a step with `each` has: one for each value that is listed, printed by an earlier step, or combined."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from math import prod
from typing import Final

from evertick.model.plain_json import parse_json
from evertick.model.template import ITEM, Expression, render_template
from evertick.model.work import Each, Item, ItemValue, Step

ITEMS_MAX: Final = 1_000
"""Of one step; as many as a job may have steps."""
ITEM_MAX: Final = 4_096
"""Characters of one value."""
FIELDS_MAX: Final = 50
"""Parts of one value."""

_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_NAMED: Final = re.compile(r"(.+)\[(\d{1,6})\]", re.DOTALL)

ValueOf = Callable[[Expression], str]


class ItemsError(ValueError):
    """The list of a step cannot be used; the text says why, and what to do."""


def items_of(step: Step, value_of: ValueOf, outputs: Mapping[str, str]) -> tuple[Item, ...]:
    """The items of a step in order. `outputs` has what earlier steps printed, by their names."""
    assert step.each is not None
    values = _values(step.each, value_of, outputs)
    if len(values) > ITEMS_MAX:
        raise ItemsError(f"it has {len(values):,} items; {ITEMS_MAX:,} are allowed. Combine some, or use several jobs.")
    for number, value in enumerate(values):
        problem = problem_with_value(value)
        if problem is not None:
            raise ItemsError(f"item {number} {problem}.")
    return tuple(Item(step.name, number, value) for number, value in enumerate(values))


def item_name(step: str, number: int) -> str:
    return f"{step}[{number}]"


def step_of(name: str) -> str | None:
    """The step whose item has this name; None: it is not the name of an item."""
    found = _NAMED.fullmatch(name)
    return None if found is None else found[1]


def item_value_of(item: Item, value_of: ValueOf) -> ValueOf:
    """What expressions stand for where an item runs."""

    def value(expression: Expression) -> str:
        if expression.name != ITEM:
            return value_of(expression)
        if not expression.text:
            return item.value.shown
        parts = dict(item.value.fields)
        if expression.text not in parts:
            known = ", ".join(parts) or "it is a text"
            raise ItemsError(f"item {item.number} has no part {expression.text!r} ({known}). Correct {{{{ item }}}}.")
        return parts[expression.text]

    return value


def digest_of_value(value: ItemValue) -> str:
    return hashlib.sha256(value.shown.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def problem_with_value(value: ItemValue) -> str | None:
    """Why a value cannot be an item, to follow its name; None: it can."""
    if any("\0" in text for text in (value.text, *dict(value.fields).values())):
        return "holds a NUL byte, which no variable can hold"
    if len(value.shown) > ITEM_MAX:
        return f"has {len(value.shown):,} characters; {ITEM_MAX:,} are allowed. Use the name of a file instead"
    return problem_with_names([name for name, _text in value.fields])


def problem_with_names(names: Iterable[str]) -> str | None:
    """Why these cannot name the parts of a value: each becomes the name of a variable."""
    known: dict[str, str] = {}
    for name in names:
        if not _FIELD.fullmatch(name):
            return f"has a part {name[:60]!r}, which cannot be in the name of a variable. Use letters, digits and '_'"
        if name.upper() in known:
            return f"has the parts {known[name.upper()]!r} and {name!r}, which would be the same variable. Rename one"
        known[name.upper()] = name
    return f"has {len(known)} parts; {FIELDS_MAX} are allowed" if len(known) > FIELDS_MAX else None


def matrix_size(matrix: Iterable[tuple[str, tuple[str, ...]]]) -> int:
    return prod(len(values) for _name, values in matrix)


def parse_list(text: str) -> tuple[ItemValue, ...]:
    """What a step printed: a JSON list, or lines, which are JSON objects or texts; empty lines do not count."""
    stripped = text.strip()
    if stripped.startswith("["):
        try:
            found = parse_json(stripped)
        except ValueError as error:
            raise ItemsError(f"it begins with '[' and is not a JSON list: {error}.") from None
        assert isinstance(found, list)
        return tuple(_plain(one, f"element {number}") for number, one in enumerate(found))
    lines = [line for one in text.split("\n") if (line := one.removesuffix("\r")).strip()]
    if not stripped.startswith("{"):
        return tuple(ItemValue(line) for line in lines)
    return tuple(_plain(_object(line, number), f"line {number}") for number, line in enumerate(lines, 1))


def _object(line: str, number: int) -> dict[str, object]:
    try:
        found = parse_json(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        reason = f"it begins with '{{', and line {number} is not a JSON object."
        raise ItemsError(f"{reason} Print a JSON list, or an object on each line.")
    return found


def _values(each: Each, value_of: ValueOf, outputs: Mapping[str, str]) -> tuple[ItemValue, ...]:
    if each.from_step is not None:
        if each.from_step not in outputs:
            raise ItemsError(f"step {each.from_step!r} printed no list: it did not succeed.")
        try:
            return parse_list(outputs[each.from_step])
        except ItemsError as error:
            raise ItemsError(f"the list of step {each.from_step!r} cannot be read: {error}") from None
    if each.matrix:
        size = matrix_size(each.matrix)
        if size > ITEMS_MAX:
            raise ItemsError(f"its matrix has {size:,} combinations; {ITEMS_MAX:,} are allowed.")
        names = [name for name, _values in each.matrix]
        lists = [[render_template(one, value_of) for one in values] for _name, values in each.matrix]
        return tuple(ItemValue("", tuple(zip(names, combination, strict=True))) for combination in product(*lists))
    return tuple(
        ItemValue(
            render_template(value.text, value_of),
            tuple((name, render_template(text, value_of)) for name, text in value.fields),
        )
        for value in each.values
    )


def _plain(value: object, place: str) -> ItemValue:
    if isinstance(value, dict) and value:
        return ItemValue("", tuple((name, _text(one, f"{name[:60]!r} of {place}")) for name, one in value.items()))
    return ItemValue(_text(value, place))


def _text(value: object, place: str) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            what = "null" if value is None else "a list" if isinstance(value, list) else "an object"
            raise ItemsError(f"{place} is {what}, and an item is a text, a number, or an object of those.")

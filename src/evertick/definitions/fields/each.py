"""Which values a step runs for: `each`, or `matrix`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from evertick.definitions.catalogue.limits import ITEMS_PARALLEL_MAX
from evertick.definitions.catalogue.work import EACH
from evertick.definitions.fields.templates import check_template
from evertick.definitions.fields.values import flag_of, integer_of, text_of
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, kind_of
from evertick.definitions.report import Report, Section
from evertick.model.work import PARALLEL_ITEMS, Each, ItemValue, Step
from evertick.planning.items import ITEMS_MAX, matrix_size, problem_with_names, problem_with_value, step_of

_SHAPE = "Write each: [a, b], each: {from: STEP}, or matrix: {region: [eu, us]}."
_SOURCES = ("values", "from", "matrix")


def read_each(section: Section, report: Report) -> tuple[Each | None, tuple[tuple[Node, str], ...]]:
    """The values of a step, and the place and name of the step that prints them, if one does."""
    node, product = section.take("each"), section.take("matrix")
    section.contradict("each", "matrix", "both say which values the step runs for")
    for name in ("each", "matrix"):
        section.contradict(name, "repeat", "an item runs once")
    if product is not None:
        return Each(matrix=_matrix(product, section.field("matrix"), report)), ()
    if isinstance(node, ListNode):
        return Each(_values(node, section.field("each"), report)), ()
    if isinstance(node, MapNode):
        return _read_map(Section(node, section.field("each"), report, EACH), report)
    if node is not None:
        report.error(node, section.field("each"), f"'each' must be a list or a map, not {kind_of(node)}.", _SHAPE)
    return None, ()


def _read_map(fields: Section, report: Report) -> tuple[Each | None, tuple[tuple[Node, str], ...]]:
    written = [name for name in _SOURCES if name in fields]
    if not written:
        report.error(fields.node, fields.path, f"'{fields.path}' names no values.", _SHAPE)
    for other in written[1:]:
        fields.contradict(written[0], other, "each says which values the step runs for")
    listed, source, product = (fields.take(name) for name in _SOURCES)
    parallel, goes_on, spread = (fields.take(name) for name in ("maxParallel", "continueOnFailure", "spread"))
    limit = integer_of(parallel, fields.field("maxParallel"), report, 1, ITEMS_PARALLEL_MAX) if parallel else None
    step = text_of(source, fields.field("from"), report) if source else None
    each = Each(
        _values(listed, fields.field("values"), report) if listed else (),
        step,
        _matrix(product, fields.field("matrix"), report) if product else (),
        limit or PARALLEL_ITEMS,
        bool(flag_of(goes_on, fields.field("continueOnFailure"), report)) if goes_on else False,
        flag_of(spread, fields.field("spread"), report) is not False if spread else True,
    )
    fields.finish(f"'{fields.path}'")
    return each, () if source is None or step is None else ((source, step),)


def part_check(each: Each | None) -> Callable[[str], bool] | None:
    """Whether the items have a part of a name; of a list that a step prints it is known only then."""
    if each is None:
        return None
    if each.from_step is not None:
        return lambda _name: True
    if each.matrix:
        return dict(each.matrix).__contains__
    return lambda name: all(name in dict(value.fields) for value in each.values)


def report_lists(steps: Sequence[Step], places: Mapping[str, Node], report: Report) -> None:
    """The steps that print lists must hand them on, and no step may have the name of an item."""
    by_name = {step.name: step for step in steps}
    for step in steps:
        source = None if step.each is None else by_name.get(step.each.from_step or "")
        if source is not None and source.output is None:
            reason = f"step '{step.name}' runs for each value of step '{source.name}', which has no output."
            report.error(places[source.name], "output", reason, f"Add 'output: NAME' to step '{source.name}'.")
        owner = by_name.get(step_of(step.name) or "")
        if owner is not None and owner.each is not None:
            reason = f"'{step.name}' is the name of an item of step '{owner.name}', and cannot be a step's."
            report.error(places[step.name], "name", reason, "Rename the step.")


def _values(node: Node, field: str, report: Report) -> tuple[ItemValue, ...]:
    if not isinstance(node, ListNode):
        report.error(node, field, f"'{field}' must be a list, not {kind_of(node)}.", _SHAPE)
        return ()
    if len(node.items) > ITEMS_MAX:
        report.error(node, field, f"'{field}' has {len(node.items):,} values; {ITEMS_MAX:,} are allowed.")
        return ()
    if not node.items:
        report.warn(node, field, f"'{field}' has no values, so the step does nothing.", "Add values.")
    return tuple(value for item in node.items if (value := _value(item, field, report)) is not None)


def _value(node: Node, field: str, report: Report) -> ItemValue | None:
    if isinstance(node, MapNode) and node.entries:
        parts = [(key.text, _text(value, field, report)) for key, value in node.entries]
        value = ItemValue("", tuple((name, text) for name, text in parts if text is not None))
    else:
        text = _text(node, field, report)
        if text is None:
            return None
        value = ItemValue(text)
    problem = problem_with_value(value)
    if problem is not None:
        report.error(node, field, f"a value of '{field}' {problem}.")
        return None
    return value


def _text(node: Node, field: str, report: Report) -> str | None:
    if not isinstance(node, ScalarNode) or node.value is None:
        hint = "Write a text, or a map of texts as an element of the list."
        report.error(node, field, f"a value of '{field}' must be a text, not {kind_of(node)}.", hint)
        return None
    return node.text if check_template(node, node.text, field, report) else None


def _matrix(node: Node, field: str, report: Report) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(node, MapNode) or not node.entries:
        wrong = "is an empty map" if isinstance(node, MapNode) else f"must be a map of lists, not {kind_of(node)}"
        report.error(node, field, f"'{field}' {wrong}.", "Write {region: [eu, us], size: [s, l]}.")
        return ()
    found: list[tuple[str, tuple[str, ...]]] = []
    for key, value in node.entries:
        path = f"{field}.{key.text[:60]}"
        if not isinstance(value, ListNode):
            report.error(value, path, f"'{path}' must be a list, not {kind_of(value)}.", "Write [eu, us].")
            continue
        texts = [_text(item, path, report) for item in value.items]
        found.append((key.text, tuple(text for text in texts if text is not None)))
    problem = problem_with_names([name for name, _values in found])
    if problem is not None:
        report.error(node, field, f"'{field}' {problem}.")
    size = matrix_size(found)
    if size > ITEMS_MAX:
        report.error(node, field, f"'{field}' has {size:,} combinations; {ITEMS_MAX:,} are allowed.")
    elif not size:
        report.warn(node, field, f"'{field}' has no combinations, so the step does nothing.", "Add values.")
    return tuple(found)

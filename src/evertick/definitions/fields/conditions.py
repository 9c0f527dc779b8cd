"""What must hold before a job or a step runs."""

from __future__ import annotations

from evertick.definitions.catalogue.limits import CONDITIONS_MAX, PATTERN_MAX
from evertick.definitions.catalogue.work import CONDITION
from evertick.definitions.fields.templates import check_shell_text, check_template
from evertick.definitions.fields.values import line_of, text_of, url_of
from evertick.definitions.nodes import ListNode, Node, ScalarNode
from evertick.definitions.report import Report, section_of
from evertick.model.pattern import PatternError, compile_pattern
from evertick.model.work import Condition, ConditionKind

_SHAPE = "{file_exists: data.csv}, {command: test -s data.csv} or {http: https://host/ready}"
_PATTERN = "re:"


def read_conditions(node: Node, field: str, report: Report) -> tuple[Condition, ...]:
    """One condition, or a list of them: all must hold."""
    items = node.items if isinstance(node, ListNode) else (node,)
    if not items:
        report.error(node, field, f"'{field}' is an empty list.", f"Write {_SHAPE}, or remove the field.")
    if len(items) > CONDITIONS_MAX:
        report.error(node, field, f"'{field}' has {len(items):,} conditions; {CONDITIONS_MAX} are allowed.")
    found = (read_condition(item, field, report) for item in items[:CONDITIONS_MAX])
    return tuple(condition for condition in found if condition is not None)


def read_condition(node: Node, field: str, report: Report) -> Condition | None:
    section = section_of(node, field, report, CONDITION, _SHAPE)
    if section is None:
        return None
    written = [kind for kind in ConditionKind if kind in section]
    if len(written) > 1:
        section.contradict(written[0], written[1], "a condition has one test; write several as a list")
    if not written and not any(name not in CONDITION for name in (key.text for key, _value in section.node.entries)):
        report.error(section.node, field, f"'{field}' does not say what must hold.", f"Write {_SHAPE}.")
    condition = None
    for kind in ConditionKind:
        place = section.take(kind)
        if place is not None:
            read = url_of(place, section.field(kind), report) if kind is ConditionKind.HTTP else None
            text = read if kind is ConditionKind.HTTP else text_of(place, section.field(kind), report)
            if text is not None:
                check = check_shell_text if kind is ConditionKind.COMMAND else check_template
                check(place, text, section.field(kind), report)
            condition = None if text is None else Condition(kind, text)
    expected = section.take("expected")
    if expected is not None:
        if ConditionKind.COMMAND not in section:
            reason = f"'{section.field('expected')}' belongs to 'command': it is what the command prints."
            report.error(section.key("expected"), section.field("expected"), reason, "Remove it.")
        output = _read_expected(expected, section.field("expected"), report)
        condition = Condition(condition.kind, condition.value, output) if condition and output is not None else None
    section.finish(f"the condition '{field}'")
    return condition


def _read_expected(node: Node, field: str, report: Report) -> str | None:
    if isinstance(node, ScalarNode) and node.text == "":
        return ""
    text = text_of(node, field, report)
    if text is None or not text.startswith(_PATTERN):
        return text
    pattern = line_of(node, field, report, longest=PATTERN_MAX)
    try:
        compile_pattern((pattern or "").removeprefix(_PATTERN))
    except PatternError as error:
        report.error(node, field, f"'{field}' is not a regular expression: {error}.", "Write for example re:[0-9]+.")
        return None
    return pattern

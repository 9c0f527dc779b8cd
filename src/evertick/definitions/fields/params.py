"""The parameters of a job: which values a request can set, and their types and limits."""

from __future__ import annotations

from evertick.definitions.catalogue.limits import PARAMS_MAX, PATTERN_MAX
from evertick.definitions.catalogue.words import PARAM_TYPES
from evertick.definitions.catalogue.work import PARAM
from evertick.definitions.fields.templates import check_template
from evertick.definitions.fields.values import choice_of, flag_of, line_of, name_of, text_of
from evertick.definitions.nodes import ListNode, MapNode, Node, Plain, ScalarNode, kind_of
from evertick.definitions.report import Report, Section
from evertick.model.params import problem_with
from evertick.model.pattern import PatternError, compile_pattern
from evertick.model.template import OPEN
from evertick.model.work import Param

_SHAPE = "Write {NAME: default}, or {NAME: {type: integer, default: 3}}."


def read_params(node: Node, report: Report, field: str = "params") -> tuple[Param, ...]:
    """A map of names to defaults or descriptions, or a list of `NAME=default`."""
    found: dict[str, tuple[Node, Param]] = {}
    for place, name, value in _pairs(node, field, report):
        if name_of(place, name, field, report) is None:
            continue
        param = _read_param(name, value, f"{field}.{name}", report)
        if name in found:
            reason = f"'{name}' is written twice: on line {found[name][0].line} and on line {place.line}."
            report.error(place, field, reason, "Remove one of them.")
        elif param is not None and check_template(place, param.default or "", f"{field}.{name}", report):
            found[name] = (place, param)
    if len(found) > PARAMS_MAX:
        report.error(node, field, f"'{field}' has {len(found):,} parameters; {PARAMS_MAX} are allowed.")
    return tuple(param for _place, param in found.values())


def _pairs(node: Node, field: str, report: Report) -> list[tuple[Node, str, Node | str]]:
    match node:
        case MapNode(entries=entries):
            return [(key, key.text, value) for key, value in entries]
        case ListNode(items=items):
            found: list[tuple[Node, str, Node | str]] = []
            for item in items:
                if isinstance(item, MapNode):
                    found += _pairs(item, field, report)
                elif isinstance(item, ScalarNode) and "=" in item.text:
                    name, _, value = item.text.partition("=")
                    found.append((item, name.strip(), value))
                else:
                    report.error(
                        item, field, f"an item of '{field}' must be NAME=default, not {kind_of(item)}.", _SHAPE
                    )
            return found
        case _:
            report.error(node, field, f"'{field}' must be a map or a list, not {kind_of(node)}.", _SHAPE)
            return []


def _read_param(name: str, value: Node | str, path: str, report: Report) -> Param | None:
    match value:
        case str(text):
            return Param(name, text)
        case MapNode():
            return _read_described(name, Section(value, path, report, PARAM), report)
        case ScalarNode(value=None):
            return Param(name)
        case ScalarNode(text=text):
            return Param(name, text)
        case _:
            report.error(value, path, f"'{path}' must be a default or a map, not {kind_of(value)}.", _SHAPE)
            return None


def _read_described(name: str, section: Section, report: Report) -> Param | None:
    schema: dict[str, object] = {}
    before = report.count
    if (node := section.take("type")) is not None:
        kind = choice_of(node, section.field("type"), report, {word: word for word in PARAM_TYPES})
        schema |= {"type": kind} if kind else {}
    if (node := section.take("enum")) is not None:
        schema["enum"] = _read_enum(node, section.field("enum"), schema.get("type"), report)
    if (node := section.take("pattern")) is not None:
        schema |= _read_pattern(node, section.field("pattern"), report)
    for bound in ("minimum", "maximum"):
        if (node := section.take(bound)) is not None:
            schema |= _read_bound(node, bound, section, schema.get("type"), report)
    if "minimum" in schema and "maximum" in schema and schema["minimum"] > schema["maximum"]:  # type: ignore[operator]
        section.contradict("minimum", "maximum", "the minimum is above the maximum")
    about = section.take("description")
    description = (text_of(about, section.field("description"), report) or "") if about else ""
    default, place = _read_default(section, report)
    section.finish(f"the parameter '{name}'")
    param = Param(name, default, schema, description)
    # The value of a template is checked when a run starts.
    if default is not None and place is not None and report.count == before and OPEN not in default:
        problem = problem_with(param, default)
        if problem:
            report.error(place, section.field("default"), f"the default of '{name}' {problem}.", "Write one that fits.")
    return param


def _read_default(section: Section, report: Report) -> tuple[str | None, Node | None]:
    node, flag = section.take("default"), section.take("required")
    required = flag_of(flag, section.field("required"), report) if flag else None
    if required and "default" in section:
        section.contradict("required", "default", "a required parameter needs no default")
    if required is False and "default" not in section:
        reason = f"'{section.path}' is optional and has no default."
        report.error(flag, section.field("required"), reason, "Add 'default'.")
    if node is None:
        return None, None
    if not isinstance(node, ScalarNode):
        report.error(node, section.field("default"), f"a default must be a single value, not {kind_of(node)}.")
        return None, None
    return node.text, node


def _read_enum(node: Node, field: str, kind: object, report: Report) -> list[Plain]:
    items = node.items if isinstance(node, ListNode) else ()
    if not items:
        report.error(node, field, f"'{field}' must be a list of values, not {kind_of(node)}.", "Write [small, large].")
    values: list[Plain] = []
    for item in items:
        if not isinstance(item, ScalarNode) or item.value is None:
            report.error(item, field, f"a value of '{field}' must be a text or a number, not {kind_of(item)}.")
        elif problem := problem_with(Param("", None, {"type": kind} if kind else {}), item.text):
            report.error(item, field, f"a value of '{field}' {problem}.")
        else:
            values.append(item.value if kind in {"integer", "number", "boolean"} else item.text)
    return values


def _read_pattern(node: Node, field: str, report: Report) -> dict[str, object]:
    text = line_of(node, field, report, longest=PATTERN_MAX)
    if text is None:
        return {}
    try:
        compile_pattern(text)
    except PatternError as error:
        report.error(node, field, f"'{field}' is not a regular expression: {error}.", "Write for example [a-z]+.")
        return {}
    return {"pattern": text}


def _read_bound(node: Node, bound: str, section: Section, kind: object, report: Report) -> dict[str, object]:
    if kind not in {"integer", "number"}:
        reason = f"'{section.field(bound)}' needs a number, and the type is not one."
        report.error(node, section.field(bound), reason, "Add 'type: integer'.")
        return {}
    if isinstance(node, ScalarNode) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return {bound: node.value}
    report.error(node, section.field(bound), f"'{section.field(bound)}' must be a number, not {kind_of(node)}.")
    return {}

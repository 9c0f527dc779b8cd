"""Which environment variables a run is given, and which of their values are kept elsewhere."""

from __future__ import annotations

from evertick.definitions.catalogue.limits import ENV_MAX, PATH_MAX
from evertick.definitions.catalogue.work import SECRET
from evertick.definitions.fields.values import line_of, name_of
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, kind_of
from evertick.definitions.report import Report, Section
from evertick.model.work import Env, Secret, Value

_SHAPE = "Write {NAME: value}, or a list of NAME=value."


def read_env(node: Node, field: str, report: Report) -> Env:
    """A map, or a list whose items are `NAME=value` or small maps."""
    found: dict[str, tuple[Node, Value]] = {}
    for place, name, value in _pairs(node, field, report):
        known = name_of(place, name, field, report)
        if known is None or value is None:
            continue
        if known in found:
            reason = f"'{known}' is set twice: on line {found[known][0].line} and on line {place.line}."
            report.error(place, field, reason, "Remove one of them.")
            continue
        found[known] = (place, value)
    if len(found) > ENV_MAX:
        report.error(node, field, f"'{field}' has {len(found):,} variables; {ENV_MAX} are allowed.", "Use a file.")
    return tuple((name, value) for name, (_place, value) in found.items())


def read_value(node: Node, field: str, report: Report) -> Value | None:
    """A text as it is written, or where its value is kept: `{env: NAME}`, `{file: PATH}`."""
    if isinstance(node, MapNode):
        return read_secret(Section(node, field, report, SECRET), report)
    if isinstance(node, ScalarNode) and node.value is not None:
        return node.text
    hint = "Write '' for an empty text, or {env: NAME} for a secret."
    report.error(node, field, f"the value of '{field}' must be a text, not {kind_of(node)}.", hint)
    return None


def read_secret(section: Section, report: Report) -> Secret | None:
    env, file = section.take("env"), section.take("file")
    section.contradict("env", "file", "a secret is in one place")
    section.finish(f"the secret '{section.path}'")
    if env is not None:
        name = line_of(env, section.field("env"), report, longest=200)
        # A secret may well come from a reserved variable: it is read there, and not set.
        return None if name is None else Secret("env", name)
    if file is not None:
        path = line_of(file, section.field("file"), report, longest=PATH_MAX)
        return None if path is None else Secret("file", path)
    if not section.node.entries:
        hint = "Write {env: NAME} or {file: PATH}."
        report.error(section.node, section.path, f"'{section.path}' does not say where its value is.", hint)
    return None


def _pairs(node: Node, field: str, report: Report) -> list[tuple[Node, str, Value | None]]:
    match node:
        case MapNode(entries=entries):
            return [(key, key.text, read_value(value, f"{field}.{key.text[:60]}", report)) for key, value in entries]
        case ListNode(items=items):
            return [pair for item in items for pair in _item_pairs(item, field, report)]
        case _:
            report.error(node, field, f"'{field}' must be a map or a list, not {kind_of(node)}.", _SHAPE)
            return []


def _item_pairs(item: Node, field: str, report: Report) -> list[tuple[Node, str, Value | None]]:
    if isinstance(item, MapNode):
        return _pairs(item, field, report)
    if isinstance(item, ScalarNode) and "=" in item.text:
        name, _, value = item.text.partition("=")
        return [(item, name.strip(), value)]
    report.error(item, field, f"an item of '{field}' must be NAME=value, not {kind_of(item)}.", _SHAPE)
    return []

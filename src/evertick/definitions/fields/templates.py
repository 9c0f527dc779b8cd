"""Whether the `{{ }}` of a value can be read, and is allowed where it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode
from evertick.definitions.report import Report
from evertick.errors import DefinitionError
from evertick.model.template import ITEM, NAMES, OPEN, Expression, parse_template, shell_variable_for

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
_TEXT_OPTION: Final = re.compile(r"-[A-Za-z]{0,6}c[A-Za-z]{0,2}")
"""`-c`, `-lc`, `-euxc`, `-ce`."""


def check_template(node: Node, text: str, field: str, report: Report) -> bool:
    """Report an expression that cannot be read; False then."""
    if OPEN not in text:
        return True
    try:
        parts = parse_template(text)
    except DefinitionError as error:
        near = report.suggest(error.field, NAMES) or f"Known names: {', '.join(NAMES)}." if error.field else error.hint
        report.error(node, field, f"'{field}': {error.reason}", near)
        return False
    return all(_check_item(part, node, field, report) for part in parts if isinstance(part, Expression))


def _check_item(part: Expression, node: Node, field: str, report: Report) -> bool:
    if part.name != ITEM:
        return True
    if report.has_part is None:
        reason = f"'{field}': {{{{ item }}}} is the value of an item, and this does not belong to one."
        report.error(node, field, reason, "Use it in 'env' or the kind of a step with 'each' or 'matrix'.")
        return False
    if part.text and not report.has_part(part.text):
        reason = f"'{field}': the items of this step have no part '{part.text[:60]}'."
        report.error(node, field, reason, "Name a part that the matrix, or each map of the list, has.")
        return False
    return True


def check_shell_text(node: Node, text: str, field: str, report: Report) -> None:
    """Refuse our names in shell text, where a value could become code."""
    found = shell_variable_for(text, has_item=report.has_part is not None) if OPEN in text else None
    if found is not None:
        name, variable = found
        reason = f"'{field}' is shell text, in which {{{{ {name} }}}} is not replaced."
        hint = f"Write \"${variable}\", or set a variable to it in 'env' and write that."
        report.error(node, field, reason, hint)


def check_path(node: Node, text: str, field: str, report: Report) -> bool:
    """Refuse our names in a path, which is taken as it is written; False then."""
    found = shell_variable_for(text) if OPEN in text else None
    if found is not None:
        reason = f"'{field}' is taken as it is written: {{{{ {found[0]} }}}} is not replaced in it."
        report.error(node, field, reason, f"Write \"${found[1]}\" in the command, or set a variable to it in 'env'.")
    return found is None


def check_plain_address(node: Node, text: str, field: str, report: Report) -> bool:
    """Refuse our names in an address that is called as it is written; False then."""
    found = shell_variable_for(text) if OPEN in text else None
    if found is not None:
        reason = f"'{field}' is taken as it is written: {{{{ {found[0]} }}}} is not replaced in it."
        report.error(node, field, reason, "Leave it out: the message names the run and its time.")
    return found is None


def check_words(nodes: tuple[Node, ...], words: tuple[str, ...], field: str, report: Report) -> None:
    """The arguments of a program, which may be templates; those of a shell with `-c` are shell text."""
    first = _first_shell_text(words)
    for number, (node, word) in enumerate(zip(nodes, words, strict=True)):
        if first is not None and number >= first:
            check_shell_text(node, word, field, report)
        else:
            check_template(node, word, field, report)


def _first_shell_text(words: Sequence[str]) -> int | None:
    """From which word on a shell with `-c` reads them; `env`, `sudo`, `timeout` and others start shells too."""
    shells = (number for number, word in enumerate(words) if word.rpartition("/")[2] in _SHELLS)
    return next((one for one in shells if any(map(_TEXT_OPTION.fullmatch, words[one + 1 :]))), None)


def check_data(node: Node, field: str, report: Report) -> None:
    """Every text of a map or list."""
    match node:
        case ScalarNode(text=text):
            check_template(node, text, field, report)
        case ListNode(items=items):
            for item in items:
                check_data(item, field, report)
        case MapNode(entries=entries):
            for _key, value in entries:
                check_data(value, field, report)


def without_expressions(text: str) -> str:
    """The text with a letter for each expression, to check its form; as it is if it cannot be read."""
    try:
        return "".join("x" if isinstance(part, Expression) else part for part in parse_template(text))
    except DefinitionError:
        return text

"""What is started: a line for the shell, or a program with its arguments."""

from __future__ import annotations

from evertick.definitions.fields.values import text_of
from evertick.definitions.nodes import ListNode, Node, ScalarNode, kind_of
from evertick.definitions.report import Report
from evertick.model.work import Command


def read_command(node: Node, field: str, report: Report) -> Command | None:
    """A text is a line for the shell; a list is a program with its arguments."""
    if isinstance(node, ListNode):
        words = [_word(item, field, report) for item in node.items]
        if not words:
            report.error(node, field, f"'{field}' is an empty list.", "Write for example [python, report.py].")
        kept = tuple(word for word in words if word is not None)
        if kept and not kept[0]:
            report.error(node, field, f"the program of '{field}' is empty.", "Write for example [python, report.py].")
            return None
        return Command(kept) if kept and len(kept) == len(words) else None
    text = text_of(node, field, report)
    return None if text is None else Command((text,), is_shell=True)


def _word(node: Node, field: str, report: Report) -> str | None:
    """One argument; an empty one is fine, when it is written as ''."""
    if isinstance(node, ScalarNode) and node.value is not None:
        return node.text
    report.error(node, field, f"every word of '{field}' must be a text, not {kind_of(node)}.", "Put it in quotes.")
    return None

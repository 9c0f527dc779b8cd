"""How one value of a definition is read: each reader returns it, or reports why not and returns None."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import urlsplit

from evertick.definitions.catalogue.limits import URL_MAX
from evertick.definitions.fields.templates import (
    check_path,
    check_plain_address,
    check_shell_text,
    check_template,
    check_words,
    without_expressions,
)
from evertick.definitions.nodes import ListNode, Node, ScalarNode, kind_of
from evertick.definitions.report import Report
from evertick.errors import DefinitionError
from evertick.model.duration import parse_duration
from evertick.model.work import Command

ID_MAX = 64
NAME_MAX = 200

_OUTSIDE: Final = re.compile(r"[^a-z0-9_.-]+")


def job_id_of(name: str) -> str:
    """Lower case; every run of characters outside a-z 0-9 _ . - is one '-'; no '-._' at the ends; may be empty."""
    return _OUTSIDE.sub("-", name.lower()).strip("-._")[:ID_MAX].strip("-._")


T = TypeVar("T")

TEXT_MAX = 10_000
RESERVED: Final = "EVERTICK_"
"""The prefix of the run variables; jobs cannot set them."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def text_of(node: Node, field: str, report: Report, *, longest: int = TEXT_MAX) -> str | None:
    """Any scalar, as it was written: `name: 007` is the text 007."""
    if not isinstance(node, ScalarNode) or node.value is None:
        report.error(node, field, f"'{field}' must be a text, not {kind_of(node)}.")
        return None
    if not node.text.strip():
        report.error(node, field, f"'{field}' is empty.", "Write a text, or remove the field.")
        return None
    if len(node.text) > longest:
        report.error(node, field, f"'{field}' has {len(node.text):,} characters; {longest:,} are allowed.")
        return None
    return node.text


def line_of(node: Node, field: str, report: Report, *, longest: int) -> str | None:
    """A text that fits on one line and contains no control characters."""
    text = text_of(node, field, report, longest=longest)
    if text is not None and not text.isprintable():
        report.error(node, field, f"'{field}' holds a line break or a control character.", "Write it on one line.")
        return None
    return text


def path_of(node: Node, field: str, report: Report, *, longest: int) -> str | None:
    """A path, in which no dates are put in."""
    text = line_of(node, field, report, longest=longest)
    return text if text is not None and check_path(node, text, field, report) else None


def texts_of(node: Node, field: str, report: Report) -> tuple[tuple[Node, str], ...] | None:
    """One text, or a list of them, each with its position."""
    items = node.items if isinstance(node, ListNode) else (node,)
    found = [(item, text_of(item, field, report)) for item in items]
    kept = tuple((item, text) for item, text in found if text is not None)
    return kept if len(kept) == len(found) else None


def flag_of(node: Node, field: str, report: Report) -> bool | None:
    if isinstance(node, ScalarNode) and isinstance(node.value, bool):
        return node.value
    report.error(node, field, f"'{field}' must be true or false, not {kind_of(node)}.", "Write true or false.")
    return None


def integer_of(node: Node, field: str, report: Report, low: int, high: int) -> int | None:
    if isinstance(node, ScalarNode) and isinstance(node.value, int) and not isinstance(node.value, bool):
        if low <= node.value <= high:
            return node.value
        report.error(node, field, f"'{field}' is {node.text[:40]}; it must be from {low:,} to {high:,}.")
        return None
    report.error(node, field, f"'{field}' must be a whole number, not {kind_of(node)}.", f"Write {low:,} to {high:,}.")
    return None


def share_of(node: Node, field: str, report: Report) -> float | None:
    """A number from 0 to 1."""
    if isinstance(node, ScalarNode) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        if 0 <= node.value <= 1:
            return float(node.value)
        report.error(node, field, f"'{field}' is {node.text[:40]}; it must be from 0 to 1.", "Write 0.1 for a tenth.")
        return None
    report.error(node, field, f"'{field}' must be a number, not {kind_of(node)}.", "Write 0.1 for a tenth.")
    return None


def choice_of(
    node: Node, field: str, report: Report, choices: Mapping[str, T], aliases: Mapping[str, T] | None = None
) -> T | None:
    """One of a few words, in any letter case, `-` or `_`, with blanks or not; or what another scheduler calls it."""
    words = ", ".join(choices)
    if not isinstance(node, ScalarNode) or node.value is None:
        report.error(node, field, f"'{field}' must be one of {words}, not {kind_of(node)}.")
        return None
    folded = {fold(word): value for word, value in (*(aliases or {}).items(), *choices.items())}
    if fold(node.text) in folded:
        return folded[fold(node.text)]
    hint = report.suggest(node.text, choices) or f"Write one of {words}."
    report.error(node, field, f"'{field}' cannot be '{node.text[:60]}'; it is one of {words}.", hint)
    return None


def fold(word: str) -> str:
    """The same key for every spelling of a word with two parts."""
    return word.strip().lower().replace("-", "_")


def duration_of(node: Node, field: str, report: Report, *, allow_subsecond: bool = False) -> int | None:
    """Microseconds."""
    text = node.text if isinstance(node, ScalarNode) and node.value is not None else None
    if text is None:
        report.error(
            node, field, f"'{field}' must be a duration, not {kind_of(node)}.", "Write for example 6h or 2d12h."
        )
        return None
    return attempt(lambda: parse_duration(text, allow_subsecond=allow_subsecond), node, field, report)


def name_of(node: Node, text: str, field: str, report: Report) -> str | None:
    """The name of an environment variable that is free to be set."""
    if not _NAME.fullmatch(text) or len(text) > 200:
        hint = "Use letters, digits and _, and no digit first, for example DATA_DIR."
        report.error(node, field, f"'{text[:60]}' is not the name of a variable.", hint)
        return None
    if text.upper().startswith(RESERVED):
        reason = f"'{text[:60]}' begins with {RESERVED}, which is reserved for the variables that describe a run."
        report.error(node, field, reason, "Choose another name.")
        return None
    return text


def url_of(node: Node, field: str, report: Report, *, has_dates: bool = True) -> str | None:
    """A web address, which dates may be a part of."""
    text = line_of(node, field, report, longest=URL_MAX)
    check = check_template if has_dates else check_plain_address
    if text is None or not check(node, text, field, report):
        return None
    checked = without_expressions(text)
    try:
        parts = urlsplit(checked)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound or any(character.isspace() for character in checked):
        report.error(node, field, f"'{field}' is not an address: '{text[:60]}'.", "Write https://host/path.")
        return None
    return text


def job_of(node: Node, field: str, report: Report) -> str | None:
    """The id of another job, which may be given by its name."""
    text = line_of(node, field, report, longest=200)
    if text is None:
        return None
    job_id = job_id_of(text)
    if not job_id:
        report.error(node, field, f"'{text[:60]}' is not the name of a job.", "Write the id of a job.")
        return None
    return job_id


def attempt(read: Callable[[], T], node: Node, field: str, report: Report) -> T | None:
    """What a nested reader returns; its error is reported with the position of the value."""
    try:
        return read()
    except DefinitionError as error:
        report.adopt(error, node, field)
        return None


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
        if not kept or len(kept) != len(words):
            return None
        check_words(node.items, kept, field, report)
        return Command(kept)
    text = text_of(node, field, report)
    if text is not None:
        check_shell_text(node, text, field, report)
    return None if text is None else Command((text,), is_shell=True)


def _word(node: Node, field: str, report: Report) -> str | None:
    """One argument; an empty one is allowed if it is written as ''."""
    if isinstance(node, ScalarNode) and node.value is not None:
        return node.text
    report.error(node, field, f"every word of '{field}' must be a text, not {kind_of(node)}.", "Put it in quotes.")
    return None

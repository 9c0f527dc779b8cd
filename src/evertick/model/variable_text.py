"""Which variables a text refers to: `${NAME}` is a variable, `$$` is a dollar sign, and any other `$` is itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_DOLLAR: Final = re.compile(r"\$\$|\$\{([^}]*)(\}?)")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class UnknownVariable(LookupError):
    """The text refers to a variable that is not set; `name` names it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def problem_with_references(text: str) -> str | None:
    """Why the references of a text cannot be read, or None."""
    for found in _DOLLAR.finditer(text) if "${" in text else ():
        if found[1] is None:
            continue
        if not found[2]:
            return f"'${{{found[1][:40]}' has no closing '}}'"
        if not _NAME.fullmatch(found[1]):
            return f"'${{{found[1][:40]}}}' is not the name of a variable; defaults and substitutions are not supported"
    return None


def replace_references(text: str, value_of: Callable[[str], str | None]) -> str:
    """The text with the value of each variable. Values are not read again: a `$` in one is a `$`."""
    if "$" not in text:
        return text

    def replaced(found: re.Match[str]) -> str:
        if found[1] is None:
            return "$"
        value = value_of(found[1])
        if value is None:
            raise UnknownVariable(found[1])
        return value

    return _DOLLAR.sub(replaced, text)


def escape_references(text: str) -> str:
    """The text, written so that it is read as itself."""
    return text.replace("$", "$$") if "$$" in text or "${" in text else text

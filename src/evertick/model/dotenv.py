"""Which variables a dotenv file sets.

Nothing in it is expanded. Blanks, quotes, `$` and backslashes that a shell, Docker Compose and Python's dotenv read
differently are refused with their place, so that a file does not mean one thing in a terminal and another here.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from evertick.errors import DefinitionError

VARIABLES_MAX: Final = 500
_NAME: Final = re.compile(r"(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)")
_BARE: Final = re.compile(r"[^\s'\"\\$`]*")
_REST: Final = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\r?\n|\Z)")
_ESCAPE: Final = re.compile(r"\\([\\\"$`])")
_RESERVED: Final = "EVERTICK_"
_QUOTE_HINT: Final = "Put the value in single quotes."
_EQUALS_HINT: Final = "Write NAME=value, without blanks around the '='."
_ESCAPE_HINT: Final = "Write \\\\ for a backslash, and a line break as it is, inside the quotes."


class Assignment(NamedTuple):
    name: str
    value: str
    line: int


def parse_dotenv(text: str, file: str) -> tuple[Assignment, ...]:
    """The variables in the order of their lines; `DefinitionError` with line and column for anything else."""
    return tuple(_Reader(text.removeprefix("\ufeff"), file).read())


class _Reader:
    def __init__(self, text: str, file: str) -> None:
        self._text, self._file, self._at = text, file, 0

    def read(self) -> list[Assignment]:
        found: dict[str, Assignment] = {}
        while self._skip_blank_lines():
            one = self._assignment()
            if one.name in found:
                raise self._error(f"'{one.name}' is set twice: on line {found[one.name].line} and here.", "Remove one.")
            found[one.name] = one
            if len(found) > VARIABLES_MAX:
                raise self._error(f"the file sets more than {VARIABLES_MAX} variables.", "Split it.")
        return list(found.values())

    def _skip_blank_lines(self) -> bool:
        """Go to the next assignment; False at the end."""
        while self._at < len(self._text):
            blank = _REST.match(self._text, self._at)
            if blank is None:
                self._at += len(self._text[self._at :]) - len(self._text[self._at :].lstrip(" \t"))
                return True
            self._at = blank.end()
            if blank.end() == blank.start():
                return False
        return False

    def _assignment(self) -> Assignment:
        begin, line = self._at, self._line(self._at)
        name = _NAME.match(self._text, begin)
        if name is None:
            raise self._error("a line must be NAME=value.", "Use letters, digits and _ in a name, and no digit first.")
        if name[1].upper().startswith(_RESERVED):
            reason = f"'{name[1]}' begins with {_RESERVED}, which is reserved for the variables that describe a run."
            raise self._error(reason, "Choose another name.")
        self._at = name.end()
        if not self._text.startswith("=", self._at):
            raise self._error(f"'{name[1]}' is not followed by '='.", _EQUALS_HINT)
        self._at += 1
        value = self._value()
        if "\0" in value:
            raise self._error(f"the value of '{name[1]}' holds a NUL byte.", "Remove it.")
        return Assignment(name[1], value, line)

    def _value(self) -> str:
        following = self._text[self._at : self._at + 1]
        if following in ("'", '"'):
            value = self._quoted(following)
        elif following in (" ", "\t") and _REST.match(self._text, self._at) is None:
            raise self._error("there is a blank behind '='.", _EQUALS_HINT)
        else:
            bare = _BARE.match(self._text, self._at)
            assert bare is not None
            self._at, value = bare.end(), bare[0]
        rest = _REST.match(self._text, self._at)
        if rest is None:
            raise self._error(_stray(self._text[self._at]), _QUOTE_HINT)
        self._at = rest.end()
        return value

    def _quoted(self, quote: str) -> str:
        begin = self._at
        self._at += 1
        parts: list[str] = []
        while self._at < len(self._text):
            character = self._text[self._at]
            if character == quote:
                self._at += 1
                return "".join(parts)
            if quote == '"' and character == "\\":
                escape = _ESCAPE.match(self._text, self._at)
                if escape is None:
                    reason = f"'{self._text[self._at : self._at + 2]}' is read differently by different programs."
                    raise self._error(reason, _ESCAPE_HINT)
                parts.append(escape[1])
                self._at = escape.end()
                continue
            if quote == '"' and character in "$`":
                raise self._error(_stray(character), _QUOTE_HINT)
            parts.append(character)
            self._at += 1
        self._at = begin
        raise self._error("the quote is not closed.", f"Add {quote} at the end of the value.")

    def _error(self, reason: str, hint: str) -> DefinitionError:
        begin = self._text.rfind("\n", 0, self._at) + 1
        line, column = self._line(self._at), self._at - begin + 1
        return DefinitionError(reason, hint=hint, field="dotenv", file=self._file, line=line, column=column)

    def _line(self, at: int) -> int:
        return self._text.count("\n", 0, at) + 1


def _stray(character: str) -> str:
    if character in "$`":
        return f"'{character}' would be expanded by a shell; a dotenv file here has no references."
    if character in "'\"":
        return "a quote stands in the middle of the value, or something follows the closing quote."
    if character in " \t":
        return "a value with blanks must be in quotes."
    return f"{character!r} cannot stand outside quotes."

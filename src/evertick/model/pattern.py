"""Regular expressions that users write: matched in time linear in the text, whatever they say.

Python's own engine backtracks: `(a+)+$` against thirty letters stops the process that tries it. RE2 has no backward
references and no look-around, and no expression that takes more than one pass over the text.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM_BYTES_MAX: Final = 128 * 1024
"""RE2's budget to compile with: it bounds the work for each character of a text."""
MATCH_BYTES_MAX: Final = 1024 * 1024
"""RE2's budget to match with: more states that are computed once, and the same answers sooner."""

_UNSUPPORTED: Final = (
    (("(?=", "(?!", "(?<=", "(?<!"), "look-ahead and look-behind are not supported"),
    (("(?P=", *(rf"\{digit}" for digit in range(1, 10))), "backward references are not supported"),
    ((r"\Z",), r"\Z is not supported; write \z or $"),
    (("(?>", "*+", "++", "?+"), "possessive and atomic groups are not supported; they are not needed here"),
)


class PatternError(ValueError):
    """A text is not a regular expression, or not one that can be matched in linear time; says why."""


class UserPattern:
    """One compiled expression."""

    __slots__ = ("_fullmatch", "_search", "text")

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        # Imported late: most jobs have no pattern, and `evertick --help` none at all.
        import re2

        try:
            for budget in (PROGRAM_BYTES_MAX, MATCH_BYTES_MAX):
                options = re2.Options()
                options.log_errors = False
                options.max_mem = budget
                compiled: Any = re2.compile(_encodable(text), options=options)
        except re2.error as error:
            raise PatternError(_reason(text, error)) from None
        self.text = text
        self._fullmatch: Callable[[str], object] = compiled.fullmatch
        self._search: Callable[[str], object] = compiled.search

    def matches_whole(self, text: str) -> bool:
        return self._fullmatch(_encodable(text)) is not None

    def matches_part(self, text: str) -> bool:
        return self._search(_encodable(text)) is not None


@lru_cache(maxsize=256)
def compile_pattern(text: str) -> UserPattern:
    """The expression, compiled once; raises PatternError."""
    return UserPattern(text)


def _encodable(text: str) -> str:
    """RE2 works on UTF-8, which half of a surrogate pair has no form in."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _reason(text: str, error: Exception) -> str:
    for signs, reason in _UNSUPPORTED:
        if any(sign in text for sign in signs):
            return reason
    said = error.args[0] if error.args else ""
    words = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
    return "it is too large; repeat less, or match less than the whole" if "too large" in words else words

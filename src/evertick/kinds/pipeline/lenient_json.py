"""Parses almost JSON: single quotes, bare keys, trailing commas, Python's constants."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from evertick.model.plain_json import Json, JsonObject

DEPTH_MAX: Final = 50
_NUMBER: Final = re.compile(r"-?\d{1,300}(\.\d{1,300})?([eE][-+]?\d{1,3})?(?![\w.])", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z_$][\w$-]*")
_BLANKS: Final = re.compile(r"\s*")
_WORDS: Final = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "None": None,
    "undefined": None,
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def strict(text: str) -> Json:
    """Strict JSON; ValueError otherwise. `1.0` is 1, and NaN is an error."""
    try:
        value: Json = json.loads(text, parse_float=_number, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def strict_at(text: str, start: int) -> tuple[Json, int]:
    """The JSON value at that position, and its end."""
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def lenient_at(text: str, start: int) -> tuple[Json, int]:
    """The same for almost JSON."""
    return _value(text, start, 0)


def _value(text: str, at: int, depth: int) -> tuple[Json, int]:
    at = _skip(text, at)
    if depth > DEPTH_MAX:
        _fail("it is nested too deeply")
    character = text[at : at + 1]
    if character == "{":
        return _object(text, at + 1, depth + 1)
    if character == "[":
        return _array(text, at + 1, depth + 1)
    if character in ('"', "'") and character:
        return _string(text, at + 1, character)
    number = _NUMBER.match(text, at)
    if number:
        return _number(number[0]) if number[1] or number[2] else int(number[0]), number.end()
    word = _WORD.match(text, at)
    if not word or word[0] not in _WORDS:
        _fail(f"no value at character {at}")
    return _WORDS[word[0]], word.end()


def _object(text: str, at: int, depth: int) -> tuple[JsonObject, int]:
    found: JsonObject = {}
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            return found, at + 1
        if text[at : at + 1] in ('"', "'") and at < len(text):
            name, at = _string(text, at + 1, text[at])
        else:
            word = _WORD.match(text, at) or _fail(f"no name at character {at}")
            name, at = word[0], word.end()
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            _fail(f"no colon at character {at}")
        found[name], at = _value(text, at + 1, depth)
        at = _after_comma(text, at, "}")


def _array(text: str, at: int, depth: int) -> tuple[list[Json], int]:
    found: list[Json] = []
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == "]":
            return found, at + 1
        value, at = _value(text, at, depth)
        found.append(value)
        at = _after_comma(text, at, "]")


def _after_comma(text: str, at: int, end: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return at + 1
    if text[at : at + 1] != end:
        _fail(f"neither a comma nor {end} at character {at}")
    return at


def _string(text: str, at: int, quote: str) -> tuple[str, int]:
    parts = []
    start = at
    while True:
        if at >= len(text):
            _fail("a text has no end")
        character = text[at]
        if character == "\\":
            parts.append(text[start:at])
            escaped = text[at + 1 : at + 2]
            digits = text[at + 2 : at + 6]
            if escaped == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                parts.append(chr(int(digits, 16)))
                at += 6
            else:
                parts.append(_ESCAPES.get(escaped, escaped))
                at += 2
            start = at
        # An apostrophe inside a word does not end a text in single quotes.
        elif character == quote and not (quote == "'" and _is_inside_word(text, at)):
            parts.append(text[start:at])
            return _join_surrogates("".join(parts)), at + 1
        else:
            at += 1


def _join_surrogates(text: str) -> str:
    """Join surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _is_inside_word(text: str, at: int) -> bool:
    return text[at - 1 : at].isalnum() and text[at + 1 : at + 2].isalnum()


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


def _number(text: str) -> int | float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        _fail("a number is too large")
    return int(number) if number.is_integer() and abs(number) < 1e15 else number


def _no_constant(name: str) -> NoReturn:
    _fail(f"{name} is not JSON")


def _fail(reason: str) -> NoReturn:
    raise ValueError(reason)


_DECODER: Final = json.JSONDecoder(parse_float=_number, parse_constant=_no_constant)

"""Checks whether a given value is valid for a parameter."""

from __future__ import annotations

import json
import math
import re

from evertick.model.pattern import compile_pattern
from evertick.model.work import Param

VALUE_MAX = 100_000
"""Characters: it has to fit into an environment."""
MATCHED_MAX = 10_000
"""Characters that are matched against a pattern: at most some hundredths of a second."""

_INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")


def problem_with(param: Param, text: str) -> str | None:
    """Why a text is not a valid value of the parameter, as the end of a sentence; None if it is."""
    if len(text) > VALUE_MAX:
        return f"has {len(text):,} characters; {VALUE_MAX:,} are allowed"
    if "\0" in text:
        return "contains a NUL character"
    value = _typed(str(param.schema.get("type", "string")), text)
    if value is None:
        return f"is {_shown(text)}, which is not {_ARTICLES[str(param.schema['type'])]}"
    allowed = param.schema.get("enum")
    if isinstance(allowed, list | tuple) and not any(_same(value, one) for one in allowed):
        return f"is {_shown(text)}; it is one of {', '.join(map(_text, allowed))}"
    pattern = param.schema.get("pattern")
    if isinstance(pattern, str) and len(text) > MATCHED_MAX:
        return f"has {len(text):,} characters; {MATCHED_MAX:,} are allowed where there is a pattern"
    if isinstance(pattern, str) and not compile_pattern(pattern).matches_whole(text):
        return f"is {_shown(text)}, which does not match {pattern}"
    low, high = param.schema.get("minimum"), param.schema.get("maximum")
    if isinstance(value, int | float):
        if isinstance(low, int | float) and value < low:
            return f"is {_shown(text)}; the minimum is {low}"
        if isinstance(high, int | float) and value > high:
            return f"is {_shown(text)}; the maximum is {high}"
    return None


_ARTICLES = {"integer": "a whole number", "number": "a number", "boolean": "true or false", "string": "a text"}


def _typed(kind: str, text: str) -> str | int | float | bool | None:
    match kind:
        case "integer":
            return int(text) if _INTEGER.fullmatch(text) else None
        case "number":
            if _INTEGER.fullmatch(text):
                return int(text)
            number = float(text) if len(text) <= 300 and _NUMBER.fullmatch(text) else math.inf
            return None if math.isinf(number) else number
        case "boolean":
            return {"true": True, "false": False}.get(text)
        case _:
            return text


def _same(value: object, other: object) -> bool:
    """1 and 1.0 are the same value; 1 and true are not."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)

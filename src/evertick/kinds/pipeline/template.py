"""What a prompt says once the names in it have been replaced: `{{title}}`, and nothing cleverer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

# ASCII, no blanks, no dots: anything else between braces is the user's own text.
_VARIABLE: Final = re.compile(r"\{\{(\w+)\}\}", re.ASCII)
SPECIAL: Final = frozenset({"ITEMS", "RESULTS", "RESULTS_FILE", "COUNT", "SUCCESS_COUNT", "FAILURE_COUNT"})
"""Names that are filled in by the pipeline itself, not by an item."""


def variables_of(template: str) -> tuple[str, ...]:
    """The names that an item must have, each once, in order of appearance."""
    return tuple(dict.fromkeys(name for name in _VARIABLE.findall(template) if name not in SPECIAL))


def render(template: str, values: Mapping[str, str], *, keeps_unknown: bool = False) -> str:
    """One pass over the template, so that a value that looks like a variable is never filled in itself.

    An unknown name becomes nothing, or stays as it is written with `keeps_unknown`.
    """

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name in values:
            return values[name]
        return match[0] if keeps_unknown or name in SPECIAL else ""

    return _VARIABLE.sub(value_of, template)


def items_as_json(items: Sequence[Mapping[str, str]]) -> str:
    return to_json([dict(item) for item in items])


def to_json(value: object) -> str:
    """Two blanks of indent and letters as they are: what people read and models are shown."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def with_fields(prompt: str, fields: Sequence[str]) -> str:
    return f"{prompt}\n\nReturn JSON with these fields: {', '.join(fields)}" if fields else prompt


def with_batch_fields(prompt: str, fields: Sequence[str], count: int) -> str:
    if not fields:
        return prompt
    return (
        f"{prompt}\n\nReturn a JSON array with {count} objects, one for each input item, in the same order. "
        f"Each object must have these fields: {', '.join(fields)}"
    )


def with_rows(prompt: str, fields: Sequence[str]) -> str:
    return f"{prompt}\n\nReturn a JSON array where each object has these fields: {', '.join(fields)}"

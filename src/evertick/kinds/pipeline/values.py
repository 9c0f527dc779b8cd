"""How a value from a file or an answer is written as text."""

from __future__ import annotations

import json
from collections.abc import Mapping


def as_text(value: object) -> str:
    """A value of a file as prompts and tables show it: a number without a needless fraction, JSON for the rest."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, int | float):
        return str(value)
    return json.dumps(plain_of(value), ensure_ascii=False, default=str)


def plain_of(value: object) -> object:
    """Without read-only views, which JSON cannot write."""
    if isinstance(value, Mapping):
        return {str(name): plain_of(part) for name, part in value.items()}
    return [plain_of(part) for part in value] if isinstance(value, list | tuple) else value

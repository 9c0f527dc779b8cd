"""Reads values from plain data, with errors that name the field, and writes them as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from evertick.errors import DefinitionError

Plain: TypeAlias = Mapping[str, object]


def refuse(field: str, reason: str, hint: str | None = None) -> NoReturn:
    raise DefinitionError(f"'{field}' {reason}.", hint=hint, field=field)


def map_in(part: Plain, name: str, field: str) -> Plain | None:
    value = part.get(name)
    if value is not None and not isinstance(value, Mapping):
        refuse(field, f"must be a map, not a {type(value).__name__}")
    return value


def list_in(part: Plain, name: str, field: str) -> Sequence[object]:
    value = part.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        refuse(field, f"must be a list, not a {type(value).__name__}")
    return value


def text_in(part: Plain, name: str, field: str) -> str | None:
    """A text; an empty one counts as missing."""
    value = part.get(name)
    if value is not None and not isinstance(value, str):
        refuse(field, f"must be a text, not a {type(value).__name__}", "Put it in quotes.")
    return value if value and value.strip() else None


def names_in(part: Plain, name: str, field: str) -> tuple[str, ...]:
    """A list of names, each once."""
    names: list[str] = []
    for one in list_in(part, name, field):
        if not isinstance(one, str) or not one.strip():
            refuse(field, f"holds {one!r}, which is not a name", "Write a list of names: [severity, category].")
        names.append(one.strip())
    if len({one.lower() for one in names}) < len(names):
        refuse(field, "names a field twice", "Case does not matter.")
    return tuple(names)


def whole_in(part: Plain, name: str, field: str, *, least: int, most: int) -> int | None:
    value = part.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        refuse(field, f"is {value!r}", f"Write a whole number from {least:,} to {most:,}.")
    return value


def boolean_in(part: Plain, name: str, field: str) -> bool:
    value = part.get(name, False)
    if not isinstance(value, bool):
        refuse(field, f"is {value!r}", "Write true or false.")
    return value


def as_text(value: object) -> str:
    """A value as prompts and tables show it: whole numbers without a fraction, JSON for lists and maps."""
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
    """Plain dicts and lists, which JSON can write."""
    if isinstance(value, Mapping):
        return {str(name): plain_of(part) for name, part in value.items()}
    return [plain_of(part) for part in value] if isinstance(value, list | tuple) else value

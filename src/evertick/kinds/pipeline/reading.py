"""How a value is taken out of plain data, or refused with the name of its field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from evertick.errors import DefinitionError

Plain: TypeAlias = Mapping[str, Any]


def refuse(field: str, reason: str, hint: str | None = None) -> NoReturn:
    raise DefinitionError(f"'{field}' {reason}.", hint=hint, field=field)


def map_in(part: Plain, name: str, field: str) -> Plain | None:
    value = part.get(name)
    if value is not None and not isinstance(value, Mapping):
        refuse(field, f"must be a map, not a {type(value).__name__}")
    return value


def list_in(part: Plain, name: str, field: str) -> Sequence[Any]:
    value = part.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        refuse(field, f"must be a list, not a {type(value).__name__}")
    return value


def text_in(part: Plain, name: str, field: str) -> str | None:
    """A text; an empty one counts as not written."""
    value = part.get(name)
    if value is not None and not isinstance(value, str):
        refuse(field, f"must be a text, not a {type(value).__name__}", "Put it in quotes.")
    return value if value and value.strip() else None


def names_in(part: Plain, name: str, field: str) -> tuple[str, ...]:
    """A list of names, each once."""
    names = list_in(part, name, field)
    for one in names:
        if not isinstance(one, str) or not one.strip():
            refuse(field, f"holds {one!r}, which is not a name", "Write a list of names: [severity, category].")
    folded = [one.strip().lower() for one in names]
    if len(set(folded)) < len(folded):
        refuse(field, "names a field twice", "Upper and lower case are the same here.")
    return tuple(one.strip() for one in names)


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

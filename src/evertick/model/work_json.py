"""How a job's work is written down as plain data, and read back to the same value.

A run keeps it as the snapshot of what it carried out, and it is what another process is handed. Secrets stay
references: their values are looked up where the run starts.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from typing import TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from evertick.model.work import Work

Plain: TypeAlias = dict[str, object]
Kind: TypeAlias = object
"""A class, or a form of `typing` such as `tuple[int, ...]`: what the annotation of a field is."""

T = TypeVar("T")

_ONE_OF = (Union, types.UnionType)


def to_plain(work: Work) -> Plain:
    """Dicts, lists and scalars for JSON; default values are left out."""
    plain = plain_of(work)
    assert isinstance(plain, dict)
    return plain


def from_plain(plain: object) -> Work:
    """The work that `to_plain` wrote; ValueError says which part cannot be one."""
    work = value_of(Work, plain)
    assert isinstance(work, Work)
    return work


def plain_of(value: object, kind: Kind = None) -> object:
    """A value of the model as plain data; `kind` is the type of its place, where several could stand there."""
    if is_dataclass(value) and not isinstance(value, type):
        hints = _hints(type(value))
        plain = {
            field.name: plain_of(part, hints[field.name])
            for field in fields(value)
            if not _is_default(field, part := getattr(value, field.name))
        }
        return {type(value).__name__: plain} if len(_classes(kind)) > 1 else plain
    if isinstance(value, StrEnum):
        return str(value)
    if isinstance(value, tuple):
        inner = get_args(kind)
        return [
            plain_of(part, inner[0] if len(inner) == 2 and inner[1] is ... else inner[index])
            for index, part in enumerate(value)
        ]
    if isinstance(value, Mapping):
        return {str(name): _carried(part) for name, part in value.items()}
    return value


def value_of(kind: Kind, plain: object, place: str = "") -> object:
    """The value of a type that `plain_of` wrote."""
    origin = get_origin(kind)
    if origin in _ONE_OF:
        return _one_of(kind, plain, place)
    if origin is tuple:
        return _tuple(get_args(kind), plain, place)
    if origin is not None and issubclass(origin, Mapping):
        return dict(_checked(plain, dict, place))
    assert isinstance(kind, type), kind
    if is_dataclass(kind):
        return _dataclass(kind, plain, place)
    if issubclass(kind, StrEnum):
        try:
            return kind(_checked(plain, str, place))
        except ValueError:
            raise _refused(place, f"{plain!r} is not one of {', '.join(kind)}") from None
    if kind is float and isinstance(plain, int) and not isinstance(plain, bool):
        return float(plain)
    if kind is int and isinstance(plain, bool):
        raise _refused(place, "a number was expected, not true or false")
    return _checked(plain, kind, place)


def _dataclass(kind: type, plain: object, place: str) -> object:
    hints = _hints(kind)
    written = _checked(plain, dict, place)
    strangers = [name for name in written if name not in hints]
    if strangers:
        raise _refused(place, f"{kind.__name__} has no field {strangers[0]!r}; a newer version may have written it")
    values = {name: value_of(hints[name], part, f"{place}.{name}".lstrip(".")) for name, part in written.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise _refused(place, str(error)) from None


def _one_of(kind: Kind, plain: object, place: str) -> object:
    """None, a text, or one of several classes, which is then named."""
    if plain is None and type(None) in get_args(kind):
        return None
    classes = _classes(kind)
    others = [one for one in get_args(kind) if one is not type(None) and not is_dataclass(one)]
    if not isinstance(plain, dict) or not classes:
        if not others:
            raise _refused(place, f"{plain!r} is not allowed here")
        return value_of(others[0], plain, place)
    if len(classes) == 1:
        return value_of(classes[0], plain, place)
    if len(plain) == 1:
        ((name, inner),) = plain.items()
        for one in classes:
            if one.__name__ == name:
                return value_of(one, inner, f"{place}.{name}".lstrip("."))
    raise _refused(place, f"one of {', '.join(one.__name__ for one in classes)} was expected")


def _tuple(inner: tuple[Kind, ...], plain: object, place: str) -> tuple[object, ...]:
    parts = _checked(plain, list, place)
    if len(inner) == 2 and inner[1] is ...:
        return tuple(value_of(inner[0], part, f"{place}[{index}]") for index, part in enumerate(parts))
    if len(parts) != len(inner):
        raise _refused(place, f"{len(inner)} values were expected, not {len(parts)}")
    return tuple(value_of(kind, part, place) for kind, part in zip(inner, parts, strict=True))


def _checked(plain: object, kind: type[T], place: str) -> T:
    if not isinstance(plain, kind):
        raise _refused(place, f"{kind.__name__} was expected, not {type(plain).__name__}")
    return plain


def _carried(value: object) -> object:
    """A user's own data, without read-only views and tuples."""
    if isinstance(value, Mapping):
        return {str(name): _carried(part) for name, part in value.items()}
    return [_carried(part) for part in value] if isinstance(value, list | tuple) else value


def _refused(place: str, reason: str) -> ValueError:
    return ValueError(f"this is not the work of a job: {place or 'the whole'}: {reason}.")


def _is_default(field: Field[object], part: object) -> bool:
    if field.default is not MISSING:
        return bool(part == field.default)
    return field.default_factory is not MISSING and part == field.default_factory()


def _classes(kind: Kind) -> tuple[type, ...]:
    return (
        tuple(one for one in get_args(kind) if isinstance(one, type) and is_dataclass(one))
        if get_origin(kind) in _ONE_OF
        else ()
    )


@cache
def _hints(kind: type) -> dict[str, Kind]:
    return get_type_hints(kind)

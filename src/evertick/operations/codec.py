"""Converts results to JSON and back: times as RFC 3339 in UTC, enums by value, tuples as arrays.

`to_json` and `from_json` are inverse. A field that a newer server added is ignored; what is missing or has the wrong
type is a `ServerUnavailable` that names the place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from datetime import datetime
from enum import StrEnum
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from evertick.errors import ServerUnavailable
from evertick.model.instant import from_datetime, to_text
from evertick.operations.results.base import Result, json_name

R = TypeVar("R", bound=Result)

Decoder = Callable[[object], object]
"""Takes what `json.loads` returned, raises `_Mismatch`."""


# --- encoding


def to_json(result: Result) -> bytes:
    """The result as JSON. The text is kept with the result, so that a shared one is encoded once."""
    names = result.VOLATILE
    if not names:
        return _kept_text(result, _fields_of)
    shared = _kept_text(getattr(result, "_origin", result), _shared_fields_of)
    volatile = _encode({json_name(name): getattr(result, name) for name in names})
    return volatile[:-1] + b"," + shared[1:]


def refreshed(result: R, **volatile: object) -> R:
    """The result with its volatile fields replaced; the text of the others is not encoded again."""
    found = replace(result, **volatile)
    object.__setattr__(found, "_origin", result)
    return found


@overload
def to_data(value: Result) -> dict[str, object]: ...
@overload
def to_data(value: object) -> object: ...
def to_data(value: object) -> object:
    """The result as `json.loads` would return it: dicts, lists, text and numbers."""
    if isinstance(value, Result):
        return {name: to_data(one) for name, one in _fields_of(value).items()}
    if isinstance(value, str):
        return str(value) if isinstance(value, StrEnum) else value
    if isinstance(value, datetime):
        return _time_text(value)
    if isinstance(value, Mapping):
        return {str(name): to_data(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [to_data(one) for one in value]
    return value


def _kept_text(result: Result, data_of: Callable[[Result], dict[str, object]]) -> bytes:
    try:
        return result._text
    except AttributeError:
        text = _encode(data_of(result))
        object.__setattr__(result, "_text", text)  # it does not change what the result says
        return text


def _fields_of(result: Result) -> dict[str, object]:
    kind: object = type(result)  # mypy takes the hash of its instances for that of the class
    return _reader_of(kind)(result)


def _shared_fields_of(result: Result) -> dict[str, object]:
    volatile = {json_name(name) for name in result.VOLATILE}
    return {name: value for name, value in _fields_of(result).items() if name not in volatile}


@cache
def _reader_of(kind: object) -> Callable[[Result], dict[str, object]]:
    """The function that reads all fields of a class into a dict with their JSON names, times as text.

    It is compiled, as `dataclass` does with `__init__`: a loop over the fields takes twice as long, and a page of the
    ledger has 28,000 of them.
    """
    assert isinstance(kind, type)
    assert issubclass(kind, Result)
    hints = get_type_hints(kind)
    pairs = ", ".join(f"{json_name(one.name)!r}: {_expression(one.name, hints[one.name])}" for one in fields(kind))
    reader: Callable[[Result], dict[str, object]] = eval(f"lambda result: {{{pairs}}}", {"text_of": _time_text})
    return reader


def _expression(name: str, hint: object) -> str:
    if hint is datetime:
        return f"text_of(result.{name})"
    if hint == datetime | None:
        return f"None if result.{name} is None else text_of(result.{name})"
    return f"result.{name}"


@lru_cache(maxsize=1 << 12)
def _time_text(at: datetime) -> str:
    # Remembered: a result has thousands of times, and most of them are those of the result before.
    return to_text(from_datetime(at))


def _encode(data: object) -> bytes:
    return _ENCODER.encode(data).encode("utf-8", "replace")


def _plain(value: object) -> object:
    """What the encoder does not know itself."""
    if isinstance(value, Result):
        return _fields_of(value)
    if isinstance(value, datetime):
        return _time_text(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not part of a result: {value!r}")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)


# --- decoding


def from_json(kind: type[R], text: bytes | str) -> R:
    """The result that JSON text holds."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ServerUnavailable(f"the answer is not JSON: {error}.") from error
    return from_data(kind, data)


def from_data(kind: type[R], data: object) -> R:
    """The result that `json.loads` returned."""
    hashable: object = kind
    try:
        found = _decoder_of(hashable)(data)
    except _Mismatch as error:
        place = f"{kind.__name__}{error.place}"
        raise ServerUnavailable(
            f"the answer is not what this version expects: {place} {error}. Next: use the same version on both sides."
        ) from error
    assert isinstance(found, kind)
    return found


class _Mismatch(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.place = ""

    def inside(self, part: str) -> _Mismatch:
        self.place = part + self.place
        return self


@cache
def _decoder_of(kind: object) -> Decoder:
    """The function that decodes one type. Made once per type: the hints of a class are slow to resolve."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return _optional([one for one in arguments if one is not NoneType], has_none=NoneType in arguments)
    if origin is Literal:
        return _one_of(arguments)
    if origin is tuple:
        return _tuple_of(_decoder_of(arguments[0]))
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return _mapping_of(*map(_decoder_of, arguments))
    if isinstance(kind, type) and issubclass(kind, Result):
        return _result_of(kind)
    if kind is datetime:
        return _datetime
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _enum_of(kind)
    if kind is object:
        return _anything
    assert isinstance(kind, type), kind
    return _PLAIN[kind]


def _result_of(kind: type[Result]) -> Decoder:
    hints = get_type_hints(kind)
    parts = [
        (json_name(field.name), _plain_types(hints[field.name]), _decoder_of(hints[field.name]), field.default)
        for field in fields(kind)
    ]

    def decode(data: object) -> object:
        if not isinstance(data, dict):
            raise _expected("an object", data)
        values = []
        for key, plain_types, decode_field, default in parts:
            value = data.get(key, MISSING)
            # A list of all jobs has a quarter of a million values, and most are as they should be.
            if type(value) not in plain_types:
                if value is not MISSING:
                    try:
                        value = decode_field(value)
                    except _Mismatch as error:
                        raise error.inside(f".{key}") from None
                elif default is MISSING:
                    raise _Mismatch("is missing").inside(f".{key}")
                else:
                    value = default
            values.append(value)
        return kind(*values)

    return decode


def _plain_types(kind: object) -> frozenset[type]:
    """The Python types that JSON gives a field of this type, if they need no conversion; else none."""
    parts = set(get_args(kind)) if get_origin(kind) in (Union, UnionType) else {kind}
    return frozenset(part for part in parts if part in _PLAIN or part is NoneType)


def _optional(kinds: Sequence[object], *, has_none: bool) -> Decoder:
    decoders = [_decoder_of(kind) for kind in kinds]
    if len(decoders) == 1:
        (only,) = decoders
        return lambda data: None if data is None and has_none else only(data)

    def decode(data: object) -> object:
        if data is None and has_none:
            return None
        for number, decode_one in enumerate(decoders):
            try:
                return decode_one(data)
            except _Mismatch:
                if number == len(decoders) - 1:
                    raise
        raise AssertionError("a union has at least one type")

    return decode


def _one_of(known: Sequence[object]) -> Decoder:
    def decode(data: object) -> object:
        if data not in known:
            raise _Mismatch(f"is {data!r}, not one of {', '.join(map(str, known))}")
        return data

    return decode


def _enum_of(kind: type[StrEnum]) -> Decoder:
    known = {member.value: member for member in kind}

    def decode(data: object) -> object:
        found = known.get(data) if isinstance(data, str) else None
        if found is None:
            raise _Mismatch(f"is {data!r}, not one of {', '.join(known)}")
        return found

    return decode


def _tuple_of(decode_item: Decoder) -> Decoder:
    def decode(data: object) -> object:
        if not isinstance(data, list):
            raise _expected("a list", data)
        found = []
        for number, one in enumerate(data):
            try:
                found.append(decode_item(one))
            except _Mismatch as error:
                raise error.inside(f"[{number}]") from None
        return tuple(found)

    return decode


def _mapping_of(decode_key: Decoder, decode_value: Decoder) -> Decoder:
    def decode(data: object) -> object:
        if not isinstance(data, dict):
            raise _expected("an object", data)
        try:
            return {decode_key(key): decode_value(value) for key, value in data.items()}
        except _Mismatch as error:
            raise error.inside("{}") from None

    return decode


def _datetime(data: object) -> datetime:
    try:
        found = _moment_of(data) if isinstance(data, str) else None
    except ValueError:
        found = None
    if found is None:
        raise _expected("a time", data)
    if found.tzinfo is None:
        raise _expected("a time with an offset", data)
    return found


# Remembered, as for encoding: a list has the same times again and again.
_moment_of = lru_cache(maxsize=1 << 13)(datetime.fromisoformat)


def _anything(data: object) -> object:
    return data


def _text(data: object) -> str:
    if not isinstance(data, str):
        raise _expected("a text", data)
    return data


def _flag(data: object) -> bool:
    if not isinstance(data, bool):
        raise _expected("true or false", data)
    return data


def _integer(data: object) -> int:
    if not isinstance(data, int) or isinstance(data, bool):
        raise _expected("a whole number", data)
    return data


def _number(data: object) -> float:
    if not isinstance(data, int | float) or isinstance(data, bool):
        raise _expected("a number", data)
    return data


_PLAIN: dict[type, Decoder] = {str: _text, bool: _flag, int: _integer, float: _number}


def _expected(what: str, data: object) -> _Mismatch:
    return _Mismatch(f"is {json.dumps(data, default=repr)[:80]}, not {what}")

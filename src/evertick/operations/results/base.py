"""What all results have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

R = TypeVar("R", bound="Result")


def json_name(field: str) -> str:
    """The name of a field in JSON: `from_`, which Python does not allow without the underscore, is `from`."""
    return field.rstrip("_")


class _Encoded:
    """Has room for the JSON text that `codec` made of it."""

    __slots__ = ("_origin", "_text")

    _text: bytes
    _origin: Result
    """The shared result that this one has other volatile fields than."""


@dataclass(frozen=True, slots=True)
class Result(_Encoded):
    """The base of every result: a frozen dataclass whose fields are what JSON holds.

    Results are shared between callers, so they and everything in them are immutable. `codec` keeps the JSON text of a
    result with it: a view of all jobs is encoded once, however many pages show it.
    """

    VOLATILE: ClassVar[tuple[str, ...]] = ()
    """Fields that differ each time although the rest is shared, such as the current time."""

    # The API's schema is made from these classes; nothing here imports pydantic.
    __pydantic_config__: ClassVar[Mapping[str, object]] = {
        "extra": "forbid",
        "use_attribute_docstrings": True,
        "alias_generator": json_name,
    }


def fields_of(kind: type[R], result: R) -> dict[str, Any]:
    """The fields that `kind` declares, to make a result of a class that has these and more."""
    of_kind: object = kind  # mypy takes the hash of its instances for that of the class
    names, values_of = _reader_of(of_kind)
    return dict(zip(names, values_of(result), strict=True))


@cache
def _reader_of(kind: object) -> tuple[tuple[str, ...], Callable[[Result], tuple[Any, ...]]]:
    # Made once per class: a list of ten thousand jobs reads each of them, and its last run.
    assert isinstance(kind, type)
    names = tuple(one.name for one in fields(kind))
    return names, attrgetter(*names)

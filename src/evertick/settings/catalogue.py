"""The table of all settings, derived from the parts; the object built from values, and its listing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, TypeVar

from evertick.settings.parts import Setting, Values

Made = TypeVar("Made", bound=Values)

_UNITS = ("_us", "_bytes")


class Part(NamedTuple):
    key: str
    """Empty for what stands before all tables."""
    about: str
    settings: tuple[Setting, ...]


@cache
def parts() -> tuple[Part, ...]:
    return tuple(_parts(Values, (), ""))


@cache
def catalogue() -> Mapping[str, Setting]:
    return {setting.key: setting for part in parts() for setting in part.settings}


def build(cls: type[Made], values: Mapping[str, Any], **others: Any) -> Made:
    """The object; what is not in `values` has its default."""
    made: Made = _build(cls, (), values, others)
    return made


def _parts(cls: type, path: tuple[str, ...], about: str) -> Iterator[Part]:
    found: list[Setting] = []
    inner: list[Part] = []
    for one in fields(cls):
        here = (*path, one.name)
        if "kind" in one.metadata:
            key = ".".join((*path, _bare(one.name)))
            data = one.metadata
            found.append(Setting(key, here, data["kind"], one.default, data["meaning"], data["shown"]))
        elif "part" in one.metadata:
            inner += _parts(one.metadata["part"], here, one.metadata["about"])
    yield Part(".".join(path), about, tuple(found))
    yield from inner


def _build(cls: type, path: tuple[str, ...], values: Mapping[str, Any], others: Mapping[str, Any]) -> Any:
    given = dict(others)
    for one in fields(cls):
        if "part" in one.metadata:
            given[one.name] = _build(one.metadata["part"], (*path, one.name), values, {})
        elif (key := ".".join((*path, _bare(one.name)))) in values and "kind" in one.metadata:
            given[one.name] = values[key]
    return cls(**given)


def _bare(name: str) -> str:
    return next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name)


class Line(NamedTuple):
    key: str
    value: str
    origin: str
    """`default`, a file with its line, a variable, or an option."""
    variable: str
    meaning: str


def lines(settings: Values) -> list[Line]:
    found = []
    for setting in catalogue().values():
        origin = settings.origins.get(setting.key, "default")
        value = setting.kind.show(setting.value_in(settings))
        if setting.key == "timezone" and origin == "default":
            origin = settings.timezone_origin
        elif origin == "default" and setting.shown is not None and not value:
            value = setting.shown.replace("`", "")
        found.append(Line(setting.key, value, origin, setting.variable, setting.meaning))
    return found

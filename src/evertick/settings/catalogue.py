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


def build(cls: type[Made], values: Mapping[str, object], **others: object) -> Made:
    """The object; settings that are not in `values` have their defaults."""
    made: Made = _build(cls, (), values, others)
    return made


def _parts(cls: type, path: tuple[str, ...], about: str) -> Iterator[Part]:
    yield Part(".".join(path), about, tuple(_settings_in(cls, path, path)))
    for one in fields(cls):
        if "part" in one.metadata:
            yield from _parts(one.metadata["part"], (*path, one.name), one.metadata["about"])


def _settings_in(cls: type, table: tuple[str, ...], path: tuple[str, ...]) -> Iterator[Setting]:
    for one in fields(cls):
        here, data = (*path, one.name), one.metadata
        if "kind" in data:
            yield Setting(_key(table, one.name), here, data["kind"], one.default, data["meaning"], data["shown"])
        elif "inline" in data:
            yield from _settings_in(data["inline"], table, here)


def _build(cls: type, table: tuple[str, ...], values: Mapping[str, object], others: Mapping[str, object]) -> Any:
    given = dict(others)
    for one in fields(cls):
        if "part" in one.metadata:
            given[one.name] = _build(one.metadata["part"], (*table, one.name), values, {})
        elif "inline" in one.metadata:
            given[one.name] = _build(one.metadata["inline"], table, values, {})
        elif (key := _key(table, one.name)) in values and "kind" in one.metadata:
            given[one.name] = values[key]
    return cls(**given)


def _key(table: tuple[str, ...], name: str) -> str:
    return ".".join((*table, _bare(name)))


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

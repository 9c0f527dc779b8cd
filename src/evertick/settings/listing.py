"""How the settings stand: each with its value and where it came from, as it may be shown to anybody."""

from __future__ import annotations

from typing import NamedTuple

from evertick.settings.catalogue import catalogue
from evertick.settings.parts import Values


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

"""The kinds of settings: how each is read from a file, a variable or an option, and shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar
from urllib.parse import urlsplit, urlunsplit

from evertick.errors import DurationError
from evertick.model.duration import format_duration, parse_duration
from evertick.model.work import Secret, Value
from evertick.settings.zone import is_zone

_YES: Final = frozenset({"true", "yes", "on", "1"})
_NO: Final = frozenset({"false", "no", "off", "0"})
_NEVER: Final = "forever"
_NONE: Final = "none"
_UNITS: Final = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?(B|KiB|MiB|GiB)?")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")


class InvalidSetting(ValueError):
    """A value of the wrong kind: the reason, and what to write instead."""


Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Kind(Generic[Read]):
    word: str
    """As the documentation calls it."""
    read: Callable[[object], Read]
    """From what TOML gives, or from the text of a variable or an option; raises `InvalidSetting`."""
    show: Callable[[Read], str] = str
    """As it may be shown; never a secret."""
    is_path: bool = False
    """Relative to the file it is written in."""
    is_secret: bool = False
    """An environment variable may contain the value itself; a file only says where it is stored."""
    has_variable: bool = True
    """Whether an environment variable can set it; tables of tables are written in the file only."""


def count(least: int, most: int = 1_000_000_000, *, none: bool = False) -> Kind[int | None]:
    def read(value: object) -> int | None:
        return None if none and value == _NONE else _whole(value, least, most)

    word = f"number from {least:,}" + (f" to {most:,}" if most < 1_000_000_000 else "")
    return Kind(f"{word}, or `none`" if none else word, read, lambda value: _NONE if value is None else str(value))


def _whole(value: object, least: int, most: int) -> int:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value):
        value = int(value)
    if type(value) is not int:
        raise InvalidSetting("it is not a whole number", f"Write a number from {least:,} to {most:,}.")
    if not least <= value <= most:
        raise InvalidSetting(
            f"it must be from {least:,} to {most:,}", f"Write such a number, for example {max(least, 1)}."
        )
    return value


def duration(*, forever: bool = False) -> Kind[int | None]:
    def read(value: object) -> int | None:
        if forever and value == _NEVER:
            return None
        if not isinstance(value, str):
            raise InvalidSetting("a duration is a text with units", 'Write it in quotes, for example "90s" or "1h30m".')
        try:
            return parse_duration(value, allow_subsecond=True)
        except DurationError as error:
            raise InvalidSetting(error.reason.rstrip("."), error.hint or "") from None

    word = "duration, or `forever`" if forever else "duration"
    return Kind(word, read, lambda value: _NEVER if value is None else format_duration(value))


def choice(*words: str) -> Kind[str]:
    def read(value: object) -> str:
        if value not in words:
            raise InvalidSetting("it is not one of the choices", f"Write one of: {', '.join(words)}.")
        return str(value)

    return Kind(" or ".join(f"`{word}`" for word in words), read)


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.lower() if isinstance(value, str) else None
    if word not in _YES | _NO:
        raise InvalidSetting("it is neither true nor false", "Write true or false.")
    return word in _YES


def _line(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidSetting("it is not a text", "Write it in quotes.")
    if not value.isprintable():
        raise InvalidSetting("it contains an invisible character", "Write one line of text.")
    return value.strip()


def _size(value: object) -> int:
    found = _SIZE.fullmatch(str(value)) if not isinstance(value, bool) else None
    if found is None or int(found[1]) == 0:
        raise InvalidSetting("it is not a size", 'Write a number of bytes, or a text such as "64MiB".')
    return int(found[1]) * _UNITS[found[2] or ""]


def _show_size(value: int) -> str:
    unit = next(unit for unit, size in reversed(_UNITS.items()) if value % size == 0)
    return f"{value // _UNITS[unit]}{unit}" if unit else str(value)


def _path(value: object) -> Path | None:
    text = _line(value)
    return Path(text).expanduser() if text else None


def _lines(value: object) -> tuple[str, ...]:
    """A list of texts; in a variable or an option they are parted by commas."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise InvalidSetting("it is not a list", 'Write a list such as ["one", "two"].')
    return tuple(dict.fromkeys(text for item in items if (text := _line(item))))


def _limits(value: object) -> tuple[tuple[str, int], ...]:
    """A table of names and numbers; in a variable or an option `name=2,other=3`."""
    if isinstance(value, str):
        value = dict(_pair(part) for part in value.split(",") if part.strip())
    if not isinstance(value, Mapping):
        raise InvalidSetting("it is not a table of names and numbers", "Write name = 2 below it.")
    limits = []
    for name, number in value.items():
        if not _NAME.fullmatch(str(name)):
            raise InvalidSetting(f"'{name}' is not a name", "Write it in lower case, with digits, '-', '_' and '.'.")
        limits.append((name, _whole(number, 1, 1_000_000)))
    return tuple(limits)


def _secrets(value: object) -> tuple[tuple[str, Value], ...]:
    """A table of names and where a secret of each is kept; in a variable or an option `name=env:X,other=file:Y`."""
    if isinstance(value, str):
        value = dict(_pair(part) for part in value.split(",") if part.strip())
    if not isinstance(value, Mapping):
        raise InvalidSetting("it is not a table of names and secrets", 'Write name = "env:NAME" below it.')
    return tuple((str(name), _secret(text)) for name, text in value.items())


def _pair(part: str) -> tuple[str, str]:
    name, _, number = part.partition("=")
    return name.strip(), number.strip()


def _zone(value: object) -> str:
    text = _line(value)
    if not is_zone(text):
        raise InvalidSetting("it is not a time zone", "Write an IANA name such as Europe/Berlin.")
    return text


def value_of(text: object) -> Value:
    """A text as it is, or `env:NAME` and `file:PATH`: where it is kept."""
    written = _line(text)
    source, colon, name = written.partition(":")
    if colon and source in {"env", "file"}:
        if not name.strip():
            raise InvalidSetting(f"'{source}:' names nothing", "Write env:NAME or file:PATH.")
        return Secret(source, name.strip())
    return written


def _secret(value: object) -> Value:
    found = value_of(value)
    if isinstance(found, Secret) or not found:
        return found
    raise InvalidSetting("a secret must not be in the file", "Write where it is kept: env:NAME or file:PATH.")


def _address(value: object) -> Value:
    found = value_of(value)
    if isinstance(found, str) and found:
        parts = urlsplit(found)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InvalidSetting(
                "it is not an address", "Write https://host/path, or where it is kept: env:NAME or file:PATH."
            )
    return found


def show_value(value: Value) -> str:
    """Where a secret is stored; for an address, the part that is not secret."""
    if isinstance(value, Secret):
        return f"{value.source}:{value.name}"
    return mask_url(value) if "://" in value else value


def mask_url(url: str) -> str:
    """Without a password, and without the path and query of a web address, which are often the secret themselves."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "an address that cannot be read"
    if parts.scheme in {"http", "https"}:
        hidden = "/***" if parts.path.strip("/") or parts.query else ""
        return f"{parts.scheme}://{host}{hidden}"
    user = f"{parts.username}{':***' if parts.password else ''}@" if parts.username else ""
    hidden_query = re.sub(r"(?i)(pass\w*|secret|token|key)=[^&]*", r"\1=***", parts.query)
    shown = urlunsplit((parts.scheme, user + host, parts.path, hidden_query, ""))
    # A path without a host keeps the slashes it was written with: two more or less are another file.
    return shown if host or "@" in shown else f"{parts.scheme}:{'//' if '://' in url else ''}{parts.path}"


FLAG: Final = Kind("`true` or `false`", _flag, lambda value: "true" if value else "false")
TEXT: Final = Kind("text", _line)
SIZE: Final = Kind("size", _size, _show_size)
PATH: Final = Kind("path", _path, lambda value: str(value) if value else "", is_path=True)
LINES: Final = Kind("list of texts", _lines, ", ".join)
LIMITS: Final = Kind("table of numbers", _limits, lambda value: ", ".join(f"{name}={number}" for name, number in value))
ZONE: Final = Kind("time zone", _zone)
STORE: Final = Kind("URL, `env:NAME` or `file:PATH`", value_of, show_value)
SECRET: Final = Kind("`env:NAME` or `file:PATH`", _secret, show_value, is_secret=True)
SECRETS: Final = Kind(
    "table of `env:NAME` or `file:PATH`",
    _secrets,
    lambda value: ", ".join(f"{name}={show_value(secret)}" for name, secret in value),
)
ADDRESS: Final = Kind("address, `env:NAME` or `file:PATH`", _address, show_value)

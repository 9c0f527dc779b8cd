"""Parsed job files, kept between two starts: a file whose content is as before is not parsed again.

One line of JSON for each file, with its digest and, where only this content can have it, its stamp. Equal values are
written once and shared. Whatever may change the meaning of a file is part of the key in the first line; with another
key, or when anything is odd, the cache counts as empty. It may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import stat
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TextIO

import evertick
from evertick.definitions.calendars import calendar_stamps
from evertick.definitions.parsed_file import Parsed
from evertick.errors import DefinitionError
from evertick.model import blackout, calendar, constraint, job, notify, policy, routing, schedule, work
from evertick.model.job import Job, Origin
from evertick.settings import Settings

FILE_NAME: Final = "definitions.cache"
SIZE_MAX: Final = 1 << 30

_MODULES: Final = (blackout, calendar, constraint, job, notify, policy, routing, schedule, work)
_CODE: Final = ("definitions", "model", "planning", "settings")
"""The packages whose code decides what a file means."""


class UnknownType(Exception):
    """A value that this module cannot store; its file is parsed again at each start."""


class DefinitionCache:
    """The cache of one folder. `root` is what the names of its files begin with, as this process writes them."""

    def __init__(self, path: Path, folder: str, settings: Settings, root: str | None = None) -> None:
        self._path = path
        self._folder = os.path.abspath(folder)
        self._root = os.path.join(folder, "") if root is None else root
        self._settings = settings
        self.stamps: dict[str, tuple[int, ...]] = {}
        """By file, once it was read: the stamp that its content had. None of a file that had just been changed."""

    def read(self) -> dict[str, tuple[bytes, Parsed]]:
        """By file: the digest of its content, and the parsed result. Empty unless this user wrote it, with this key."""
        try:
            with _open_own(self._path) as stream:
                lines = iter(stream)
                if next(lines, "").rstrip("\n") != self._key():
                    return {}
                decode = _Decoder(self._root)
                found = {}
                for file, digest, parsed, stamp in map(decode, lines):
                    found[file] = (digest, parsed)
                    if stamp:
                        self.stamps[file] = tuple(stamp)
                return found
        # An invalid line ends the whole file: values refer to those of earlier lines.
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return {}

    def write(
        self, files: Mapping[str, tuple[bytes, Parsed]], stamps: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    ) -> None:
        """Replace the cache atomically, readable by this user only: definitions may contain secrets.

        `stamps` are those that only this content can have.
        """
        temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
            with open(os.open(temporary, flags, 0o600), "w", encoding="ascii") as stream:
                stream.write(self._key() + "\n")
                stream.writelines(self._lines(files, stamps))
            temporary.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()

    def _lines(self, files: Mapping[str, tuple[bytes, Parsed]], stamps: Mapping[str, tuple[int, ...]]) -> Iterator[str]:
        encode = _Encoder(self._root)
        for file, (digest, parsed) in files.items():
            # Errors are not cached: the next start reads such a file again.
            if not parsed.errors:
                with contextlib.suppress(UnknownType):
                    line = [digest.hex(), *encode(file, parsed), stamps.get(file)]
                    yield json.dumps(line, separators=(",", ":")) + "\n"

    def _key(self) -> str:
        """Everything that decides what a file means, besides its content and its name."""
        digest = hashlib.blake2b(digest_size=16)
        settings = repr(meaningful_settings(self._settings))
        for part in (settings, self._folder, os.path.expanduser("~"), *_zone_stamps(), *_code_stamps()):
            digest.update(part.encode("utf-8", "surrogateescape") + b"\0")
        return json.dumps(["evertick definitions", digest.hexdigest()])


def meaningful_settings(settings: Settings) -> tuple[object, ...]:
    """The settings that a parser reads."""
    grace_origin = settings.origins.get("jobs.grace")
    zone = (settings.timezone, settings.timezone_origin)
    return (
        zone,
        settings.jobs,
        grace_origin,
        settings.queues,
        settings.notifications.channels,
        settings.limits.file_bytes,
        settings.calendars,
        settings.blackouts,
        calendar_stamps(settings),
    )


def _open_own(path: Path) -> TextIO:
    """A file that only this user can have written; OSError otherwise."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    is_own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    if not is_own or found.st_size > SIZE_MAX:
        os.close(descriptor)
        raise OSError("the cache of definitions is not a private file of this user")
    return open(descriptor, encoding="ascii")


def _zone_stamps() -> Iterator[str]:
    for path in zoneinfo.TZPATH:
        with contextlib.suppress(OSError):
            yield f"{path} {os.stat(path).st_mtime_ns}"


def _code_stamps() -> Iterator[str]:
    """A stamp of each module that decides what a file means: the version number does not change during development."""
    package = Path(evertick.__file__).parent
    for part in _CODE:
        for folder, _folders, names in os.walk(package / part):
            for name in sorted(names):
                if name.endswith(".py"):
                    found = os.stat(os.path.join(folder, name))
                    yield f"{folder}/{name} {found.st_mtime_ns} {found.st_size}"


def _dataclasses() -> Iterator[type]:
    yield Parsed
    for module in _MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == module.__name__:
                yield value


_CLASSES: Final = {kind.__name__: kind for kind in _dataclasses()}
_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    kind: tuple(field.name for field in dataclasses.fields(kind))
    for kind in _CLASSES.values()
    if dataclasses.is_dataclass(kind)
}
_ENUMS: Final = frozenset(kind for kind in _CLASSES.values() if issubclass(kind, Enum))
_ERROR_FIELDS: Final = ("reason", "hint", "field", "file", "line", "column")
_PLAIN: Final = (str, int, float, bool, type(None))


def _make_error(reason: str, *rest: Any) -> DefinitionError:
    return DefinitionError(reason, **dict(zip(_ERROR_FIELDS[1:], rest, strict=True)))


def _make_mapping(*parts: object) -> dict[object, object]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


_MAKERS: Final[dict[str, Callable[..., object]]] = {
    **_CLASSES,
    "tuple": lambda *items: items,
    "list": lambda *items: list(items),
    "dict": _make_mapping,
    "proxy": lambda *parts: MappingProxyType(_make_mapping(*parts)),
    "proxy like": lambda base, *parts: MappingProxyType(base.copy() | _make_mapping(*parts)),
    "error": _make_error,
}


class _Rooted(str):
    """A place in a file of the folder, stored without the common beginning of all paths."""

    __slots__ = ()


class _Encoder:
    """Numbers every value that it sees, and writes each one once: a plain one as itself, others as `[name, parts]`."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._numbers: dict[object, int] = {}
        self._new: list[object] = []
        self._alike: dict[tuple[int, ...], tuple[int, tuple[int, ...]]] = {}
        """The last mapping with these keys, and its values."""

    def __call__(self, file: str, parsed: Parsed) -> tuple[list[object], int, int]:
        """The values that no line had before, in order, and the numbers of the file's name and of what it means."""
        self._new = []
        before = len(self._numbers)
        try:
            return self._new, self._number(_Rooted(file)), self._number(parsed)
        except UnknownType:
            for known in list(self._numbers)[before:]:
                del self._numbers[known]
            self._alike.clear()  # they may name what was just removed
            raise

    def _number(self, value: object) -> int:
        if type(value) in _PLAIN:
            return self._add((type(value), value), value)
        if isinstance(value, _Rooted):
            if not value.startswith(self._root):
                return self._number(str(value))
            found: tuple[str, Iterable[object]] = ("rooted", [value[len(self._root) :]])
        else:
            found = _parts_of(value)
        name, parts = found
        entry = (name, *map(self._number, parts))
        is_new_mapping = name == "proxy" and entry not in self._numbers
        return self._add(entry, self._as_change(entry) if is_new_mapping else entry)

    def _as_change(self, entry: tuple[Any, ...]) -> tuple[object, ...]:
        """A mapping as what it changes of one with the same keys: where its job got each value from is mostly alike."""
        keys, values = entry[1::2], entry[2::2]
        known = self._alike.get(keys)
        self._alike[keys] = (len(self._numbers), values)
        if known is None or not keys:
            return entry
        number, before = known
        pairs = zip(keys, values, before, strict=True)
        return ("proxy like", number, *chain.from_iterable((key, new) for key, new, old in pairs if new != old))

    def _add(self, key: object, written: object) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._new.append(written)
        return number


class _Decoder:
    """Rebuilds the values of each line, which refer to values of earlier lines by number."""

    def __init__(self, root: str) -> None:
        self._values: list[object] = []
        self._makers = {**_MAKERS, "rooted": root.__add__}
        self._read = json.JSONDecoder().raw_decode

    def __call__(self, line: str) -> tuple[str, bytes, Parsed, list[int] | None]:
        digest, new, file, number, stamp = self._read(line)[0]
        values, makers, value_of = self._values, self._makers, self._values.__getitem__
        for entry in new:
            if type(entry) is list:
                name, *parts = entry
                values.append(makers[name](*map(value_of, parts)))
            else:
                values.append(entry)
        parsed = values[number]
        if not isinstance(parsed, Parsed):
            raise TypeError("a line of the cache is not about a file")
        return values[file], bytes.fromhex(digest), parsed, stamp


def _rooted(file: str | None) -> _Rooted | None:
    return None if file is None else _Rooted(file)


def _parts_of(value: object) -> tuple[str, Iterable[object]]:
    kind = type(value)
    if isinstance(value, Job):
        own = {"file": _rooted(value.file)}
        return kind.__name__, [own.get(name, getattr(value, name)) for name in _FIELDS[kind]]
    if isinstance(value, Origin):
        return kind.__name__, [_rooted(value.file), value.line, value.note]
    if kind in _FIELDS:
        return kind.__name__, [getattr(value, name) for name in _FIELDS[kind]]
    if isinstance(value, Enum) and kind in _ENUMS:
        return kind.__name__, [value.value]
    match value:
        case tuple():
            return "tuple", value
        case list():
            return "list", value
        case dict():
            return "dict", chain.from_iterable(value.items())
        case MappingProxyType():
            return "proxy", chain.from_iterable(value.items())
        case DefinitionError() if kind is DefinitionError:
            return "error", [value.reason, value.hint, value.field, _rooted(value.file), value.line, value.column]
    raise UnknownType(kind)

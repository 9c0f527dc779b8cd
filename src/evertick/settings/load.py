"""Loads settings from the defaults, a file, the environment and the options, and reports errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from evertick.errors import SettingsError
from evertick.model.work import Secret, Value
from evertick.settings.blackouts import BLACKOUTS
from evertick.settings.calendars import CALENDARS, place_calendars
from evertick.settings.catalogue import Made, build, catalogue, parts
from evertick.settings.kinds import InvalidSetting
from evertick.settings.parts import Setting, Values, variable_of
from evertick.settings.zone import system_timezone

FILE_NAME: Final = "evertick.toml"
CONFIG: Final = "EVERTICK_CONFIG"
FILE_MAX: Final = 1 << 20

_Piece: TypeAlias = tuple[object, str]
"""A part of a setting, and its file and line."""


@dataclass(slots=True)
class _Found:
    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def take(
        self, setting: Setting, written: object, origin: str, base: Path | None, pieces: Sequence[_Piece] = ()
    ) -> None:
        """`pieces` are the parts of a table that have lines of their own: an error is reported there, and all are."""
        wrong = [place for one, place in pieces if not self._is_valid(setting, one, place)]
        if wrong or not self._is_valid(setting, written, origin):
            return
        value = _placed(setting, setting.kind.read(written), base)
        if setting.kind is BLACKOUTS:
            places = [place for _, place in pieces] or [origin] * len(value)
            value = tuple(replace(rule, origin=place) for rule, place in zip(value, places, strict=True))
        self.values[setting.key] = value
        self.origins[setting.key] = origin

    def _is_valid(self, setting: Setting, written: object, origin: str) -> bool:
        try:
            if isinstance(written, str) and not written.strip():
                raise InvalidSetting("it is empty", "Write a value, or remove the setting to use the default.")
            setting.kind.read(written)
        except InvalidSetting as unfit:
            reason, hint = unfit.args
            shown = "" if setting.kind.is_secret or not isinstance(written, str | int | float) else f" is {written!r}:"
            self.problems.append(f"{origin}: '{setting.key}'{shown or ':'} {reason}. {hint}".rstrip())
            return False
        return True


def load(cls: type[Made], folder: Path | None, environ: Mapping[str, str], overrides: Mapping[str, object]) -> Made:
    found = _Found()
    config = _config(folder, environ, overrides.get("config"))
    if config is not None:
        _from_file(config, found)
    warnings = _from_environment(environ, found)
    for key, written in overrides.items():
        if written is not None and key != "config":
            found.take(catalogue()[key], written, f"option --{key.replace('.', '-').replace('_', '-')}", None)
    _check_together(found)
    if found.problems:
        raise SettingsError("\n".join(found.problems))
    if isinstance(found.values.get("store"), Secret):
        found.values["store"] = reveal(found.values["store"], environ, "'store'")
    if "timezone" in found.values:
        origin = f"setting {found.origins['timezone']}"
    else:
        found.values["timezone"], origin = system_timezone(environ)
    return build(
        cls,
        found.values,
        timezone_origin=origin,
        config=config,
        origins=MappingProxyType(found.origins),
        warnings=tuple(warnings),
    )


def _config(folder: Path | None, environ: Mapping[str, str], option: object) -> Path | None:
    for written, origin in ((option, "option --config"), (environ.get(CONFIG, "").strip(), CONFIG)):
        if written:
            path = Path(str(written)).expanduser()
            if not path.is_file():
                raise SettingsError(f"{origin}: the file '{path}' does not exist. Write the path of a settings file.")
            return path
    path = (folder or Path()) / FILE_NAME
    return path if path.is_file() else None


def _from_file(path: Path, found: _Found) -> None:
    import tomllib

    try:
        with path.open("rb") as stream:
            source = stream.read(FILE_MAX + 1)
        if len(source) > FILE_MAX:
            raise SettingsError(f"{path}: it has more than {FILE_MAX:,} bytes. Write settings only.")
        text = source.decode()
        written = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"{path}: it cannot be read: {error.strerror}. Check its permissions.") from error
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: it is not UTF-8. Save it as UTF-8.") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path}: it is not TOML: {error}. See https://toml.io.") from None
    _from_table(written, (), path, text, found)


def _from_table(table: Mapping[str, object], above: tuple[str, ...], file: Path, text: str, found: _Found) -> None:
    names = {part.key for part in parts()}
    for name, value in table.items():
        place = (*above, name)
        key = ".".join(place)
        line = line_of(text, place)
        origin = f"{file}:{line}" if line else str(file)
        if key in catalogue():
            setting = catalogue()[key]
            pieces = [(one, f"{file}:{number}") for one, number in _pieces(setting, value, place, text) if number]
            found.take(setting, value, origin, file.parent, pieces)
        elif key in names and isinstance(value, Mapping):
            _from_table(value, place, file, text, found)
        elif key in names:
            found.problems.append(f"{origin}: '{key}' is a table. Write [{key}] and its settings below.")
        else:
            found.problems.append(f"{origin}: unknown setting '{key}'. {suggestion(key)}")


def _pieces(setting: Setting, value: object, place: tuple[str, ...], text: str) -> Iterator[tuple[object, int | None]]:
    """Each calendar and each blackout of the settings, with its line."""
    if setting.kind is CALENDARS and isinstance(value, Mapping):
        yield from (({name: one}, line_of(text, (*place, name))) for name, one in value.items())
    elif setting.kind is BLACKOUTS and isinstance(value, list):
        headers = _lines_of_tables(text, place)
        if len(headers) == len(value):
            yield from (([one], number) for one, number in zip(value, headers, strict=True))


def _lines_of_tables(text: str, place: tuple[str, ...]) -> list[int]:
    """Where the tables of a list, `[[name]]`, begin."""
    lines = enumerate(text.splitlines(), 1)
    headers = [(number, re.match(r"\s*\[\[([^\]]+)\]\]", line)) for number, line in lines]
    return [number for number, header in headers if header and _names(header[1]) == place]


def _from_environment(environ: Mapping[str, str], found: _Found) -> Iterator[str]:
    """Read the variables; returns probable typing mistakes. An empty variable counts as not set."""
    variables = {setting.variable: setting for setting in catalogue().values() if setting.variable}
    in_file = {variable_of(setting.key): setting.key for setting in catalogue().values() if not setting.variable}
    for name, setting in variables.items():
        text = environ.get(name, "").strip()
        if text and setting.kind.is_secret and text.partition(":")[0] not in {"env", "file"}:
            # The variable itself is where the secret is stored.
            text = f"env:{name}"
        if text:
            found.take(setting, text, name, None)
    known = [*variables, CONFIG]
    slips = []
    for name in sorted(environ):
        if name in in_file and environ[name].strip():
            slips.append(f"{name} has no effect. Write '{in_file[name]}' into {FILE_NAME}.")
        elif name.startswith("EVERTICK_") and name not in variables and environ[name].strip():
            near = get_close_matches(name, known, n=1, cutoff=0.87)
            if near and near[0] != name:
                slips.append(f"{name} is not a setting. Did you mean {near[0]}?")
    return iter(slips)


def _check_together(found: _Found) -> None:
    """Values that are valid individually, but not together."""
    values, problems = found.values, found.problems
    channels = dict(values.get("notifications.channels", ()))
    for key in [key for key in values if key.startswith("notifications.on_")]:
        for name in values[key]:
            if name not in channels:
                near = get_close_matches(name, channels, n=1, cutoff=0.5)
                hint = f"Did you mean '{near[0]}'?" if near else f"Add {name} = ... to [notifications.channels]."
                problems.append(f"{found.origins[key]}: '{key}' names the unknown channel '{name}'. {hint}")
    for one, other in (
        ("api.tls_cert", "api.tls_key"),
        ("fleet.tls_cert", "fleet.tls_key"),
        ("fleet.tls_ca", "fleet.tls_cert"),
    ):
        for here, missing in ((one, other), (other, one)):
            if values.get(here) and not values.get(missing):
                problems.append(f"{found.origins[here]}: '{here}' is set without '{missing}'. Set both, or none.")
    if values.get("notifications.smtp.password") and values.get("notifications.smtp.tls") == "none":
        origin = found.origins["notifications.smtp.tls"]
        problems.append(f"{origin}: the password for mail would be sent unencrypted. Set 'tls' to starttls or tls.")


def _placed(setting: Setting, value: Any, base: Path | None) -> Any:
    """Paths in a file are relative to the file."""
    if base is None:
        return value
    if setting.kind is CALENDARS:
        return place_calendars(value, base)
    if setting.kind.is_path and value is not None:
        return base / value
    if isinstance(value, Secret) and value.source == "file":
        return Secret("file", str(base / Path(value.name).expanduser()))
    return value


def suggestion(key: str) -> str:
    """The nearest setting: by its whole key, or by its last part if the table is wrong."""
    keys = [*catalogue(), *(part.key for part in parts() if part.key)]
    near = get_close_matches(key, keys, n=1, cutoff=0.75)
    if not near:
        last = key.rpartition(".")[2]
        near = [known for known in keys if known.rpartition(".")[2] == last][:1]
        near = near or get_close_matches(key, keys, n=1, cutoff=0.55)
    return f"Did you mean '{near[0]}'?" if near else "Next: evertick settings lists all settings."


def line_of(text: str, place: tuple[str, ...]) -> int | None:
    """The line of a key, as far as a simple search finds it."""
    table: tuple[str, ...] = ()
    best = None
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?([^\]]+)\]", line):
            table = _names(header[1])
            if table == place:
                return number
        elif written := re.match(r"""\s*([\w."'-]+(?:\s*\.\s*[\w"'-]+)*)\s*=""", line):
            here = (*table, *_names(written[1]))
            if here == place:
                return number
            if best is None and (here == place[: len(here)] or place == here[: len(place)]):
                best = number
    return best


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


@dataclass(frozen=True, slots=True)
class Settings(Values):
    @classmethod
    def load(
        cls,
        folder: str | Path | None = None,
        environ: Mapping[str, str] = os.environ,
        overrides: Mapping[str, object] = MappingProxyType({}),
    ) -> Settings:
        """From the defaults, evertick.toml, the environment and the options; later ones take precedence.

        `overrides` are options by key (`store`, `loop.preread`), None if an option was not given; `config` names the
        file instead of EVERTICK_CONFIG and the folder's own. SettingsError lists all errors.
        """

        return load(cls, Path(folder) if folder is not None else None, environ, overrides)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Without a folder: the environment, and the file that it names."""
        return cls.load(None, environ)


SECRET_MAX: Final = 64 * 1024


def reveal(value: Value, environ: Mapping[str, str], what: str) -> str:
    """The value itself; `what` names the setting in the error message."""
    if not isinstance(value, Secret):
        return value
    try:
        if value.source == "env":
            found = environ[value.name]
        else:
            # Not blocking: opening a pipe without a writer would block the start forever.
            with open(os.open(value.name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                found = file.read(SECRET_MAX).decode()
    except (KeyError, OSError, ValueError):
        place = f"the variable {value.name}" if value.source == "env" else f"the file '{value.name}'"
        raise SettingsError(f"{what} is in {place}, which does not exist. Set it, or change the setting.") from None
    if not found.strip():
        raise SettingsError(f"{what} is in {value.source}:{value.name}, which is empty. Set it.")
    return found.strip()

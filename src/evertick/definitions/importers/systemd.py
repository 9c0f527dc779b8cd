"""Converts systemd timers, with the services that they start, to jobs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Final

from evertick.definitions.importers.imported import Draft, Imported, Note, finish
from evertick.definitions.importers.on_calendar import from_on_calendar
from evertick.model.variable_text import escape_references

_FILE: Final = re.compile(r"# (/\S+\.(?:timer|service|conf))")
"""The first line of each file in the output of `systemctl cat`."""
_DROP_IN: Final = re.compile(r"(.+\.(?:timer|service))\.d")
_SPAN: Final = re.compile(r"([\d.]+)\s*([a-zA-Zµ]*)")
_UNITS: Final = {
    **dict.fromkeys(("us", "usec", "µs"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
_TRUE: Final = frozenset({"1", "yes", "true", "on"})
_INTERVALS: Final = {
    "OnUnitActiveSec": "it counts from the last start, here from midnight UTC.",
    "OnUnitInactiveSec": "it counts from the end of the last run, here from midnight UTC.",
}
_NOT_A_TIME: Final = "it counts from a start of the machine or of systemd, which is not a time."
# Nothing is lost without these: Evertick fires at the instant, and needs no unit to be installed.
_NEEDLESS: Final = frozenset(
    {"AccuracySec", "Unit", "Type", "RemainAfterElapse", "RemainAfterExit", "Description", "Documentation"}
    | {"StandardOutput", "StandardError", "SyslogIdentifier"}
)
_HINTS: Final = {
    "RandomizedDelaySec": "it is not a duration that can be converted; write 'jitter'.",
    "FixedRandomDelay": "write H instead of a number in the schedule for a delay that is always the same.",
    "EnvironmentFile": "name the file in 'dotenv', or write its variables into 'env'.",
    "OnFailure": "write 'onFailure' or 'notify'.",
    "OnSuccess": "write 'onSuccess' or 'after'.",
    "Restart": "write 'maxRetries'.",
    "RestartSec": "write 'retryPolicy: {retryDelay: ...}'.",
    "Group": "a job runs with the groups of its user.",
    "ExecStop": "write 'onCancel'.",
    "ExecStopPost": "write 'onExit'.",
    "WakeSystem": "Evertick does not wake the machine; write 'missed: latest' to run late.",
    **dict.fromkeys(
        ("ProtectSystem", "PrivateTmp", "ProtectHome", "PrivateNetwork", "ReadWritePaths"), "see 'sandbox'."
    ),
}
_STEP_KEYS: Final = ("ExecStartPre", "ExecStart", "ExecStartPost")


@dataclass(slots=True)
class _Unit:
    """The settings of one unit: a key may occur several times, an empty one resets the earlier ones."""

    file: str
    entries: list[tuple[str, str, str, int, str]] = field(default_factory=list)
    """Section, key, value, line, and the file that has it."""

    def all(self, key: str) -> list[tuple[str, Note]]:
        found: list[tuple[str, Note]] = []
        for _section, name, value, line, file in self.entries:
            if name == key:
                found = [*found, (value, Note(line, key, file))] if value else []
        return found

    def last(self, key: str) -> str | None:
        found = self.all(key)
        return found[-1][0] if found else None


def read_systemd(text: str, source: str, *, timezone: str | None = None) -> Imported:
    """The timers in what `systemctl cat NAME.timer NAME.service` prints."""
    return read_systemd_files(dict(_split(text, source)), timezone=timezone)


def read_systemd_files(files: Mapping[str, str], *, timezone: str | None = None) -> Imported:
    """The timers among unit files by their paths, and drop-ins beside them."""
    units: dict[str, _Unit] = {}
    for path in sorted(files, key=lambda path: (_DROP_IN.fullmatch(PurePath(path).parent.name) is not None, path)):
        drop_in = _DROP_IN.fullmatch(PurePath(path).parent.name)
        name = drop_in[1] if drop_in else PurePath(path).name
        unit = units.setdefault(name, _Unit(path))
        unit.entries += _read_unit(files[path], path)
    drafts: list[Draft] = []
    notes: list[Note] = []
    for name, unit in units.items():
        if name.endswith(".timer"):
            drafts += _read_timer(name, unit, units, notes)
    if not any(name.endswith(".timer") for name in units):
        notes.append(Note(None, "no timer was found. Name a folder of unit files, or the output of systemctl cat."))
    return finish(drafts, notes, "", timezone)


def _split(text: str, source: str) -> Iterator[tuple[str, str]]:
    """The files in what `systemctl cat` prints; without its headings, the text is one file."""
    name, lines = source, list[str]()
    for line in text.splitlines():
        heading = _FILE.fullmatch(line.strip())
        if heading:
            if any(map(str.strip, lines)):
                yield name, "\n".join(lines)
            name, lines = heading[1], []
        else:
            lines.append(line)
    if any(map(str.strip, lines)):
        yield name if "." in PurePath(name).name else f"{name}.timer", "\n".join(lines)


def _read_unit(text: str, file: str) -> Iterator[tuple[str, str, str, int, str]]:
    """Its settings; a line that is none has no key."""
    section = ""
    for number, line in _joined_lines(text):
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line:
            key, _, value = line.partition("=")
            yield section, key.strip(), value.strip(), number, file
        else:
            yield section, "", line, number, file


def _joined_lines(text: str) -> Iterator[tuple[int, str]]:
    """Without comments and empty lines; one that ends in a backslash goes on in the next."""
    joined, began = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        began = began if joined else number
        joined += stripped
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip() + " "
            continue
        yield began, joined
        joined = ""
    if joined:
        yield began, joined.rstrip()


def _read_timer(name: str, timer: _Unit, units: Mapping[str, _Unit], notes: list[Note]) -> Iterator[Draft]:
    stem = name.removesuffix(".timer")
    service_name = timer.last("Unit") or f"{stem}.service"
    service = units.get(service_name)
    if service is None:
        notes.append(Note(None, f"'{stem}' is not converted: its service {service_name} is not here.", timer.file))
        return
    own: list[Note] = []
    schedules = _read_schedules(timer, own)
    if not schedules:
        notes += own
        notes.append(Note(None, f"'{stem}' is not converted: it has no time that can be converted.", timer.file))
        return
    fields: dict[str, object] = {}
    description = timer.last("Description") or service.last("Description")
    if description:
        fields["description"] = description
    # A single cron expression is written as people write it.
    only = schedules[0] if len(schedules) == 1 else {}
    fields["schedule"] = only["cron"] if set(only) == {"cron"} else schedules
    if (timer.last("Persistent") or "").lower() in _TRUE:
        fields["missed"] = "latest"
    known = {"OnCalendar", "Persistent", "OnBootSec", "OnStartupSec", "OnActiveSec", *_INTERVALS}
    jitter = _duration(timer.last("RandomizedDelaySec") or "")
    if jitter is not None:
        fields["jitter"] = jitter
        known.add("RandomizedDelaySec")
    fields |= _read_service(service, own)
    own += _left_over(timer, known)
    own += _left_over(
        service, {*_STEP_KEYS, "Environment", "WorkingDirectory", "User", "TimeoutStartSec", "RuntimeMaxSec"}
    )
    yield Draft(stem, fields, None, tuple(own), timer.file)


def _read_schedules(timer: _Unit, notes: list[Note]) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for text, place in timer.all("OnCalendar"):
        try:
            time = from_on_calendar(text)
        except ValueError as error:
            notes.append(_note(place, f"{error}."))
            continue
        entry = {"cron": time.cron} if time.cron else {"at": time.at or ""}
        found.append({**entry, **({"timezone": time.zone} if time.zone else {})})
    for key, difference in _INTERVALS.items():
        for text, place in timer.all(key):
            span = _duration(text)
            if span is None:
                notes.append(_note(place, f"'{text}' is not a duration that can be converted."))
            else:
                found.append({"every": span})
                notes.append(_note(place, difference))
    for key in ("OnBootSec", "OnStartupSec", "OnActiveSec"):
        notes += (_note(place, _NOT_A_TIME) for _text, place in timer.all(key))
    return found


def _read_service(service: _Unit, notes: list[Note]) -> dict[str, object]:
    fields: dict[str, object] = {}
    env: dict[str, str] = {}
    for text, place in service.all("Environment"):
        for word in _words(text):
            name, equals, value = word.partition("=")
            if equals:
                env[name] = _without_specifiers(value, place, notes)
            else:
                notes.append(_note(place, f"'{word}' has no value."))
    if env:
        fields["env"] = {name: escape_references(value) for name, value in env.items()}
    # Without the line, systemd starts a service of the system in the root folder.
    folder, user = (
        [_without_specifiers(text, place, notes) for text, place in service.all(key)[-1:]]
        for key in ("WorkingDirectory", "User")
    )
    fields["workingDir"] = "".join(folder).removeprefix("-") or "/"
    if user and user != ["root"]:
        fields["user"] = user[0]
    # systemd ends a oneshot by the first, other services by the second.
    for key in ("TimeoutStartSec", "RuntimeMaxSec"):
        for text, place in service.all(key)[-1:]:
            span = _duration(text)
            if span:
                fields["timeout"] = span
            elif text not in ("infinity", "0"):
                notes.append(_note(place, f"'{text}' is not a duration that can be converted; write 'timeout'."))
    steps = list(_read_steps(service, env, notes))
    if len(steps) == 1 and set(steps[0]) == {"name", "command"}:
        return {**fields, "command": steps[0]["command"]}
    return {**fields, "steps": steps}


def _read_steps(service: _Unit, env: Mapping[str, str], notes: list[Note]) -> Iterator[dict[str, object]]:
    """Each command after the previous one, as systemd runs them."""
    before: str | None = None
    for key in _STEP_KEYS:
        commands = service.all(key)
        base = {"ExecStartPre": "before", "ExecStart": "main", "ExecStartPost": "after"}[key]
        for number, (text, place) in enumerate(commands, 1):
            prefix = re.match(r"[-@:+!]*", text)
            marks = prefix[0] if prefix else ""
            for mark in marks.replace("-", ""):
                notes.append(_note(place, f"'{mark}' before the command has no counterpart."))
            words = [one for word in _words(text[len(marks) :]) for one in _expanded(word, env, place, notes)]
            name = base if len(commands) == 1 else f"{base}-{number}"
            step: dict[str, object] = {"name": name, "command": words}
            if before:
                step["depends"] = before
            if "-" in marks:
                step["continueOnFailure"] = True
            before = name
            yield step


def _expanded(word: str, env: Mapping[str, str], place: Note, notes: list[Note]) -> list[str]:
    """A word as systemd hands it to the program: `$$` and `%%` are one sign, variables of the unit are put in.

    systemd expands `${NAME}` anywhere, and `$NAME` only where it is the whole word, which can become several. In the
    text of a shell `$NAME` is the shell's.
    """

    def value_of(name: str, written: str) -> str:
        if name not in env:
            notes.append(_note(place, f"'{written}' is not expanded: the unit does not set it. Use a shell command."))
        return env.get(name, written)

    def variable(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else value_of(found[1], found[0])

    if whole := re.fullmatch(r"\$(\w+)", word):
        return _words(value_of(whole[1], word))
    return [re.sub(r"\$\$|\$\{(\w+)\}", variable, _without_specifiers(word, place, notes))]


def _without_specifiers(text: str, place: Note, notes: list[Note]) -> str:
    """`%%` is one sign; a specifier such as `%h` stays, with a note."""
    for specifier in re.findall(r"%[^%]", text.replace("%%", "")):
        notes.append(_note(place, f"the specifier '{specifier}' is not expanded. Write its value."))
    return text.replace("%%", "%")


def _left_over(unit: _Unit, carried: Iterable[str]) -> Iterator[Note]:
    """The remaining settings of the unit, except those about the order of units at boot."""
    known = {*carried, *_NEEDLESS}
    for section, key, value, line, file in unit.entries:
        if not key:
            yield Note(line, f"'{value[:60]}' is not a setting; systemd ignores it.", file)
        elif section in ("Timer", "Service") and key not in known and value:
            yield Note(line, f"{key}: {_HINTS.get(key, 'it has no counterpart here.')}", file)
        elif section == "Unit" and (key in _HINTS or key.startswith(("Condition", "Assert"))) and value:
            yield Note(line, f"{key}: {_HINTS.get(key, 'write a precondition.')}", file)


def _note(place: Note, text: str) -> Note:
    return replace(place, text=f"{place.text}: {text}")


def _duration(text: str) -> str | None:
    """A span of systemd (`1h 30min`, `90`) in the units of a job file; None: it has none of those."""
    if not text.strip() or _SPAN.sub("", text).strip():
        return None
    total = 0.0
    for number, unit in _SPAN.findall(text):
        try:
            total += float(number) * _UNITS[unit]
        except (KeyError, ValueError):
            return None
    seconds = round(total)
    if seconds <= 0 or abs(total - seconds) > 1e-9:
        return None
    parts = (("d", seconds // 86_400), ("h", seconds // 3_600 % 24), ("m", seconds // 60 % 60), ("s", seconds % 60))
    return "".join(f"{number}{unit}" for unit, number in parts if number)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()

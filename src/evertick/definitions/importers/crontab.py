"""Converts a crontab to jobs."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Final

from evertick.definitions.importers.imported import Draft, Imported, Note, finish
from evertick.model.variable_text import escape_references

_VARIABLE: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_FIELDS: Final = 5
_SHELL: Final = "/bin/sh"
# What cron means by these is not what a job's environment means by them.
_NOT_CARRIED: Final = {
    "MAILTO": "cron mails what a job prints; write 'notify' with 'on_failure' instead.",
    "MAILFROM": "it belongs to the mail that cron sends.",
    "START_HOURS_RANGE": "it belongs to anacron.",
    "LOGNAME": "a job runs as the user of the scheduler.",
    "USER": "a job runs as the user of the scheduler.",
}
_COLUMNS: Final = frozenset(
    {"m", "min", "minute", "h", "hr", "hour", "dom", "day", "d", "mon", "month", "dow", "weekday", "week", "of"}
    | {"user", "user-name", "username", "command", "cmd", "to", "be", "executed"}
)
"""Words of the line that heads the columns of a crontab: `m h dom mon dow command`."""
_ENTRY: Final = re.compile(r"(@[a-z]+|[\d*][\d*/,-]*(\s+[\dA-Za-z*/,-]+){4})\s+\S")
"""An entry that was commented out."""
_WRAPPERS: Final = frozenset(
    {"sudo", "nice", "ionice", "env", "exec", "time", "nohup", "chronic", "sh", "bash", "python3"}
)
_OVERLAP: Final = (
    "cron starts a job although its last run is still active; here that occurrence is skipped. "
    "Write 'overlap: parallel(2)' where it should run."
)
_ROOT: Final = "root"
_AS_ROOT: Final = "lines of root run as the user of the scheduler. Write 'user: root' where that is another one."


def read_crontab(text: str, source: str, *, is_system: bool = False, timezone: str | None = None) -> Imported:
    """Jobs of a user's crontab, or of a system's, which has a column for the user."""
    drafts: list[Draft] = []
    notes: list[Note] = []
    env: dict[str, str] = {}
    zone, comment, jitter = timezone, "", ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            comment = _described(stripped.lstrip("# "))
            continue
        variable = _VARIABLE.fullmatch(line)
        if variable:
            name, value = variable[1], _unquoted(variable[2])
            if name in _NOT_CARRIED:
                notes.append(Note(number, f"{name}: {_NOT_CARRIED[name]}"))
            elif name == "CRON_TZ":
                zone = value
            elif name == "RANDOM_DELAY":  # of cronie: the most minutes, for the entries below it
                jitter = f"{int(value)}m" if value.isdecimal() and int(value) else ""
                if not value.isdecimal():
                    notes.append(Note(number, f"RANDOM_DELAY: '{value}' is not a number of minutes."))
            else:
                env[name] = value
        else:
            found = _read_entry(stripped, number, env, zone, comment, is_system, notes)
            drafts += (replace(one, fields={**one.fields, "jitter": jitter}) if jitter else one for one in found)
        comment = ""
    if drafts:
        notes.append(Note(None, _OVERLAP))
    if is_system and any("user" not in one.fields for one in drafts):
        notes.append(Note(None, _AS_ROOT))
    return finish(drafts, notes, source)


def _described(comment: str) -> str:
    """The description that a comment gives the entry after it; empty if it names the columns or is an entry itself."""
    words = comment.lower().replace("(", " ").split()
    is_header = bool(words) and all(word in _COLUMNS for word in words)
    is_drawing = comment.startswith((".-", "|", "* * * * *", "*  *"))
    return "" if is_header or is_drawing or _ENTRY.match(comment) else comment


def _read_entry(
    line: str, number: int, env: dict[str, str], zone: str | None, comment: str, is_system: bool, notes: list[Note]
) -> list[Draft]:
    is_alias = line.startswith("@")
    columns = (1 if is_alias else _FIELDS) + (1 if is_system else 0)
    parts = line.split(None, columns)
    if len(parts) <= columns:
        what = "schedule, user and command" if is_system else "schedule and command"
        notes.append(Note(number, f"this line is not converted: it has no {what}."))
        return []
    schedule = parts[0] if is_alias else " ".join(parts[:_FIELDS])
    own: list[Note] = []
    user = parts[columns - 1] if is_system else _ROOT
    if schedule.lower() == "@reboot":
        notes.append(Note(number, f"'{parts[columns]}' is not converted: @reboot is not a time."))
        return []
    command, stdin = _split_percent(parts[columns])
    name = _name_of(command, number)
    if stdin is not None:
        own.append(Note(number, "'%' ends a command in a crontab; what follows is piped into it here."))
        command = f"printf '%s\\n' {shlex.quote(stdin)} | ( {command} )"
    fields: dict[str, object] = {"description": comment} if comment else {}
    if zone:
        fields["timezone"] = zone
    fields["schedule"] = schedule
    shell = env.get("SHELL", _SHELL)
    carried = {name: escape_references(value) for name, value in env.items() if name != "SHELL"}
    if carried:
        fields["env"] = carried
    # cron starts a command in HOME, which a crontab may set.
    fields["workingDir"] = env.get("HOME", "~")
    if user != _ROOT:
        fields["user"] = user
    if shell == _SHELL:
        fields["command"] = command
    else:
        fields["steps"] = [{"name": "main", "script": command, "interpreter": [shell]}]
    return [Draft(name, fields, number, tuple(own))]


def _split_percent(command: str) -> tuple[str, str | None]:
    """A `%` that no backslash stands before ends the command; the next ones are line feeds of its input."""
    parts = re.split(r"(?<!\\)%", command)
    clean = [part.replace("\\%", "%") for part in parts]
    return clean[0].strip(), "\n".join(clean[1:]) if len(clean) > 1 else None


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"" else value


def _name_of(command: str, number: int) -> str:
    """The name of the program that does the work, as far as that can be determined."""
    tail = re.split(r"&&|;", command)[-1] if command.startswith("cd ") else command
    for word in tail.split():
        name = word.rpartition("/")[2]
        if "=" in word or word.startswith("-") or name in _WRAPPERS:
            continue
        stem = re.sub(r"\.(sh|py|pl|rb|php|js)$", "", name)
        return stem if re.search("[A-Za-z0-9]", stem) else f"line-{number}"
    return f"line-{number}"

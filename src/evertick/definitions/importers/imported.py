"""The result of an import: valid job files, and notes about what they do not contain."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from evertick.definitions.fields.values import ID_MAX, job_id_of
from evertick.definitions.nodes import plain_value
from evertick.definitions.parser import parse_definition
from evertick.errors import Conflict
from evertick.model.template import escape_braces

_TEMPLATED: Final = frozenset({"env", "http", "args", "each"})
"""Fields whose texts may hold dates here (`{{ date }}`); `params` too, but theirs may name an item on purpose."""
_WITH_TEMPLATED: Final = frozenset({"handlers", "docker", "ssh", "kubernetes"})
_HANDLERS: Final = frozenset({"onSuccess", "onFailure", "onCancel", "onExit"})


@dataclass(frozen=True, slots=True)
class Note:
    """Something that could not be converted as it was."""

    line: int | None
    text: str
    source: str = ""
    """The file it is about, where there are several."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One job as it was read, in the fields of a job file."""

    name: str
    fields: Mapping[str, Any]
    line: int | None = None
    notes: tuple[Note, ...] = ()
    source: str = ""
    """The file it was read from, where there are several."""


@dataclass(frozen=True, slots=True)
class JobFile:
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Imported:
    files: tuple[JobFile, ...] = ()
    notes: tuple[Note, ...] = field(default=())
    """In the order of their lines."""


def finish(drafts: Iterable[Draft], notes: Iterable[Note], source: str, timezone: str | None = None) -> Imported:
    """Files of the drafts that are valid jobs; an invalid draft becomes a note with the reason."""
    files: list[JobFile] = []
    told = list(notes)
    for draft in unique(drafts):
        fields = _with_literal_braces(draft.fields)
        if "name" in fields and job_id_of(str(fields["name"])) != draft.name:
            fields["name"] = draft.name  # another one already has its id
        if timezone and "timezone" not in fields and "schedule" in fields:
            fields = {"timezone": timezone, **fields}
        name = f"{draft.name}.yaml"
        text = _headed(render(fields), draft, draft.source or source)
        parsed = parse_definition(text, name)
        if parsed.errors and all(error.field == "jitter" for error in parsed.errors):
            # Other schedulers allow a delay that is longer than the time between two starts.
            draft = replace(draft, notes=(*draft.notes, Note(draft.line, f"the delay: {parsed.errors[0].reason}")))
            del fields["jitter"]
            text = _headed(render(fields), draft, draft.source or source)
            parsed = parse_definition(text, name)
        told += (note if note.source else replace(note, source=draft.source) for note in draft.notes)
        if parsed.errors:
            reasons = " ".join(f"{error.reason} {error.hint or ''}".strip() for error in parsed.errors[:3])
            told.append(Note(draft.line, f"'{draft.name}' is not converted: {reasons}", draft.source))
            continue
        files.append(JobFile(name, text))
    return Imported(tuple(files), tuple(sorted(told, key=lambda note: (note.source, note.line or 0))))


def _with_literal_braces(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields, with two braces written so that they stay two braces. Shell text holds no dates anyway."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _TEMPLATED or (name == "command" and isinstance(value, list)):
            found[name] = _escaped(value)
        elif name == "steps":
            found[name] = [_with_literal_braces(step) for step in value]
        elif name in _WITH_TEMPLATED or name in _HANDLERS:
            found[name] = _with_literal_braces(value) if isinstance(value, Mapping) else value
        else:
            found[name] = value
    return found


def _escaped(value: Any) -> Any:
    match value:
        case str():
            return escape_braces(value)
        case Mapping():
            return {name: _escaped(part) for name, part in value.items()}
        case list() | tuple():
            return [_escaped(part) for part in value]
        case _:
            return value


def unique(drafts: Iterable[Draft]) -> list[Draft]:
    """The same drafts, each with a name that is an id and that no other has."""
    taken: set[str] = set()
    numbers: dict[str, int] = {}  # starting at one for each would take minutes for eight thousand equal names
    named = []
    for draft in drafts:
        base = job_id_of(draft.name) or "job"
        name, number = base, numbers.get(base, 1)
        while name in taken:
            number += 1
            name = f"{base[: ID_MAX - 1 - len(str(number))]}-{number}"
        taken.add(name)
        numbers[base] = number
        named.append(replace(draft, name=name))
    return named


def write(imported: Imported, folder: Path, *, is_forced: bool = False) -> None:
    """Write all files, or none: an existing one is an error, unless it may be replaced."""
    there = [file.name for file in imported.files if (folder / file.name).exists()]
    if there and not is_forced:
        shown = ", ".join(there[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
        raise Conflict(f"{folder} already has {shown}; nothing was written. Use --force to replace, or another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    for file in imported.files:
        # Written beside and moved into place: a scheduler that watches the folder never sees half of a file.
        temporary = folder / f".{file.name}.{os.getpid()}.tmp"
        temporary.write_text(file.text, encoding="utf-8")
        temporary.replace(folder / file.name)


def render(fields: Mapping[str, object]) -> str:
    """The fields as YAML that a person would write."""
    return yaml.dump(
        dict(fields), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000, default_flow_style=False
    )


def _headed(text: str, draft: Draft, source: str) -> str:
    where = f"{source}, line {draft.line}" if draft.line else source
    lines = [f"Imported from {where}.", *(f"Not converted: {note.text}" for note in draft.notes)]
    return "".join(f"# {_one_line(line)}\n" for line in lines) + text


def _one_line(text: str) -> str:
    """A comment ends with its line, so nothing in it may begin another one."""
    return "".join(character if character.isprintable() else " " for character in text)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    """Lines as a block, a plain text without quotes; whatever could be taken for something else in quotes."""
    lines = text.split("\n")
    if not all(line.isprintable() for line in lines):
        return '"'
    if len(lines) > 1:
        is_block = not text[0].isspace() and not any(line != line.rstrip() for line in lines)
        return "|" if is_block else '"'
    try:
        return None if isinstance(plain_value(text), str) else '"'
    except ValueError:
        return '"'


_Dumper.add_representer(str, _text)

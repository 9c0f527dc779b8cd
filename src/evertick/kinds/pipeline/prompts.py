"""Builds prompts: the text or its file, the skill before it, and the variables in it (`{{title}}`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from evertick.errors import DefinitionError
from evertick.kinds.pipeline.definition import Prompt

# ASCII, no blanks, no dots: anything else in braces is the user's own text.
_VARIABLE: Final = re.compile(r"\{\{(\w+)\}\}", re.ASCII)
SPECIAL: Final = frozenset({"ITEMS", "RESULTS", "RESULTS_FILE", "COUNT", "SUCCESS_COUNT", "FAILURE_COUNT"})
"""Variables that the pipeline sets, not an item."""


def variables_of(template: str) -> tuple[str, ...]:
    """The variables that an item must have, in order of appearance."""
    return tuple(dict.fromkeys(name for name in _VARIABLE.findall(template) if name not in SPECIAL))


def render(template: str, values: Mapping[str, str], *, keeps_unknown: bool = False) -> str:
    """In one pass, so that a value that looks like a variable is not replaced itself.

    An unknown variable becomes empty, or stays as written with `keeps_unknown`.
    """

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name in values:
            return values[name]
        return match[0] if keeps_unknown or name in SPECIAL else ""

    return _VARIABLE.sub(value_of, template)


def items_as_json(items: Sequence[Mapping[str, str]]) -> str:
    return to_json([dict(item) for item in items])


def to_json(value: object) -> str:
    """Indented by two blanks, non-ASCII letters as they are."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def with_fields(prompt: str, fields: Sequence[str]) -> str:
    return f"{prompt}\n\nReturn JSON with these fields: {', '.join(fields)}" if fields else prompt


def with_batch_fields(prompt: str, fields: Sequence[str], count: int) -> str:
    if not fields:
        return prompt
    return (
        f"{prompt}\n\nReturn a JSON array with {count} objects, one for each input item, in the same order. "
        f"Each object must have these fields: {', '.join(fields)}"
    )


def with_rows(prompt: str, fields: Sequence[str]) -> str:
    return f"{prompt}\n\nReturn a JSON array where each object has these fields: {', '.join(fields)}"


PROMPT_BYTES_MAX: Final = 4 * 1024 * 1024
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\r?\n(?:.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.S)


def resolve(prompt: Prompt, directory: Path, workspace: Path) -> str:
    text = prompt.text if prompt.text is not None else _from_file(prompt, directory)
    if prompt.skill is None:
        return text
    guidance = _skill(prompt.skill, workspace, f"{prompt.field}.skill")
    return f"[Skill Guidance: {prompt.skill}]\n{guidance}\n\n[Task]\n{text}"


def _from_file(prompt: Prompt, directory: Path) -> str:
    """A bare name is searched beside the pipeline and in the prompt folders; a path is relative to the pipeline."""
    assert prompt.file is not None
    field = f"{prompt.field}.promptFile"
    folders = [directory]
    if "/" not in prompt.file:
        folders += [directory / "prompts", directory.parent / "prompts"]
    for folder in folders:
        if (folder / prompt.file).is_file():
            return _read(folder / prompt.file, field)
    searched = ", ".join(str(folder) for folder in folders)
    raise DefinitionError(
        f"'{field}': {prompt.file!r} was not found in {searched}.", hint="Check the name.", field=field
    )


def _skill(name: str, workspace: Path, field: str) -> str:
    folder = workspace / ".github" / "skills" / name
    for file in ("SKILL.md", "prompt.md"):
        if (folder / file).is_file():
            return _read(folder / file, field)
    raise DefinitionError(f"'{field}': {folder / 'SKILL.md'} does not exist.", hint="Check the name.", field=field)


def _read(path: Path, field: str) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(PROMPT_BYTES_MAX).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"'{field}': {path} cannot be read: {error}.", field=field) from None
    text = _FRONT_MATTER.sub("", text).strip()
    if not text:
        raise DefinitionError(f"'{field}': {path} is empty.", hint="Add the prompt.", field=field)
    return text

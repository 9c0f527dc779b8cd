"""What a prompt is made of: the text, its file, and the skill that stands before it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from evertick.errors import DefinitionError
from evertick.kinds.pipeline.definition import Prompt

PROMPT_BYTES_MAX: Final = 4 * 1024 * 1024
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\r?\n(?:.*?\r?\n)?---[ \t]*(?:\r?\n|\Z)", re.S)


def resolve(prompt: Prompt, directory: Path, workspace: Path) -> str:
    text = prompt.text if prompt.text is not None else _from_file(prompt, directory)
    if prompt.skill is None:
        return text
    guidance = _skill(prompt.skill, workspace, f"{prompt.field}.skill")
    return f"[Skill Guidance: {prompt.skill}]\n{guidance}\n\n[Task]\n{text}"


def _from_file(prompt: Prompt, directory: Path) -> str:
    """A bare name is looked for beside the pipeline and in the folders for prompts; a path is what it says."""
    assert prompt.file is not None
    field = f"{prompt.field}.promptFile"
    folders = [directory]
    if "/" not in prompt.file:
        folders += [directory / "prompts", directory.parent / "prompts"]
    for folder in folders:
        if (folder / prompt.file).is_file():
            return _read(folder / prompt.file, field)
    places = ", ".join(str(folder) for folder in folders)
    raise DefinitionError(f"'{field}': there is no {prompt.file!r} in {places}.", hint="Check the name.", field=field)


def _skill(name: str, workspace: Path, field: str) -> str:
    folder = workspace / ".github" / "skills" / name
    for file in ("SKILL.md", "prompt.md"):
        if (folder / file).is_file():
            return _read(folder / file, field)
    raise DefinitionError(f"'{field}': there is no {folder / 'SKILL.md'}.", hint="Check the name.", field=field)


def _read(path: Path, field: str) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(PROMPT_BYTES_MAX).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"'{field}': {path} cannot be read: {error}.", field=field) from None
    text = _FRONT_MATTER.sub("", text).strip()
    if not text:
        raise DefinitionError(f"'{field}': {path} is empty.", hint="Write the prompt into it.", field=field)
    return text

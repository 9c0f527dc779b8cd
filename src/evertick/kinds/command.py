"""What a command starts: a program with its arguments, or the shell with one line."""

from __future__ import annotations

import os
from collections.abc import Mapping

from evertick.kinds import Program, StepError
from evertick.model.work import Command

SHELL = "/bin/sh"
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def program_of(command: Command) -> Program:
    if not command.words or not command.words[0]:
        raise StepError("its command is empty. Write the program and its arguments.")
    if command.is_shell:
        # One text for the shell; parameters reach it as environment variables, never as part of this text.
        return Program((SHELL, "-c", " ".join(command.words)))
    return Program(command.words)


def find_program(name: str, env: Mapping[str, str], folder: str) -> str:
    """The file that a name stands for, looked up as the process itself would: in its own PATH, from its own folder."""
    path = env.get("PATH", DEFAULT_PATH)
    if "/" in name:
        candidates = [os.path.join(folder, name)]
    else:
        candidates = [os.path.join(folder, part, name) for part in path.split(os.pathsep)]
    found_but_unusable = None
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
        if os.path.exists(candidate):
            found_but_unusable = candidate
    if found_but_unusable is not None:
        raise PermissionError(f"{found_but_unusable!r} is not a program that may be run. Try: chmod +x")
    if "/" in name:
        raise FileNotFoundError(f"there is no program {candidates[0]!r}. Check the path and the working folder.")
    raise FileNotFoundError(f"there is no program {name!r} in PATH={path}. Write its whole path, or set PATH in 'env'.")

"""The programs of commands and scripts: a program with arguments, a shell line, or an interpreter with a file."""

from __future__ import annotations

import os
from collections.abc import Mapping

from evertick.kinds import Program, StepError
from evertick.model.work import Command, Script

SHELL = "/bin/sh"
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def command_program(command: Command) -> Program:
    if not command.words or not command.words[0]:
        raise StepError("its command is empty. Add the program and its arguments.")
    if command.is_shell:
        # Parameters reach the shell as environment variables, never as part of this text.
        return Program((SHELL, "-c", " ".join(command.words)))
    return Program(command.words)


def script_program(script: Script) -> Program:
    """A first line `#!...` names the interpreter, unless the step names one."""
    if not script.text.strip():
        raise StepError("its script is empty. Add at least one line.")
    first = script.text.split("\n", 1)[0]
    if first.startswith("#!") and script.interpreter == Script("").interpreter:
        # As the kernel does, the rest of the line is one argument.
        words = tuple(first[2:].strip().split(None, 1))
        if not words:
            raise StepError("the first line of its script is '#!' without an interpreter. Example: '#!/bin/sh'.")
        return Program(words, script=script.text)
    if not script.interpreter:
        raise StepError("its script has no interpreter. Example: ['/bin/sh', '-e'].")
    return Program(script.interpreter, script=script.text)


def find_program(name: str, env: Mapping[str, str], folder: str) -> str:
    """Resolve a program as the process itself would: in its own PATH, relative to its own folder."""
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
        raise PermissionError(f"{found_but_unusable!r} is not executable. Run: chmod +x")
    if "/" in name:
        raise FileNotFoundError(f"the program {candidates[0]!r} does not exist. Check the path and the working folder.")
    raise FileNotFoundError(
        f"the program {name!r} was not found in PATH={path}. Write its full path, or set PATH in 'env'."
    )

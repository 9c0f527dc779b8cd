"""What a script starts: its interpreter, with the path of a private file that holds the lines."""

from __future__ import annotations

from evertick.kinds import Program, StepError
from evertick.model.work import Script


def program_of(script: Script) -> Program:
    """A first line `#!...` names the interpreter, unless the step names one itself."""
    if not script.text.strip():
        raise StepError("its script is empty. Write at least one line.")
    first = script.text.split("\n", 1)[0]
    if first.startswith("#!") and script.interpreter == Script("").interpreter:
        # The kernel reads the rest of such a line as one argument; so do we.
        words = tuple(first[2:].strip().split(None, 1))
        if not words:
            raise StepError(
                "the first line of its script is '#!' without an interpreter. Write for example '#!/bin/sh'."
            )
        return Program(words, script=script.text)
    if not script.interpreter:
        raise StepError("its script has no interpreter. Write for example ['/bin/sh', '-e'].")
    return Program(script.interpreter, script=script.text)

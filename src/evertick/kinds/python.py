"""The program of a Python step: an interpreter that imports the function and calls it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from evertick.kinds import Program, StepError
from evertick.model.work import FUNCTION, PythonCall

RUNNER = str(Path(__file__).with_name("python_runner.py"))


def python_program(call: PythonCall, params: Mapping[str, str], *, has_result: bool) -> Program:
    """The step's arguments and the run's parameters become keyword arguments; a parameter wins.

    The runner is started by its path and imports nothing of Evertick.
    """
    if not FUNCTION.fullmatch(call.target):
        raise StepError(f"{call.target!r} is not a function. Use the form 'package.module:function'.")
    try:
        arguments = json.dumps({**call.arguments, **params})
    except (TypeError, ValueError) as error:
        raise StepError(f"the arguments of {call.target!r} are not plain data: {error}.") from None
    payload = json.dumps({"target": call.target, "arguments": arguments, "has_result": has_result}).encode()
    # -P: neither the runner's folder nor the working folder may shadow the standard library.
    argv = (sys.executable, "-P", RUNNER)
    return Program(argv, payload=payload, has_result=has_result, reads=(*interpreter_folders(), RUNNER))


def interpreter_folders() -> tuple[str, ...]:
    """The folders of this interpreter and its packages, beside those that every program sees."""
    folders = dict.fromkeys((sys.prefix, sys.base_prefix, sys.exec_prefix))
    return tuple(folder for folder in folders if folder not in ("/", "/usr"))

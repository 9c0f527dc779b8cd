"""Calls a function in a process of its own: `python -P python_runner.py`, with the request on descriptor 3.

It imports nothing else of the package, so that a job starts fast and sees only its own modules.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
import traceback

PAYLOAD_FD = 3
RESULT_FD = 4


def main() -> int:
    with open(PAYLOAD_FD, "rb") as file:
        request = json.loads(file.read())
    sys.path.insert(0, os.getcwd())
    module_name, _, path = request["target"].partition(":")
    try:
        function = importlib.import_module(module_name)
        for name in path.split("."):
            function = getattr(function, name)
        result = function(**json.loads(request["arguments"]))  # type: ignore[operator]
        if inspect.isawaitable(result):
            import asyncio

            result = asyncio.run(_awaited(result))
        text = json.dumps(result) if request["has_result"] else ""
    except Exception:
        # Leave out the first frame, which is this file.
        kind, error, frames = sys.exc_info()
        assert frames is not None
        sys.stdout.flush()
        traceback.print_exception(kind, error, frames.tb_next)
        return 1
    sys.stdout.flush()
    if request["has_result"]:
        with open(RESULT_FD, "w") as file:
            file.write(text)
    return 0


async def _awaited(result: object) -> object:
    return await result  # type: ignore[misc]


if __name__ == "__main__":
    sys.exit(main())

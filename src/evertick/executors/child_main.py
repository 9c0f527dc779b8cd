"""The process that calls one function and says how it went."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import Callable
from typing import IO, Any

from evertick.executors.context import RunContext
from evertick.executors.function import describe, error_text, result_text

MAIN = "__evertick_main__"
"""The name under which the started file is read again: not `__main__`, so that its guarded part stays out."""


def main() -> int:
    # The function must not read what is meant for us: its input is empty.
    control = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    order = json.loads(control.readline())
    threading.Thread(target=_end_with_parent, args=(control,), daemon=True).start()
    os.environ.pop("PYTHONPATH", None)
    if order["pythonpath"] is not None:
        os.environ["PYTHONPATH"] = order["pythonpath"]
    # SIGTERM is an exception in the function: its `finally` and `with` blocks run.
    signal.signal(signal.SIGTERM, _terminated)
    is_success, detail = True, ""
    try:
        sys.path[:], sys.argv[:] = order["path"], order["argv"]
        detail = result_text(_call(_find(order), RunContext.from_plain(order["context"], sys.stderr.write)))
    except SystemExit as leaving:
        is_success, detail = leaving.code in (None, 0), f"SystemExit: {leaving.code}"
    except BaseException as error:
        import traceback

        traceback.print_exc()
        is_success, detail = False, error_text(error)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(order["answer"], json.dumps({"is_success": is_success, "detail": detail}).encode())
        os.close(order["answer"])
    return 0 if is_success else 1


def _find(order: dict[str, Any]) -> Callable[..., Any]:
    if order["module"] is not None:
        found: Any = importlib.import_module(order["module"])
    elif order["file"] is not None:
        found = _Names(runpy.run_path(order["file"], run_name=MAIN))
    else:
        raise RuntimeError("the function was typed in by hand; a process of its own cannot find it")
    for part in order["name"].split("."):
        found = getattr(found, part)
    call: Callable[..., Any] = found
    return call


class _Names:
    def __init__(self, names: dict[str, Any]) -> None:
        self.__dict__.update(names)


def _call(call: Callable[..., Any], context: RunContext) -> object:
    function = describe(call)
    made = call(**function.arguments(context))
    if function.is_async:

        async def awaited() -> object:
            return await made

        return asyncio.run(awaited())
    return made


def _terminated(_number: int, _frame: object) -> None:
    raise SystemExit(143)


def _end_with_parent(control: IO[bytes]) -> None:
    control.read()
    os.killpg(os.getpgid(0), signal.SIGKILL)


if __name__ == "__main__":
    # Threads that the function has left behind do not keep it: what it was called for is said.
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the function may have closed them
            stream.flush()
    os._exit(code)

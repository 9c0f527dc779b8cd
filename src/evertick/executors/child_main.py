"""The process that calls one function and writes its result to a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import IO, TypedDict

from evertick.executors.context import PlainContext, RunContext
from evertick.executors.function import describe, error_text, result_text

MAIN = "__evertick_main__"
"""The name under which the main file is imported again: not `__main__`, so that its guarded part does not run."""


class Request(TypedDict):
    """What the process is to call, as a line of JSON."""

    path: list[str]
    argv: list[str]
    pythonpath: str | None
    module: str | None
    file: str | None
    name: str
    args: list[object]
    kwargs: dict[str, object]
    context: PlainContext
    answer: int
    """The descriptor for the result."""


def main() -> int:
    # The function must not read our control pipe: its own input is empty.
    control = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    request: Request = json.loads(control.readline())
    threading.Thread(target=_end_with_parent, args=(control,), daemon=True).start()
    os.environ.pop("PYTHONPATH", None)
    if request["pythonpath"] is not None:
        os.environ["PYTHONPATH"] = request["pythonpath"]
    # SIGTERM is an exception in the function: its `finally` and `with` blocks run.
    signal.signal(signal.SIGTERM, _terminated)
    is_success, detail = True, ""
    try:
        sys.path[:], sys.argv[:] = request["path"], request["argv"]
        detail = result_text(_call(_find(request), RunContext.from_plain(request["context"], sys.stderr.write)))
    except SystemExit as error:
        is_success, detail = error.code in (None, 0), f"SystemExit: {error.code}"
    except BaseException as error:
        import traceback

        traceback.print_exc()
        is_success, detail = False, error_text(error)
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(request["answer"], json.dumps({"is_success": is_success, "detail": detail}).encode())
        os.close(request["answer"])
    return 0 if is_success else 1


def _find(request: Request) -> Callable[..., object]:
    if request["module"] is not None:
        found: object = importlib.import_module(request["module"])
    elif request["file"] is not None:
        found = _Names(runpy.run_path(request["file"], run_name=MAIN))
    else:
        raise RuntimeError("the function was defined interactively; another process cannot find it")
    for part in request["name"].split("."):
        found = getattr(found, part)
    assert callable(found)
    call: Callable[..., object] = found
    if request["args"] or request["kwargs"]:
        return functools.partial(call, *request["args"], **request["kwargs"])
    return call


class _Names:
    def __init__(self, names: dict[str, object]) -> None:
        self.__dict__.update(names)


def _call(call: Callable[..., object], context: RunContext) -> object:
    function = describe(call)
    made = call(**function.arguments(context))
    if function.is_async:
        assert isinstance(made, Awaitable)

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
    # Do not wait for threads that the function left behind: its result is written.
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the function may have closed them
            stream.flush()
    os._exit(code)

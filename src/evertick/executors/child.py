"""Runs a function in a process of its own: starts it, waits for it, and ends it.

The child reads what to call from its standard input and writes the result to a pipe of its own, so that what the
function prints goes to the parent's output. The parent keeps the input open: when it reaches its end, because the
parent died, the child kills its whole process group.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, NamedTuple

from evertick.executors.callable_reference import MAIN, reference_of
from evertick.executors.context import RunContext
from evertick.executors.function import clipped
from evertick.model.plain_json import parse_json

CHILD = "EVERTICK_CHILD"
"""Set in the environment of such a process, so that no scheduler starts in it."""


PORTION = 65_536
LAST_PORTIONS = 64
LOOK_SECONDS = 0.5
"""How often to check that the process still exists while waiting for its output."""
REAP_SECONDS = 0.005


class ChildResult(NamedTuple):
    is_success: bool
    detail: str
    exit_code: int | None


class ChildProcess:
    def __init__(
        self,
        call: Callable[..., object],
        context: RunContext,
        grace_seconds: float,
        output: Callable[[bytes], None] | None = None,
    ) -> None:
        """`output` receives what it prints; without it, that goes to this process's output."""
        self._grace_seconds = grace_seconds
        self._output = output
        self._result_fd, result_fd = os.pipe()
        self._result = b""
        self._is_ending = threading.Event()
        self._lock = threading.Lock()
        self._is_over = False
        request = json.dumps(
            {
                "path": sys.path,
                "argv": sys.argv,
                "pythonpath": os.environ.get("PYTHONPATH"),
                **_location_of(call),
                "context": context.to_plain(),
                "answer": result_fd,
            }
        )
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evertick.executors.child_main"],
                stdin=subprocess.PIPE,
                stdout=None if output is None else subprocess.PIPE,
                stderr=None if output is None else subprocess.STDOUT,
                pass_fds=(result_fd,),
                start_new_session=True,
                env={**os.environ, CHILD: "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except BaseException:
            os.close(self._result_fd)
            raise
        finally:
            os.close(result_fd)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once; `wait` reports that
            self._process.stdin.write(request.encode() + b"\n")
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """SIGTERM, then SIGKILL after the grace; from any thread, more than once."""
        if self._is_ending.is_set():
            return
        self._is_ending.set()
        self._signal_living(signal.SIGTERM)
        timer = threading.Timer(self._grace_seconds, self._signal_living, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def wait(self, timeout: float | None) -> ChildResult | None:
        """Its result; None on timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - time.monotonic())
            ready = self._poll(max(0.0, left))
            chunk = os.read(self._result_fd, PORTION) if self._result_fd in ready else b""
            self._result += chunk
            if self._result_fd in ready and not chunk:
                return self._read_result(self._reap())
            # A process that the function forked may hold the pipe open long after its own is gone.
            if not ready and self._has_exited():
                return self._read_result(self._reap())
            if deadline is not None and time.monotonic() >= deadline:
                return None

    def _poll(self, seconds: float) -> list[int]:
        """Which pipes are readable; what it printed is forwarded."""
        printed = self._printed
        ready = _readable([self._result_fd] if printed is None else [self._result_fd, printed.fileno()], seconds)
        if printed is not None and printed.fileno() in ready:
            self._forward(printed)
        return ready

    @property
    def _printed(self) -> IO[bytes] | None:
        """Its output; None once its process or the function has closed it."""
        printed = self._process.stdout
        return None if printed is None or printed.closed else printed

    def _forward(self, printed: IO[bytes]) -> bool:
        chunk = os.read(printed.fileno(), PORTION)
        if chunk and self._output is not None:
            self._output(chunk)
        else:
            printed.close()
        return bool(chunk)

    def _drain(self) -> None:
        """Forward what is left in the pipe, without waiting for processes left behind that hold it open."""
        printed = self._printed
        if printed is None:
            return
        for _ in range(LAST_PORTIONS):
            if not _readable([printed.fileno()], 0) or not self._forward(printed):
                break
        printed.close()

    def _has_exited(self) -> bool:
        """Without reaping it: until it is reaped, no other process has its pid."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            # The program around us reaps every child, or ignores SIGCHLD: the pid may be reused by now.
            self._is_over = True
            return True

    def _reap(self) -> int | None:
        """Its exit code; None when another part of this program has reaped it."""
        deadline = time.monotonic() + self._grace_seconds
        while not self._has_exited():
            if time.monotonic() >= deadline:
                self.end()
            printed = self._printed
            if printed is not None and _readable([printed.fileno()], REAP_SECONDS):
                self._forward(printed)  # a full pipe would keep it from ending
            else:
                time.sleep(REAP_SECONDS)
        with self._lock:
            was_taken, self._is_over = self._is_over, True
            if not was_taken:
                self._signal(signal.SIGKILL)  # what is left of its group
            code = self._process.wait()
        self._drain()
        self._close()
        return None if was_taken else code

    def discard(self) -> None:
        """Kill it and release its resources, when waiting for it has failed."""
        self._signal_living(signal.SIGKILL)
        with self._lock:
            self._is_over = True
            self._process.wait()
        self._close()

    def _close(self) -> None:
        # The number of a closed pipe may be reused by another file.
        result_fd, self._result_fd = self._result_fd, -1
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if result_fd >= 0:
            os.close(result_fd)

    def _read_result(self, code: int | None) -> ChildResult:
        try:
            result = parse_json(self._result)
        except ValueError:
            result = None
        match result:
            case {"is_success": is_success, "detail": detail}:
                return ChildResult(bool(is_success), clipped(str(detail)), code)
        how = "an unknown exit code" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        return ChildResult(False, f"its process ended with {how} before the function returned", code)

    def _signal_living(self, number: int) -> None:
        with self._lock:
            if not self._is_over:
                self._signal(number)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _readable(pipes: list[int], seconds: float) -> list[int]:
    """Those that have data or have ended; unlike `select`, it works beyond descriptor 1,023."""
    poll = select.poll()
    for pipe in pipes:
        poll.register(pipe, select.POLLIN)
    return [pipe for pipe, _ in poll.poll(math.ceil(seconds * 1_000))]


def _location_of(call: Callable[..., object]) -> dict[str, object]:
    """Where another process finds the function: in a module, or in the main file."""
    module, name, args, kwargs, _ = reference_of(call)
    bound = {"name": name, "args": args, "kwargs": dict(kwargs)}
    if module != MAIN:
        return {"module": module, "file": None, **bound}
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    return {"module": spec.name if spec else None, "file": os.path.abspath(file) if file else None, **bound}

"""A function in a process of its own: started, waited for, and really ended.

The child is told what to call on its standard input and says how it went on a pipe of its own, so that what the
function prints goes where the parent's output goes. Its input stays open as long as the parent lives: at its end the
child ends its whole group, so that nothing outlives the process that would have heard of it.
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
from typing import IO, Any, NamedTuple

from evertick.executors.context import RunContext
from evertick.executors.function import clipped
from evertick.model.plain_json import parse_json

CHILD = "EVERTICK_CHILD"
"""Set in the environment of such a process: no scheduler starts in it."""


PORTION = 65_536
LAST_PORTIONS = 64
LOOK_SECONDS = 0.5
"""How often to look whether the process is still there, beside listening to it."""
REAP_SECONDS = 0.005


class Said(NamedTuple):
    is_success: bool
    detail: str
    exit_code: int | None


class ChildProcess:
    def __init__(
        self,
        call: Callable[..., Any],
        context: RunContext,
        grace_seconds: float,
        output: Callable[[bytes], None] | None = None,
    ) -> None:
        """`output` takes what it prints; without it, that goes where this process prints."""
        self._grace_seconds = grace_seconds
        self._output = output
        self._heard, said = os.pipe()
        self._said = b""
        self._is_ending = threading.Event()
        self._lock = threading.Lock()
        self._is_over = False
        order = json.dumps(
            {
                "path": sys.path,
                "argv": sys.argv,
                "pythonpath": os.environ.get("PYTHONPATH"),
                **_place_of(call),
                "context": context.to_plain(),
                "answer": said,
            }
        )
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "evertick.executors.child_main"],
                stdin=subprocess.PIPE,
                stdout=None if output is None else subprocess.PIPE,
                stderr=None if output is None else subprocess.STDOUT,
                pass_fds=(said,),
                start_new_session=True,
                env={**os.environ, CHILD: "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except BaseException:
            os.close(self._heard)
            raise
        finally:
            os.close(said)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once; its end says so
            self._process.stdin.write(order.encode() + b"\n")
            self._process.stdin.flush()

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """Politely, then by force; from any thread, and more than once."""
        if self._is_ending.is_set():
            return
        self._is_ending.set()
        self._signal_living(signal.SIGTERM)
        timer = threading.Timer(self._grace_seconds, self._signal_living, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def wait(self, timeout: float | None) -> Said | None:
        """How it went; None when it has not ended in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = LOOK_SECONDS if deadline is None else min(LOOK_SECONDS, deadline - time.monotonic())
            ready = self._listen(max(0.0, left))
            chunk = os.read(self._heard, PORTION) if self._heard in ready else b""
            self._said += chunk
            if self._heard in ready and not chunk:
                return self._judge(self._reap())
            # What the function forked may hold the pipe open long after its process is gone.
            if not ready and self._has_exited():
                return self._judge(self._reap())
            if deadline is not None and time.monotonic() >= deadline:
                return None

    def _listen(self, seconds: float) -> list[int]:
        """Which pipes have something; what it prints is handed on."""
        printed = self._printed
        ready = _readable([self._heard] if printed is None else [self._heard, printed.fileno()], seconds)
        if printed is not None and printed.fileno() in ready:
            self._hand_on(printed)
        return ready

    @property
    def _printed(self) -> IO[bytes] | None:
        """What it prints, as long as it can: output ends with its process, or when the function closes it."""
        printed = self._process.stdout
        return None if printed is None or printed.closed else printed

    def _hand_on(self, printed: IO[bytes]) -> bool:
        chunk = os.read(printed.fileno(), PORTION)
        if chunk and self._output is not None:
            self._output(chunk)
        else:
            printed.close()
        return bool(chunk)

    def _last_words(self) -> None:
        """What is still in the pipe; what it has left behind may hold it open, and is not waited for."""
        printed = self._printed
        if printed is None:
            return
        for _ in range(LAST_PORTIONS):
            if not _readable([printed.fileno()], 0) or not self._hand_on(printed):
                break
        printed.close()

    def _has_exited(self) -> bool:
        """Without taking the exit code away: until that is taken, its number belongs to no other process."""
        try:
            return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            # The program around us waits for every child, or ignores SIGCHLD: the number may be another's by now.
            self._is_over = True
            return True

    def _reap(self) -> int | None:
        """Its exit code; None when another part of this program has taken it."""
        deadline = time.monotonic() + self._grace_seconds
        while not self._has_exited():
            if time.monotonic() >= deadline:
                self.end()
            printed = self._printed
            if printed is not None and _readable([printed.fileno()], REAP_SECONDS):
                self._hand_on(printed)  # it cannot end while nobody reads
            else:
                time.sleep(REAP_SECONDS)
        with self._lock:
            was_taken, self._is_over = self._is_over, True
            if not was_taken:
                self._signal(signal.SIGKILL)  # whatever it left behind in its group
            code = self._process.wait()
        self._last_words()
        self._close()
        return None if was_taken else code

    def discard(self) -> None:
        """End it at once and let go of it, when listening to it has failed."""
        self._signal_living(signal.SIGKILL)
        with self._lock:
            self._is_over = True
            self._process.wait()
        self._close()

    def _close(self) -> None:
        # The number of a pipe that is closed may be another file's by now.
        heard, self._heard = self._heard, -1
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        if heard >= 0:
            os.close(heard)

    def _judge(self, code: int | None) -> Said:
        try:
            said = parse_json(self._said)
            return Said(bool(said["is_success"]), clipped(str(said["detail"])), code)
        except (ValueError, KeyError, TypeError):
            how = "an unknown exit code" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
            return Said(False, f"its process ended with {how} before the function had returned", code)

    def _signal_living(self, number: int) -> None:
        with self._lock:
            if not self._is_over:
                self._signal(number)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def _readable(pipes: list[int], seconds: float) -> list[int]:
    """Those that have something, or have ended; unlike `select`, also beyond the 1,024th file of a program."""
    poll = select.poll()
    for pipe in pipes:
        poll.register(pipe, select.POLLIN)
    return [pipe for pipe, _ in poll.poll(math.ceil(seconds * 1_000))]


def _place_of(call: Callable[..., Any]) -> dict[str, str | None]:
    """Where another process finds the function: a module, or the file that was started."""
    module, name = call.__module__, call.__qualname__
    if module != "__main__":
        return {"module": module, "file": None, "name": name}
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None)
    return {"module": spec.name if spec else None, "file": os.path.abspath(file) if file else None, "name": name}

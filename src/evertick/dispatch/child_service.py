"""Runs a child process such as the API server: starts it, restarts it, and ends it."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

log = logging.getLogger("evertick.child")

_NOT_FOR_OTHERS: Final = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
"""Between the service manager and the scheduler."""


@dataclass(frozen=True, slots=True)
class RestartTimes:
    first_seconds: float = 1.0
    """The wait before the first restart; it doubles each time."""
    longest_seconds: float = 60.0
    settled_seconds: float = 60.0
    """A child that has lived this long is healthy: its next restart waits as for the first time."""
    stop_seconds: float = 10.0
    """Between SIGTERM and SIGKILL."""
    start_seconds: float = 120.0
    """How long it may take until its first heartbeat. A child that takes longer is killed, and its next start may take
    twice as long: on a machine without free processors every start would otherwise end in the middle."""
    longest_start_seconds: float = 1_800.0
    silence_seconds: float = 30.0
    """A child without a heartbeat for this long hangs, and is killed."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Run a module in a separate Python process that ends when this process does, however it ends."""
    # -P: without it Python searches the working folder for modules first, where people keep their own files.
    return [sys.executable, "-P", "-m", "evertick.dispatch.parent_watchdog", module, *arguments]


class ChildService:
    """Keeps one child process alive. Its failures never affect the scheduler: they are logged, and it restarts.

    The child's standard input is a pipe that ends with this process; `parent_watchdog` ends the child then. Its
    standard output is a pipe for signs of life: with `shows_life` a child that writes nothing there is killed and
    started again, because one that hangs answers no request and never ends by itself.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environ: Mapping[str, str] | None = None,
        patience: RestartTimes | None = None,
        *,
        shows_life: bool = False,
    ) -> None:
        self.name = name
        self._shows_life = shows_life
        self._command = list(command)
        inherited = os.environ if environ is None else environ
        self._environ = {key: value for key, value in inherited.items() if key not in _NOT_FOR_OTHERS}
        self._patience = patience or RestartTimes()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._start_seconds = self._patience.start_seconds
        self._thread = threading.Thread(target=self._run, name=f"evertick-{name}", daemon=True)
        self.starts = 0

    @property
    def state(self) -> dict[str, Any]:
        process = self._process
        is_alive = process is not None and process.poll() is None
        return {"pid": process.pid if process is not None and is_alive else None, "starts": self.starts}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            _end(process, self._patience.stop_seconds)
        if self._thread.is_alive():
            self._thread.join(self._patience.stop_seconds)

    def _run(self) -> None:
        wait = self._patience.first_seconds
        while not self._stopping.is_set():
            began = time.monotonic()
            ended = self._live_once()
            if self._stopping.is_set():
                return
            if time.monotonic() - began >= self._patience.settled_seconds:
                wait = self._patience.first_seconds
            log.warning("child.ended name=%s how=%s again_in=%gs", self.name, ended, wait)
            self._stopping.wait(wait)
            wait = min(wait * 2, self._patience.longest_seconds)

    def _live_once(self) -> str:
        try:
            with self._lock:
                if self._stopping.is_set():
                    return "stopped"
                # A separate session: Ctrl-C at the terminal is for the scheduler, which ends its child processes.
                process = self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if self._shows_life else subprocess.DEVNULL,
                    env=self._environ,
                    start_new_session=True,
                )
                self.starts += 1
        except OSError as error:
            return f"not started: {error.strerror}"
        with process:
            is_hung = self._shows_life and not self._listen(process)
            code = process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}, because it sent no heartbeat" if is_hung else how

    def _listen(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait until its output ends; False: it hung, and was killed."""
        assert process.stdout is not None
        patience = self._start_seconds
        self._start_seconds = min(patience * 2, self._patience.longest_start_seconds)
        ready = select.poll()  # not select(): it takes no descriptor above 1,023
        ready.register(process.stdout, select.POLLIN)
        while ready.poll(patience * 1_000):
            if not os.read(process.stdout.fileno(), 4096):
                return True
            patience = self._patience.silence_seconds
            self._start_seconds = self._patience.start_seconds
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        return False


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        log.warning("child.killed pid=%d", process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()

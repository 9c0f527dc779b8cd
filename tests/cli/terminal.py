"""A terminal of a given width for a command, and its output."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

ROWS = 40
PATIENCE_SECONDS = 180
_PLACED = re.compile(r"\x1b\[(\d+);1H((?:(?!\x1b\[\d+;1H|\x1b\[\?1049l).)*)", re.DOTALL)
_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def on_a_terminal(*arguments: str, columns: int = 80, code: int = 0, cwd: Path | None = None, **environ: str) -> str:
    """What a command writes when all of its streams are a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    kept = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "evertick", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**kept, "EVERTICK_TIMEZONE": "UTC", "PYTHONPATH": os.pathsep.join(sys.path), **environ},
        cwd=cwd,
        start_new_session=True,
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65_536):
            written += chunk
    except OSError:  # how a terminal says that its other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == code, written.decode()
    return written.decode()


class Page:
    """A command that takes the whole screen of a terminal: its keys, and the lines that it shows."""

    def __init__(self, *arguments: str, columns: int = 80, rows: int = 24, **environ: str) -> None:
        self._ours, theirs = pty.openpty()
        self.written = ""
        """Everything so far."""
        self.resize(columns, rows)
        kept = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evertick", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**kept, "EVERTICK_TIMEZONE": "UTC", "PYTHONPATH": os.pathsep.join(sys.path), **environ},
            start_new_session=True,
        )
        self._theirs = theirs

    def __enter__(self) -> Page:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._theirs)
        os.close(self._ours)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def modes(self) -> int:
        """The local modes of the terminal: echo, whole lines."""
        found: int = termios.tcgetattr(self._theirs)[3]
        return found

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    @property
    def lines(self) -> list[str]:
        """The screen: every line of a frame is written after its place."""
        found: dict[int, str] = {}
        for row, text in _PLACED.findall(self.written):
            found[int(row)] = _SEQUENCES.sub("", text)
        return [found.get(row, "") for row in range(1, max(found, default=0) + 1)]

    def wait_for(self, words: str) -> str:
        """The screen's line with these words, once there is one."""
        return self.wait_until(lambda: next((line for line in self.lines if words in line), ""), words)

    def wait_until(self, found: Callable[[], str], words: str) -> str:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (line := found()):
            assert time.monotonic() < deadline, (
                f"no {words!r}; the screen: {self.lines}; the end: {self.written[-500:]!r}"
            )
            self.read()
        return line

    def read(self, seconds: float = 1.0) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            self.written += os.read(self._ours, 65_536).decode(errors="replace")

    def end(self) -> int:
        """The exit code, once the command has ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self.read(0.1)
        self.read(0.0)
        return self.process.returncode

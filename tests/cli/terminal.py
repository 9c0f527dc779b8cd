"""A terminal of so many columns for a command, and what was written to it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

ROWS = 40


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

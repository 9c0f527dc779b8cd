"""Wakes a thread that waits on file descriptors."""

from __future__ import annotations

import contextlib
import socket


class Wakeup:
    """Rung from any thread, and heard by one: it polls `fileno()`, then calls `heard`, and only then looks."""

    def __init__(self) -> None:
        # Not a pipe: whoever rings one that was closed would write into whatever has its number by then.
        self._hearing_end, self._ringing_end = socket.socketpair()
        self._ringing_end.setblocking(False)
        self._hearing_end.setblocking(False)
        self._has_rung = False

    def fileno(self) -> int:
        return self._hearing_end.fileno()

    def ring(self) -> None:
        """After what it is rung for can be seen."""
        # One call to the system for a batch: in a storm, hundreds ring before the other looks.
        if not self._has_rung:
            self._has_rung = True
            # A full one means that it has rung often enough; a closed one, that nobody is there any more.
            with contextlib.suppress(OSError):
                self._ringing_end.send(b"\0")

    def heard(self) -> None:
        """From now on it rings again."""
        with contextlib.suppress(BlockingIOError):
            self._hearing_end.recv(4096)
        # Last. The other way round, a ring between the two is read away and yet counts as rung: it never rings again.
        self._has_rung = False

    def close(self) -> None:
        self._hearing_end.close()
        self._ringing_end.close()

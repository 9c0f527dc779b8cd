"""Hides a long-lived process from the jobs that run as the same user."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_PR_SET_DUMPABLE = 4


def hide_process() -> None:
    """Hide this process's memory and environment (`/proc/PID/environ`, `mem`, debuggers) from its user's processes.

    Programs that it starts are not hidden: the kernel resets the flag on exec. Root still reads everything.
    On systems other than Linux it does nothing.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

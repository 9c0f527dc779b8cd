"""How a long-lived process keeps what it knows from the jobs that run as the same user."""

from __future__ import annotations

import contextlib
import ctypes
import sys

_PR_SET_DUMPABLE = 4


def hide_process() -> None:
    """Close this process's memory and environment (`/proc/PID/environ`, `mem`, a debugger) to others of its user.

    Programs that it starts are open again: the kernel undoes it where another program begins. A process of root reads
    everything all the same. Where the kernel is not Linux nothing is done.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)

"""Ends a child with its parent, also when that is killed: `python -m evertick.dispatch.parent_watchdog MODULE …`.

The parent holds the other end of standard input and never writes to it. When it is gone the kernel closes it. A child
that hangs in a computation would not notice; the kernel kills it with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import runpy
import signal
import sys
import threading

_PR_SET_PDEATHSIG = 1
FORCE_SECONDS = 10.0
"""After this, a child that ignored SIGTERM is killed."""


def hold(descriptor: int = 0) -> None:
    """End this process when standard input does."""
    threading.Thread(target=_wait, args=(descriptor,), name="evertick-parent-watchdog", daemon=True).start()


def end_with_parent() -> None:
    """Where the kernel can: kill this process when the one that started it is gone, whatever it is doing then."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait(descriptor: int) -> None:
    try:
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(FORCE_SECONDS)
    os._exit(1)


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m evertick.dispatch.parent_watchdog MODULE [ARGUMENT]...")
    hold()
    end_with_parent()
    del sys.argv[0]
    # What the module imports stays: to look for garbage in it again and again takes a twentieth of a start.
    gc.set_threshold(50_000, 20, 50)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

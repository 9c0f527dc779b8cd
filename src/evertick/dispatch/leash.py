"""How a child ends with its parent, also when that is killed: `python -m evertick.dispatch.leash MODULE ARGUMENTS`.

The parent holds the other end of standard input and never writes to it. When it is gone the kernel closes it.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading

FORCE_SECONDS = 10.0
"""After this, a child that does not end politely ends."""


def hold(descriptor: int = 0) -> None:
    """End this process when standard input does."""
    threading.Thread(target=_wait, args=(descriptor,), name="evertick-leash", daemon=True).start()


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
        raise SystemExit("usage: python -m evertick.dispatch.leash MODULE [ARGUMENT]...")
    hold()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

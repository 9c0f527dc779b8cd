"""`serve_for.py SECONDS evertick serve ...`: press Ctrl-C that many seconds after the scheduler has started."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

READY = "Ctrl-C to stop"


def main(seconds: float, command: list[str]) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.write(line)
            if READY in line:
                threading.Timer(seconds, process.send_signal, [signal.SIGINT]).start()
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))

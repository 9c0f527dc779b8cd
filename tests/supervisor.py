"""How a server is kept from outliving the tests that started it.

Run as a program with one JSON argument: `command`, the `uid` and `gid` to run it as (or null), the `signal`
that stops it, and the `folder` that holds its data. It starts the command, prints its process id and waits on
its own standard input. The owner holds the other end of that pipe, and the kernel closes it however the owner
ends, also by `kill -9`: then the server is stopped and its folder removed. An owner that writes `keep` first
gets its folder back.

It is a program of its own, not a thread or a `preexec_fn`, so that it is single-threaded, needs no clean exit
of the owner and works wherever pipes do.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys

PATIENCE_SECONDS = 10


def main(argument: str) -> int:
    order = json.loads(argument)
    child_ended, wake_up = os.pipe()
    os.set_blocking(wake_up, False)
    signal.set_wakeup_fd(wake_up)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    server = subprocess.Popen(
        order["command"],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,  # standard output is for the process id alone
        user=order["uid"],
        group=order["gid"],
        extra_groups=None if order["uid"] is None else [],
        cwd=order["folder"],
        start_new_session=True,
    )
    os.write(1, f"{server.pid}\n".encode())
    os.close(1)
    last_words = b""
    while server.poll() is None:
        readable, _, _ = select.select([0, child_ended], [], [])
        if 0 in readable:
            words = os.read(0, 4096)
            last_words += words
            if not words:
                stop(server, order["signal"])
                if last_words != b"keep":
                    shutil.rmtree(order["folder"], ignore_errors=True)
    return server.returncode


def stop(server: subprocess.Popen[bytes], stop_signal: int) -> None:
    server.send_signal(stop_signal)
    try:
        server.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

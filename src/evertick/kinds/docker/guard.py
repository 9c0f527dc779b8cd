"""Removes a container when the process that watches it was killed: `python -I -S guard.py SOCKET NAME`.

It waits until its standard input ends, which the kernel closes however the watching process ends. It has its own
session and none of the variables by which a keeper finds the processes of an attempt: they are killed together, and
this one must outlive them. It needs nothing but the standard library, and ends when the container is gone.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sys
import time
from urllib.parse import quote

TRY_SECONDS = 600.0
"""How long an engine that does not answer is asked."""
PAUSE_SECONDS = 1.0


def main(path: str, name: str) -> None:
    if os.fork():
        os._exit(0)  # its parent would be killed with its children
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while container_id := os.read(0, 4_096):
        name = container_id.decode()
    until = time.monotonic() + TRY_SECONDS
    while not _is_gone(path, name) and time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)


def _is_gone(path: str, name: str) -> bool:
    connection = http.client.HTTPConnection("localhost", timeout=60)
    try:
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.connect(path)
        # Without a version: every engine takes this request in the same form.
        connection.request("DELETE", f"/containers/{quote(name)}?force=true&v=true")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return status in (http.client.NO_CONTENT, http.client.OK, http.client.NOT_FOUND)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])

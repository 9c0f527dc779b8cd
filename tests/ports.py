"""Which port a server of the tests may listen on.

The system may give a port that was free a moment ago to any connection of any program: before the server listens on it,
and again while the server is restarted. A client that polls it can even connect to itself. So the ports for servers are
below the range that the system gives out.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
FIRST = 10_000
TRIES = 200
_given: set[int] = set()


def free_port() -> int:
    """A port on which nothing listens, and which this process has not given before."""
    last = int(RANGE.read_text().split()[0]) - 1 if RANGE.exists() else 32_767
    chosen = random.SystemRandom()  # two workers of one seed must not choose the same
    for _ in range(TRIES if last > FIRST else 0):
        port = chosen.randint(FIRST, last)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True

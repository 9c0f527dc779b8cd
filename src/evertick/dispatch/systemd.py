"""Notifies the service manager: the scheduler is ready, it stops, its loop still runs.

The protocol is that of sd_notify: a datagram of lines to the socket that NOTIFY_SOCKET names.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Final

log = logging.getLogger("evertick.systemd")

KICKS_PER_TIMEOUT: Final = 3


class ServiceManager:
    """Does nothing without a service manager. The watchdog is pinged only while the loop runs."""

    def __init__(self, seconds_since_turn: Callable[[], float], environ: Mapping[str, str] = os.environ) -> None:
        self._seconds_since_turn = seconds_since_turn
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self._timeout = _watchdog_seconds(environ) if self._address else None
        self._is_leaving = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._kick, name="evertick-watchdog", daemon=True)
        self.withheld = 0
        """Pings that were due and not sent, because the loop did not run."""

    def start(self) -> None:
        if self._address:
            self.notify("READY=1", f"MAINPID={os.getpid()}")
            if self._timeout is not None:
                self._thread.start()

    def leaving(self) -> None:
        """The stop has begun. From here on the manager's own limit for stopping counts, not the watchdog's."""
        if not self._is_leaving:
            self._is_leaving = True
            self.notify("STOPPING=1")

    def stop(self) -> None:
        self.leaving()
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def notify(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one:
                one.setblocking(False)
                one.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            log.warning("systemd.not_told what=%s reason=%s", lines[0], error.strerror)

    def _kick(self) -> None:
        assert self._timeout is not None
        while True:
            # A loop that has not run for half of the time does not get the other half.
            if self._is_leaving or self._seconds_since_turn() < self._timeout / 2:
                self.notify("WATCHDOG=1")
            else:
                self.withheld += 1
                log.warning("watchdog.withheld: the loop has not turned for %.1f s", self._seconds_since_turn())
            if self._stopping.wait(self._timeout / KICKS_PER_TIMEOUT):
                return


def _address(written: str) -> str:
    """Empty where there is no manager; `@name` is a socket without a file."""
    return f"\0{written[1:]}" if written.startswith("@") else written if written.startswith("/") else ""


def _watchdog_seconds(environ: Mapping[str, str]) -> float | None:
    """None if no watchdog is wanted, or it is for another process."""
    wanted, whose = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not wanted.isdigit() or int(wanted) == 0 or (whose and whose != str(os.getpid())):
        return None
    return int(wanted) / 1_000_000

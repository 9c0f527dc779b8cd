"""The client of the control socket: queries the scheduler of a folder and follows its events."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from evertick.model.plain_json import Document, Json, number_in, object_in, parse_json

SOCKET: Final = "control.sock"
ADDRESS_MAX: Final = 100
ANSWER_MAX: Final = 64 * 1024 * 1024
TIMEOUT_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.5
"""A hint must not take longer than the poll that it saves."""
BEHIND_SECONDS: Final = 30.0
"""A planner that lags by more is unhealthy, and a loop without an iteration for this long hangs."""
ALIVE: Final = "--alive"


@contextlib.contextmanager
def address_of(path: Path) -> Iterator[str]:
    """The address of a socket in a folder; through a descriptor if the path is too long for an address."""
    if len(os.fsencode(path)) <= ADDRESS_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class ControlClient:
    """One connection for each request; it has no state, and any thread or task may use it.

    If no scheduler answers, `status` is None and the streams end: that is a normal state, not an error.
    """

    def __init__(self, state_folder: Path | str, timeout: float = TIMEOUT_SECONDS) -> None:
        self.path = Path(state_folder) / SOCKET
        self._timeout = timeout

    def status(self) -> Mapping[str, Json] | None:
        try:
            with self._connect() as connection, connection.makefile("rb") as lines:
                connection.sendall(_question({"ask": "status"}))
                return _status(lines.readline(ANSWER_MAX))
        except OSError:
            return None

    def announce_requests(self) -> None:
        """Make the scheduler look for requests at once; if this fails, it finds them a moment later."""
        with contextlib.suppress(OSError), self._connect() as connection:
            connection.settimeout(LOOK_SECONDS)
            connection.sendall(_question({"ask": "look"}))

    def events(self, after: int | None = None, feed: str | None = None) -> Iterator[Document]:
        """What the scheduler sends, until it ends: first a head with the feed's name, then events and beats.

        With the number of the last event and the name of its feed nothing is repeated, and nothing is left out that the
        scheduler still has.
        """
        with contextlib.suppress(OSError), self._connect() as connection, connection.makefile("rb") as lines:
            connection.sendall(_question({"ask": "events", "after": after, "feed": feed}))
            # Beats come every fifteen seconds: a longer silence is that of a scheduler that is gone.
            connection.settimeout(60.0)
            for line in lines:
                told = _told(line)
                if told is not None:
                    yield told

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._timeout)
        try:
            with address_of(self.path) as address:
                connection.connect(address)
        except BaseException:
            connection.close()
            raise
        return connection


def _question(asked: Mapping[str, object]) -> bytes:
    return json.dumps({name: value for name, value in asked.items() if value is not None}).encode() + b"\n"


def _status(line: bytes) -> Mapping[str, Json] | None:
    told = _told(line)
    found = told.get("status") if told is not None else None
    return found if isinstance(found, Mapping) else None


def _told(line: bytes) -> Document | None:
    try:
        told = parse_json(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def main() -> int:
    """`python -m evertick.dispatch.control_client STATE_FOLDER`: a health check of its scheduler.

    With `--alive` it checks only whether the loop runs, which a restart would fix. An unreachable ledger delays
    planning, and a restart because of it would only lose runs.
    """
    *flags, folder = sys.argv[1:] or ("-",)
    if folder.startswith("-") or flags not in ([], [ALIVE]):
        sys.stderr.write(f"usage: python -m evertick.dispatch.control_client [{ALIVE}] STATE_FOLDER\n")
        return 2
    status = ControlClient(folder).status()
    if status is None:
        sys.stdout.write(f"no scheduler answers in {folder}\n")
        return 1
    planner = object_in(status, "planner")
    lag, still = number_in(planner, "lag_seconds") or 0.0, number_in(planner, "seconds_since_turn") or 0.0
    uptime = number_in(status, "uptime_seconds") or 0.0
    sys.stdout.write(f"{status.get('node')} has run for {uptime:.0f} s; planning lags by {lag:.1f} s\n")
    behind = still if flags else lag
    return 0 if behind < BEHIND_SECONDS or status.get("is_stopping") else 1


if __name__ == "__main__":
    sys.exit(main())

"""Do the keepers of a state folder answer? Asked from outside, without a scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from evertick.executors import protocol
from evertick.executors.keeper.watchdog import is_locked
from evertick.executors.keeper_process import LOCK

ANSWER_SECONDS = 5.0


class KeeperAnswer(NamedTuple):
    name: str
    pid: int | None
    trouble: str
    """Why it could not be asked; empty: it has answered."""


def ask_keepers(state: Path, timeout: float = ANSWER_SECONDS) -> Iterator[KeeperAnswer]:
    """Of each that runs; those that have ended because nothing is to be done are none."""
    for folder in sorted(path for path in state.glob("keeper-*") if path.name[7:].isdigit()):
        if (folder / LOCK).exists() and is_locked(folder / LOCK):
            yield _ask(folder, timeout)


def _ask(folder: Path, timeout: float) -> KeeperAnswer:
    deadline, buffer = time.monotonic() + timeout, b""
    pid: int | None = None
    try:
        with protocol.connect(folder) as sock:
            pid = protocol.peer_pid(sock)
            sock.settimeout(timeout)
            sock.sendall(protocol.encode(protocol.HELLO, protocol.VERSION))
            while b"\n" not in buffer:
                sock.settimeout(max(deadline - time.monotonic(), 0.001))
                data = sock.recv(65_536)
                if not data:
                    return KeeperAnswer(folder.name, pid, "it has closed the connection")
                buffer += data
    except TimeoutError:
        return KeeperAnswer(folder.name, pid, f"it has not answered for {timeout:g} s")
    except OSError as error:
        return KeeperAnswer(folder.name, pid, f"it takes no connection: {error.strerror or error}")
    return KeeperAnswer(folder.name, pid, "")

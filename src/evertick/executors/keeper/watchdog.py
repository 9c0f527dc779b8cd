"""`python -m evertick.executors.keeper.watchdog FOLDER IDENTITY`: end what outlives the lease of its keeper.

One for each keeper's folder, as long as there is a keeper or a process of its runs. It needs nothing of the keeper but
its files: a keeper that was killed, stopped or hangs does not keep its runs beyond the lease, nor those that the ledger
does not know of beyond their deadline.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from evertick.executors.keeper.lease import Lease, read_lease
from evertick.executors.keeper.procfs import Snapshot, boottime_us, family_of
from evertick.executors.keeper.unconfirmed_watch import UnconfirmedWatch
from evertick.executors.keeper_process import LOCK as KEEPER_LOCK
from evertick.model.run_variables import KEEPER

LOCK = "watchdog.lock"
LOOK_SECONDS = 1.0
"""Short, because a sleep does not count the time that the machine is suspended."""
KILL_SECONDS = 0.05
IDLE_SECONDS = 10.0
"""How often the process table is read where nothing was left to end."""


def main(arguments: list[str]) -> int:
    folder, identity = Path(arguments[0]), arguments[1]
    lock = _try_lock(folder / LOCK)
    if lock is None:
        return 0  # there is one
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    watch(folder, frozenset({f"{KEEPER}={identity}".encode()}), UnconfirmedWatch(folder, identity))
    os.close(lock)
    return 0


def watch(folder: Path, marks: frozenset[bytes], unconfirmed: UnconfirmedWatch) -> None:
    """Until there is neither a keeper nor a process of its runs."""
    quiet_until = 0.0
    while True:
        lease, now, pause = read_lease(folder), boottime_us(), LOOK_SECONDS
        if not lease.is_limited:
            return
        if now < lease.until:
            quiet_until = 0.0
            pause = min((lease.until - now) / 1_000_000, LOOK_SECONDS)
        elif time.monotonic() >= quiet_until:
            if _end(folder, lease, marks):
                pause = KILL_SECONDS
            else:
                quiet_until = time.monotonic() + IDLE_SECONDS
        if unconfirmed.end_overdue():
            pause = KILL_SECONDS
        elif (next_at := unconfirmed.next_at()) is not None:
            pause = min(pause, max(next_at - boottime_us(), 0) / 1_000_000)
        if not is_locked(folder / KEEPER_LOCK) and not any(_marked(marks, Snapshot())):
            return
        time.sleep(pause)


def _end(folder: Path, lease: Lease, marks: frozenset[bytes]) -> bool:
    """Kill what runs beyond the lease; answers whether there was anything."""
    table = Snapshot()
    found = {stat.pid for leader in _marked(marks, table) for stat in family_of(leader, marks, table)}
    # After the table was read: what was started under a newer lease is left alone.
    if found and read_lease(folder) == lease:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    return bool(found)


def _marked(marks: frozenset[bytes], table: Snapshot) -> Iterator[int]:
    return (stat.pid for stat in table.alive if marks <= table.marks_of(stat.pid))


def is_locked(path: Path) -> bool:
    lock = _try_lock(path)
    if lock is None:
        return True
    os.close(lock)
    return False


def _try_lock(path: Path) -> int | None:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

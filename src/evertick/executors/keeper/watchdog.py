"""`python -m evertick.executors.keeper.watchdog FOLDER IDENTITY`: kills what outlives its keeper's lease.

One runs for each keeper's folder, as long as a keeper or a process of its attempts exists. It needs nothing from the
keeper but its files, so a keeper that was killed, stopped or hangs does not keep its attempts beyond the lease, nor
unconfirmed ones beyond their deadline.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from evertick.executors.keeper.attempt_state import AttemptState, AttemptStates
from evertick.executors.keeper.environment import marks_of_attempt
from evertick.executors.keeper.journal import JournalTail
from evertick.executors.keeper.lease import MARGIN_MIN_US, Lease, read_lease
from evertick.executors.keeper.procfs import Snapshot, boottime_us, family_of, is_alive, leaders_of, marks_of
from evertick.executors.keeper.unconfirmed import NEVER, DeadlineSummary, read_deadlines
from evertick.executors.keeper_process import LOCK as KEEPER_LOCK
from evertick.executors.keeper_process import is_locked, try_lock
from evertick.model.run_variables import KEEPER

LOCK = "watchdog.lock"
POLL_SECONDS = 1.0
"""Short, because a sleep does not count the time that the machine is suspended."""
KILL_SECONDS = 0.05
IDLE_SECONDS = 10.0
"""How often the process table is read when nothing was left to kill."""
AHEAD_US = 1_000_000
"""How long before the first deadline the journal is read, so that little is left to read when it comes."""
LATER_US = MARGIN_MIN_US
"""How much later than the keeper the watchdog acts: a healthy keeper ends its attempts itself and reports why."""


def main(arguments: list[str]) -> int:
    folder, identity = Path(arguments[0]), arguments[1]
    lock = try_lock(folder / LOCK)
    if lock is None:
        return 0  # one runs already
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    watch(folder, frozenset({f"{KEEPER}={identity}".encode()}), UnconfirmedWatch(folder, identity))
    os.close(lock)
    return 0


def watch(folder: Path, marks: frozenset[bytes], unconfirmed: UnconfirmedWatch) -> None:
    """Until neither a keeper nor a process of its attempts exists."""
    quiet_until = 0.0
    left: int | None = None
    while True:
        lease, now, pause = read_lease(folder), boottime_us(), POLL_SECONDS
        if not lease.is_limited:
            return
        if now < lease.until:
            quiet_until = 0.0
            pause = min((lease.until - now) / 1_000_000, POLL_SECONDS)
        elif time.monotonic() >= quiet_until:
            if _kill_all(folder, lease, marks):
                pause = KILL_SECONDS
            else:
                quiet_until = time.monotonic() + IDLE_SECONDS
        if unconfirmed.kill_overdue():
            pause = KILL_SECONDS
        elif (next_at := unconfirmed.next_at()) is not None:
            pause = min(pause, max(next_at - boottime_us(), 0) / 1_000_000)
        if not is_locked(folder / KEEPER_LOCK) and (left := _any_marked(marks, left)) is None:
            return
        time.sleep(pause)


def _kill_all(folder: Path, lease: Lease, marks: frozenset[bytes]) -> bool:
    """Kill what runs beyond the lease; whether anything did."""
    table = Snapshot()
    found = {stat.pid for leader in _marked(marks, table) for stat in family_of(leader, marks, table)}
    # Checked after the table was read: what was started under a newer lease is left alone.
    if found and read_lease(folder) == lease:
        _kill(found)
    return bool(found)


def _any_marked(marks: frozenset[bytes], known: int | None) -> int | None:
    """A process of the attempts. The known one is asked first: to read the table each second costs 1 % of a core."""
    if known is not None and is_alive(known) and marks <= marks_of(known):
        return known
    return next(_marked(marks, Snapshot()), None)


def _marked(marks: frozenset[bytes], table: Snapshot) -> Iterator[int]:
    return (stat.pid for stat in table.alive if marks <= table.marks_of(stat.pid))


class UnconfirmedWatch:
    """The attempts that the ledger has not recorded, as the journal and the file of deadlines have them.

    The journal has an attempt with its deadline before it is started; it is read only when a deadline is near.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder = folder
        self._identity = identity
        self._forget()

    def kill_overdue(self) -> bool:
        """Kill what the keeper should have ended by now; whether there was anything to kill."""
        deadlines, now = read_deadlines(self._folder), boottime_us()
        if deadlines.earliest == NEVER or now < deadlines.earliest - AHEAD_US:
            self._forget()
            return False
        overdue = self._overdue(deadlines, now)
        if not overdue:
            return False
        table = Snapshot()
        found = {state.number: self._processes_of(state, table) for state in overdue}
        self._gone.update(number for number, pids in found.items() if not pids)
        # Checked after the table was read: what was confirmed or renewed meanwhile is left alone.
        for state in self._overdue(read_deadlines(self._folder), now):
            _kill(found.get(state.number, ()))
        return any(found.values())

    def next_at(self) -> int | None:
        """When an attempt may next be overdue, in microseconds since boot; None: no deadline is known."""
        deadlines, now = read_deadlines(self._folder), boottime_us()
        ends = [deadlines.earliest - AHEAD_US, deadlines.earliest + LATER_US] if deadlines.earliest != NEVER else []
        ends += [
            state.unconfirmed.renewed_by(deadlines.newest).end_at + LATER_US
            for state in self._states.open.values()
            if state.unconfirmed is not None
        ]
        return min((end for end in ends if end > now), default=None)

    def _overdue(self, deadlines: DeadlineSummary, now: int) -> list[AttemptState]:
        is_new, lines = self._tail.read()
        if is_new:
            self._states = AttemptStates()
        self._states.read(lines)
        return [
            state
            for state in self._states.open.values()
            if state.unconfirmed is not None
            and state.number not in self._gone
            and state.unconfirmed.renewed_by(deadlines.newest).is_over(now - LATER_US)
        ]

    def _processes_of(self, state: AttemptState, table: Snapshot) -> set[int]:
        marks = marks_of_attempt(state.attempt_id.key.run_id, state.attempt_id.attempt, self._identity)
        leaders = leaders_of(state.processes, marks, table)
        return {stat.pid for leader in leaders for stat in family_of(leader, marks, table)}

    def _forget(self) -> None:
        """Free the states: those of a busy keeper are large, and are read again when they are needed."""
        self._tail, self._states = JournalTail(self._folder), AttemptStates()
        self._gone: set[int] = set()
        """Attempts without processes, though no keeper has journalled their end."""


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

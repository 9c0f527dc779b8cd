"""Which attempts that the ledger does not know of does a watchdog have to end, because their keeper does not?

Beside each renewal, which is in a file of its own, it needs only the journal: there an attempt is written down with its
deadline before it is started. The journal is not read while a keeper hears its scheduler.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from evertick.executors.keeper.attempt_state import AttemptStates, Known
from evertick.executors.keeper.environment import marks_of_attempt
from evertick.executors.keeper.journal import JournalTail
from evertick.executors.keeper.lease import MARGIN_MIN_US
from evertick.executors.keeper.procfs import Snapshot, boottime_us, family_of, leaders_of
from evertick.executors.keeper.unconfirmed import NEVER, Outlook, read_outlook

AHEAD_US = 1_000_000
"""How long before the first deadline the journal is read: then little of it is left to read when that comes."""
LATER_US = MARGIN_MIN_US
"""By how much a watchdog is later than the keeper, which ends its attempts by itself and says why while it is well."""


class UnconfirmedWatch:
    def __init__(self, folder: Path, identity: str) -> None:
        self._folder = folder
        self._identity = identity
        self._forget()

    def end_overdue(self) -> bool:
        """Kill what its keeper should have ended by now; answers whether there was anything to kill."""
        outlook, now = read_outlook(self._folder), boottime_us()
        if outlook.earliest == NEVER or now < outlook.earliest - AHEAD_US:
            self._forget()
            return False
        over = self._over(outlook, now)
        if not over:
            return False
        table = Snapshot()
        found = {known.number: self._processes_of(known, table) for known in over}
        self._gone.update(number for number, pids in found.items() if not pids)
        # After the table was read: what was confirmed or renewed meanwhile is left alone.
        for known in self._over(read_outlook(self._folder), now):
            for pid in found.get(known.number, ()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        return any(found.values())

    def next_at(self) -> int | None:
        """When something may be over, in microseconds since boot; None: nothing that is known."""
        outlook, now = read_outlook(self._folder), boottime_us()
        ends = [outlook.earliest - AHEAD_US, outlook.earliest + LATER_US] if outlook.earliest != NEVER else []
        ends += [
            known.unconfirmed.renewed_by(outlook.newest).end_at + LATER_US
            for known in self._book.open.values()
            if known.unconfirmed is not None
        ]
        return min((end for end in ends if end > now), default=None)

    def _over(self, outlook: Outlook, now: int) -> list[Known]:
        is_new, lines = self._tail.read()
        if is_new:
            self._book = AttemptStates()
        self._book.read(lines)
        return [
            known
            for known in self._book.open.values()
            if known.unconfirmed is not None
            and known.number not in self._gone
            and known.unconfirmed.renewed_by(outlook.newest).is_over(now - LATER_US)
        ]

    def _processes_of(self, known: Known, table: Snapshot) -> set[int]:
        marks = marks_of_attempt(known.attempt_id.key.run_id, known.attempt_id.attempt, self._identity)
        leaders = leaders_of(known.processes, marks, table)
        return {stat.pid for leader in leaders for stat in family_of(leader, marks, table)}

    def _forget(self) -> None:
        """The book of a busy keeper is large, and is read again when it is needed."""
        self._tail, self._book = JournalTail(self._folder), AttemptStates()
        self._gone: set[int] = set()
        """Of which nothing is left, though no keeper has written that down."""

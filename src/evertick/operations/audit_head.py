"""Where the audit log ends, noted in the ledger too: a log that was cut short shows.

The note is the holder of a lease that is never given up: every store has leases, and the note needs no more. It may lag
behind the log, when the ledger was away or a second has not passed; it is never ahead of it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from evertick.errors import EvertickError
from evertick.model.instant import DAY, Instant
from evertick.store import Store

log = logging.getLogger("evertick.audit")

PREFIX: Final = "audit:"
KEPT_US: Final = 36_500 * DAY
NOTE_SECONDS: Final = 1.0
"""The minimum time between two notes: no action waits for one."""


class Head(NamedTuple):
    number: int
    seal: str


class LedgerHead:
    """The note about one log. Any thread may use it."""

    def __init__(self, store: Store, log_id: str, now: Callable[[], Instant]) -> None:
        self._store = store
        self._name = f"{PREFIX}{log_id}"
        self._now = now
        self._lock = threading.Lock()
        self._wanted: Head | None = None
        self._timer: threading.Timer | None = None

    def read(self) -> Head | None:
        """What the ledger says; None where it says nothing."""
        held = next((one for one in self._store.lease((), "", 0, self._now()) if one.name == self._name), None)
        if held is None:
            return None
        number, _, seal = held.holder.partition(":")
        return Head(int(number), seal)

    def note(self, head: Head) -> None:
        """Write it soon; a newer one takes its place."""
        with self._lock:
            self._wanted = head
            if self._timer is None:
                self._timer = threading.Timer(NOTE_SECONDS, self._write_wanted)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write now what is still to be written."""
        with self._lock:
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._write_wanted()

    def _write_wanted(self) -> None:
        with self._lock:
            head, self._wanted, self._timer = self._wanted, None, None
        if head is None:
            return
        try:
            known = self.read()
            if known is not None and known.number >= head.number:
                return  # another process was faster
            if known is not None:
                self._store.lease([self._name], f"{known.number}:{known.seal}", 0, self._now())
            self._store.lease([self._name], f"{head.number}:{head.seal}", KEPT_US, self._now())
        except EvertickError as error:
            log.warning("audit.head_not_noted reason=%s", error)

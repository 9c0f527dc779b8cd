"""Checks a ledger file in full, in the background, after the start and once a day."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from enum import StrEnum

from evertick.dispatch.clock import Clock
from evertick.errors import StoreError
from evertick.model.instant import Instant, to_text
from evertick.store import IntegrityChecks

log = logging.getLogger("evertick.integrity")

FIRST_SECONDS = 10.0
"""Time after the start, when catch-up and the first launches are over."""
AGAIN_SECONDS = 24 * 3600.0
_LOWEST_PRIORITY = 19


class CheckState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    OK = "ok"
    DAMAGED = "damaged"
    UNKNOWN = "unknown"
    """It could not be read completely."""


class IntegrityCheck:
    """A thread of the lowest priority, with its own connection: launches never wait for it."""

    def __init__(
        self,
        store: IntegrityChecks,
        clock: Clock,
        damaged: Callable[[str], None],
        first_seconds: float = FIRST_SECONDS,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        """`damaged` is called from this thread, once for each finding."""
        self._store = store
        self._clock = clock
        self._damaged = damaged
        self._first_seconds, self._again_seconds = first_seconds, again_seconds
        self._stopping = threading.Event()
        self._state = CheckState.PENDING
        self._finding = ""
        self._checked_at: Instant | None = None
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="evertick-integrity", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def status(self) -> dict[str, object]:
        """What the last check found, for the node's status; from any thread."""
        at = self._checked_at
        return {
            "state": str(self._state),
            "finding": self._finding,
            "checked_at": None if at is None else to_text(at),
            "seconds": self._seconds,
        }

    def _run(self) -> None:
        if sys.platform == "linux":
            # Linux counts the priority by thread.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)
        pause = self._first_seconds
        while not self._stopping.wait(pause):
            self._check()
            pause = self._again_seconds

    def _check(self) -> None:
        before, self._state = self._state, CheckState.RUNNING
        began = time.monotonic()
        try:
            finding = self._store.full_check(self._stopping.is_set)
        except InterruptedError:
            self._state = before
            return
        except (StoreError, OSError) as error:
            self._state, self._finding = CheckState.UNKNOWN, str(error)
            log.warning("ledger.unchecked reason=%s", error)
            return
        self._seconds, self._checked_at = time.monotonic() - began, self._clock.now()
        if finding is None:
            self._state, self._finding = CheckState.OK, ""
            log.info("ledger.checked seconds=%.1f", self._seconds)
            return
        is_news = finding != self._finding
        self._state, self._finding = CheckState.DAMAGED, finding
        log.error("ledger.damaged reason=%s", finding)
        if is_news:
            self._damaged(finding)

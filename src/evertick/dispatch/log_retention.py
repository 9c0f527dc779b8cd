"""Deletes the logs of old runs, after the retention of their job or of the settings."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Final, Protocol

from evertick.dispatch.clock import Clock
from evertick.model.instant import Instant
from evertick.model.job import Job

log = logging.getLogger("evertick.maintenance")

EVERY_SECONDS: Final = 3_600.0
FIRST_SECONDS: Final = 60.0
"""Not at the very start, when there is enough to do."""
AT_ONCE: Final = 200
PAUSE_SECONDS: Final = 0.2
"""Between two portions: a million old files must not keep the disk from the ledger."""


class Prune(Protocol):
    def __call__(self, before: Instant, limit: int, job_id: str | None, *, but: Collection[str]) -> int:
        """Remove the logs of runs that ended before then, of one job or of all but some; returns the number of runs."""
        ...


class LogRetention:
    """A thread that looks once an hour. What it cannot remove it leaves for the next time."""

    def __init__(self, prune: Prune, jobs: Callable[[], Iterable[Job]], clock: Clock, retention_us: int | None) -> None:
        self._prune = prune
        self._jobs = jobs
        self._clock = clock
        self._retention_us = retention_us
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evertick-log-retention", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def sweep(self) -> int:
        """Sweep once; returns the number of runs whose logs were removed."""
        own = {job.id: job.log_retention_us for job in self._jobs() if job.log_retention_us is not None}
        removed = sum(self._sweep(job_id, retention_us) for job_id, retention_us in own.items())
        if self._retention_us is not None:
            removed += self._sweep(None, self._retention_us, own)
        if removed:
            log.info("logs.removed runs=%d", removed)
        return removed

    def _sweep(self, job_id: str | None, retention_us: int, but: Collection[str] = ()) -> int:
        before, removed = self._clock.now() - retention_us, 0
        while not self._stopping.is_set():
            gone = self._prune(before, AT_ONCE, job_id, but=but)
            removed += gone
            if gone < AT_ONCE:
                break
            self._stopping.wait(PAUSE_SECONDS)
        return removed

    def _run(self) -> None:
        wait = FIRST_SECONDS
        while not self._stopping.wait(wait):
            wait = EVERY_SECONDS
            try:
                self.sweep()
            except Exception:
                log.exception("logs.not_removed")

"""Copies finished logs from this node's folder to the log store, in its own thread, and retries until it succeeds."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from evertick.dispatch.facts import Fact
from evertick.model.lifecycle import RETRYING, TERMINAL
from evertick.model.run import Change, RunKey

log = logging.getLogger("evertick.logs")

T = TypeVar("T")

WAITING_MAX: Final = 100_000
AGAIN_SECONDS: Final = 5.0
GROWING_SECONDS: Final = 600.0
"""A log that still grows this long after its attempt ended is left to the next start."""
WARN_SECONDS: Final = 60.0


class Copies(Protocol):
    """What is copied, and where."""

    def copy(self, key: RunKey) -> bool:
        """Copy the logs of a run that were not copied yet; False: some of them still grow. Raises if that fails."""
        ...

    def uncopied(self) -> Sequence[Callable[[], bool]]:
        """What earlier processes of this node have not copied yet."""
        ...


class _Job(NamedTuple):
    copy: Callable[[], bool]
    since: float


class LogCopier:
    """A listener to facts, with a thread of its own."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self._waiting: queue.Queue[_Job | None] = queue.Queue(WAITING_MAX)
        self._later: list[tuple[float, _Job]] = []
        self._stopping = threading.Event()
        self._warned_at = -WARN_SECONDS
        self._thread = threading.Thread(target=self._run, name="evertick-log-copier", daemon=True)

    def __call__(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if type(fact) is Change and fact.attempt and (fact.state in TERMINAL or fact.state is RETRYING):
                key = fact.key
                try:
                    self._waiting.put_nowait(_Job(partial(self._copies.copy, key), time.monotonic()))
                except queue.Full:
                    log.warning("logs.not_copied run=%s reason=too many wait; the next start copies it", key.run_id)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The rest is copied after the next start."""
        self._stopping.set()
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join(AGAIN_SECONDS)

    def _run(self) -> None:
        for copy in self._try(self._copies.uncopied) or ():
            if self._stopping.is_set():
                return
            self._do(_Job(copy, time.monotonic()))
        while not self._stopping.is_set():
            now = time.monotonic()
            due = [job for at, job in self._later if at <= now]
            self._later = [(at, job) for at, job in self._later if at > now]
            for job in due:
                self._do(job)
            try:
                found = self._waiting.get(timeout=AGAIN_SECONDS if not self._later else 0.5)
            except queue.Empty:
                continue
            if found is not None:
                self._do(found)

    def _do(self, job: _Job) -> None:
        is_done = self._try(job.copy)
        has_failed = is_done is None
        if is_done or (not has_failed and time.monotonic() - job.since > GROWING_SECONDS):
            return
        self._later.append((time.monotonic() + AGAIN_SECONDS, job))

    def _try(self, work: Callable[[], T]) -> T | None:
        """None: the store, or a file, cannot be reached now."""
        try:
            return work()
        except Exception as error:  # every store has errors of its own
            if time.monotonic() - self._warned_at >= WARN_SECONDS:
                self._warned_at = time.monotonic()
                log.warning("logs.not_copied reason=%s: %s; it is tried again", type(error).__name__, error)
            return None

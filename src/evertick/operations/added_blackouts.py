"""The blackouts that were added at run time, read from the ledger and given to the jobs that they concern."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from evertick.errors import StoreError
from evertick.model.blackout import AddedBlackout, read_blackouts

if TYPE_CHECKING:
    from evertick.definitions.source import Folder
    from evertick.store import Store

log = logging.getLogger("evertick")

KEPT_SECONDS: Final = 1.0
"""How old they may be: one operation asks for all jobs several times."""


class AddedBlackouts:
    """Any thread may use it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._found: tuple[AddedBlackout, ...] = ()
        self._applied: tuple[Folder, tuple[AddedBlackout, ...], Folder] | None = None

    def found(self) -> tuple[AddedBlackout, ...]:
        """As of at most a second ago; without the ledger, as they were last."""
        with self._lock:
            now = time.monotonic()
            if self._read_at is None or now - self._read_at >= KEPT_SECONDS:
                try:
                    found = read_blackouts(self._store.blackouts().values())
                    self._found = self._found if found == self._found else found
                except StoreError as error:
                    log.debug("blackouts.unread reason=%s", error)
                self._read_at = now
            return self._found

    def forget(self) -> None:
        """Read them again, so that a caller sees its own change."""
        with self._lock:
            self._read_at = None

    def applied_to(self, folder: Folder) -> Folder:
        """The jobs of a folder as they are planned; the same object as long as nothing has changed."""
        found = self.found()
        if not found:
            return folder
        known = self._applied
        if known is not None and known[0] is folder and known[1] is found:
            return known[2]
        jobs = {job_id: job.with_blackouts(found) for job_id, job in folder.jobs.items()}
        applied = replace(folder, jobs=MappingProxyType(jobs))
        self._applied = (folder, found, applied)
        return applied

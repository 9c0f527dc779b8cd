"""Looking after the ledger while it is in use: old lines go, and a copy is made each day."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from evertick.dispatch.clock import Clock
from evertick.loop.messages import Message
from evertick.model.instant import DAY, Instant
from evertick.store import Store

log = logging.getLogger("evertick.maintenance")

RETENTION_US = 90 * DAY
BACKUPS_US = 7 * DAY
COMPACT_AT_ONCE = 2_000
"""Lines removed in one go: few enough that a commit behind them is not late."""


@runtime_checkable
class _KeepsCopies(Protocol):
    """A store that is a file can be copied; a server has its own tools."""

    def backup(self, now: Instant, keep_days: int) -> object: ...


class Maintenance:
    """Asked by the writer in between: each call does a little and says nothing to the loop."""

    def __init__(
        self,
        clock: Clock,
        retention_us: int | None = RETENTION_US,
        backups_us: int = BACKUPS_US,
        own: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """`own` answers how long the lines of those jobs are kept that say so themselves; asked from any thread."""
        self._clock = clock
        # Whole days, one at least: a copy is made each day.
        self._backup_days = max(1, backups_us // DAY)
        self._retention_us = retention_us
        self._own = own
        self.has_more = False
        """Whether the last call stopped because it had done enough for once."""

    def __call__(self, store: Store) -> Sequence[Message]:
        now = self._clock.now()
        if isinstance(store, _KeepsCopies) and not self.has_more:
            copy = store.backup(now, self._backup_days)
            if copy is not None:
                log.info("store.copied to=%s", copy)
        removed = 0
        own = {job_id: now - kept_us for job_id, kept_us in self._own().items()}
        default = None if self._retention_us is None else now - self._retention_us
        if own or default is not None:
            removed = store.compact(own, default, COMPACT_AT_ONCE)
            if removed:
                log.info("store.compacted lines=%d", removed)
        self.has_more = removed >= COMPACT_AT_ONCE
        return ()

"""Maintains a ledger in use: removes old lines, makes a daily copy, keeps the files for people up to date."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from evertick.dispatch.clock import Clock
from evertick.loop.messages import Message
from evertick.loop.state import State
from evertick.model.instant import DAY, Instant
from evertick.model.work import Pipeline
from evertick.planning.schedules import compile_all, next_of
from evertick.settings.parts import RetentionPart
from evertick.store import Backups, Ledger

log = logging.getLogger("evertick.maintenance")

COMPACT_AT_ONCE = 2_000
"""Lines removed in one call: few enough not to delay the next commit."""


class Maintenance:
    """Called by the writer between two writes: each call does a little and reports nothing to the loop."""

    def __init__(
        self,
        clock: Clock,
        retention: RetentionPart,
        own: Callable[[], Mapping[str, int]] = dict,
        backups: Backups | None = None,
    ) -> None:
        """`own` returns how long the lines of jobs with their own retention are kept; called from any thread."""
        self._clock = clock
        # Whole days, one at least: a copy is made each day.
        self._backup_days = max(1, retention.backups_us // DAY)
        self._retention_us = retention.history_us
        self._own = own
        self._backups = backups
        self.has_more = False
        """Whether the last call stopped because it had done enough for once."""

    def __call__(self, store: Ledger) -> Sequence[Message]:
        now = self._clock.now()
        if self._backups is not None and not self.has_more:
            copy = self._backups.backup(now, self._backup_days)
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


def find_next_runs(state: State, now: Instant) -> dict[str, Instant]:
    """When each pipeline of this node is due next; one that is held is not."""
    found: dict[str, Instant] = {}
    for job_id, job in state.jobs.items():
        if job.hold is None and job.job.schedules and any(isinstance(step.kind, Pipeline) for step in job.job.steps):
            at = next_of(compile_all(job.job.schedules), now)
            if at is not None:
                found[job_id] = at
    return found

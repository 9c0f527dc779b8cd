"""Does a run start only when the jobs that it requires have succeeded, whichever nodes own them?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from evertick.model.instant import Instant
from evertick.model.lifecycle import ENDED, FAILED, LOST, TIMED_OUT, RunState
from evertick.model.run import LedgerRow, RunKey
from evertick.testing.caller import Caller
from evertick.testing.invariants import Violation
from evertick.testing.timeline import Timeline

_BAD = (FAILED, TIMED_OUT, LOST)


class _End(NamedTuple):
    key: RunKey
    at: Instant
    """When the ledger was told."""
    state: RunState


class PreviousSuccessWatch:
    def __init__(
        self,
        timeline: Timeline,
        required: Mapping[str, tuple[str, ...]],
        margin_us: int,
        there_since: Callable[[str], Instant | None],
        has_active: Callable[[str], bool],
    ) -> None:
        self._timeline = timeline
        self._required = required
        self._margin_us = margin_us
        """What the ledger was told so long ago has reached whoever owns the job by now."""
        self._there_since = there_since
        self._has_active = has_active
        """Whether the ledger has runs of a job that may have ended since: their owner knows it first."""
        self._ends: defaultdict[str, list[_End]] = defaultdict(list)
        self._decided: defaultdict[tuple[Caller, str], list[_End]] = defaultdict(list)
        """What a process has made of runs, whether or not the ledger has heard of it yet."""
        self._read_at: dict[RunKey, Instant] = {}

    def ended(self, row: LedgerRow) -> None:
        """The ledger is told how a run ended; a skip is no run."""
        if row.state in ENDED:
            self._ends[row.key.job_id].append(_End(row.key, self._timeline.now, row.state))

    def decided(self, caller: Caller, key: RunKey, state: RunState) -> None:
        """A node has decided how a run ended."""
        if state in ENDED:
            self._decided[caller, key.job_id].append(_End(key, self._timeline.now, state))

    def read(self, key: RunKey) -> None:
        """A node reads how jobs of others went, for a run that is due."""
        self._read_at[key] = self._timeline.now

    def starting(self, caller: Caller, key: RunKey, owns: Callable[[str], bool]) -> None:
        """A node has decided to start the first attempt of a run."""
        if key.job_id in self._required:
            for required in self._required[key.job_id] or (key.job_id,):
                self._check(caller, key, required, owns)

    def _check(self, caller: Caller, key: RunKey, required: str, owns: Callable[[str], bool]) -> None:
        judged_at = self._timeline.now if owns(required) else self._read_at.get(key, self._timeline.now)
        told = [*self._ends[required], *self._decided[caller, required]]
        ends = [end for end in told if end.at <= judged_at]
        since = self._there_since(required)
        if not ends or since is None or (self._margin_us and self._has_active(required)):
            return
        newest, last = max(ends), max(ends, key=lambda end: end.at)
        is_plain = newest.key == last.key and last.state in _BAD and since <= last.at <= judged_at - self._margin_us
        if is_plain:
            raise Violation(
                f"{key.run_id} was started, and the last run that it requires, {last.key.run_id}, had not succeeded"
            )

"""Does a run start only when the jobs that it requires have succeeded, whichever nodes own them?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from evertick.model.instant import Instant
from evertick.model.lifecycle import ENDED, FAILED, LAUNCHING, LOST, TIMED_OUT, RunState, Trigger
from evertick.model.run import Change, LedgerRow, RunKey
from evertick.testing.invariants import Violation
from evertick.testing.timeline import Caller, Timeline

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
        """A change that is this old has reached the owner of the job."""
        self._there_since = there_since
        self._has_active = has_active
        """Whether the ledger has runs of a job that may have ended since: their owner knows it first."""
        self._ends: defaultdict[str, list[_End]] = defaultdict(list)
        self._decided: defaultdict[tuple[Caller, str], list[_End]] = defaultdict(list)
        """What a process has made of runs, whether or not the ledger has heard of it yet."""
        self._read_at: dict[RunKey, Instant] = {}
        self._verdicts: dict[RunKey, str] = {}

    def ended(self, row: LedgerRow) -> None:
        """The end of a run is recorded; a skip is not a run."""
        if row.state in ENDED and row.trigger is not Trigger.ITEM:
            self._ends[row.key.job_id].append(_End(row.key, self._timeline.now, row.state))

    def changed(self, caller: Caller, change: Change, owns: Callable[[str], bool], well: Collection[str]) -> None:
        """A node has decided something about a run; judged when it is to start, and held against it if it does.

        `well` are the jobs of which a run has ended without a failure in the same turn, perhaps before that decision.
        """
        key = change.key
        self._verdicts.pop(key, None)
        if change.trigger is Trigger.ITEM:
            return  # a part of another run: nothing is required of it, and it says nothing of its job
        if change.state is LAUNCHING and change.attempt == 1 and key.job_id in self._required:
            required = [one for one in self._required[key.job_id] or (key.job_id,) if one not in well]
            found = (self._verdict(caller, key, one, owns) for one in required)
            self._verdicts[key] = next(filter(None, found), "")
        elif change.state in ENDED:
            self._decided[caller, key.job_id].append(_End(key, self._timeline.now, change.state))

    def read(self, key: RunKey) -> None:
        """A node reads how jobs of others went, for a run that is due."""
        self._read_at[key] = self._timeline.now

    def launched(self, key: RunKey) -> None:
        """Not all that is decided comes to this: an executor may have been asked about it, and not know it."""
        if self._verdicts.get(key):
            raise Violation(self._verdicts[key])

    def _verdict(self, caller: Caller, key: RunKey, required: str, owns: Callable[[str], bool]) -> str | None:
        judged_at = self._timeline.now if owns(required) else self._read_at.get(key, self._timeline.now)
        told = [*self._ends[required], *self._decided[caller, required]]
        ends = [end for end in told if end.at <= judged_at]
        since = self._there_since(required)
        if not ends or since is None or (self._margin_us and self._has_active(required)):
            return None
        newest, last = max(ends), max(ends, key=lambda end: end.at)
        is_plain = newest.key == last.key and last.state in _BAD and since <= last.at <= judged_at - self._margin_us
        said = f"{key.run_id} was started, and the last run that it requires, {last.key.run_id}, had not succeeded"
        return said if is_plain else None

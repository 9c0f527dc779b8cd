"""Counts runs by state, from what is written to the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from evertick.dispatch.facts import Fact, Withdrawn
from evertick.loop.messages import BucketsGained, BucketsLost
from evertick.model.bucket import bucket_of
from evertick.model.lifecycle import OPEN, PLANNED, RunState
from evertick.model.run import Change, Entry, RunKey


class RunCounters:
    """Written in the loop's thread; any thread may read the counts, which may be a moment old."""

    def __init__(self) -> None:
        self._states: dict[RunKey, RunState] = {}
        self._counts: Counter[RunState] = Counter()
        self._owned: set[int] = set()
        self.buckets_lost = 0
        """Buckets that another node has taken."""
        self.gaps = 0

    @property
    def open_runs(self) -> dict[str, int]:
        return {str(state): self._counts[state] for state in RunState if state in OPEN}

    def __call__(self, facts: Sequence[Fact]) -> None:
        # Most facts are changes, several for each run; other facts keep their order between them.
        moved: dict[RunKey, RunState] = {}
        for fact in facts:
            if type(fact) is Change:
                moved[fact.key] = fact.state
                continue
            self._move_all(moved)
            match fact:
                case Entry(key, state):
                    if state is PLANNED:
                        self._move(key, state)
                    elif fact.is_gap:
                        self.gaps += 1
                case Withdrawn(keys):
                    self._forget(keys)
                case BucketsGained(epochs, snapshot):
                    self._owned |= epochs.keys()
                    for row in snapshot.open_runs:
                        self._move(row.key, row.state)
                case BucketsLost(buckets, is_fenced):
                    self.buckets_lost += len(buckets) if is_fenced else 0
                    gone = frozenset(buckets)
                    self._owned -= gone
                    self._forget([key for key in self._states if bucket_of(key.job_id) in gone])
                case _:
                    pass
        self._move_all(moved)

    def _move_all(self, moved: dict[RunKey, RunState]) -> None:
        for key, state in moved.items():
            self._move(key, state)
        moved.clear()

    def _move(self, key: RunKey, state: RunState) -> None:
        before = self._states.get(key)
        if before is state:
            return
        if before is None and bucket_of(key.job_id) not in self._owned:
            return  # a run that continued when its job moved to another node, which counts it
        if before is not None:
            self._counts[before] -= 1
        if state in OPEN:
            self._states[key] = state
            self._counts[state] += 1
        else:
            self._states.pop(key, None)

    def _forget(self, keys: Iterable[RunKey]) -> None:
        for key in keys:
            before = self._states.pop(key, None)
            if before is not None:
                self._counts[before] -= 1

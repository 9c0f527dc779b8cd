"""Counts runs by state, from what is written to the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from evertick.dispatch.facts import Fact, Withdrawn
from evertick.loop.messages import BucketsGained, BucketsLost
from evertick.model.ledger import bucket_of
from evertick.model.lifecycle import OPEN, PLANNED, RunState, Trigger
from evertick.model.run import Change, Entry, RunKey


class RunCounters:
    """Written in the loop's thread; any thread may read the counts, which may be a moment old."""

    def __init__(self) -> None:
        self._states: dict[RunKey, RunState] = {}
        self._items: set[RunKey] = set()
        """Open runs of items."""
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
                if fact.trigger is Trigger.ITEM or (self._items and fact.key in self._items):
                    self._note_item(fact.key, fact.state)
                else:
                    moved[fact.key] = fact.state
                continue
            if type(fact) is Entry:
                if fact.trigger is Trigger.ITEM:
                    self._note_item(fact.key, fact.state)
                elif fact.state is PLANNED:
                    moved[fact.key] = PLANNED
                elif fact.is_gap:
                    self.gaps += 1
                continue
            self._move_all(moved)
            match fact:
                case Withdrawn(keys):
                    self._forget(keys)
                case BucketsGained(epochs, snapshot):
                    self._owned |= epochs.keys()
                    for row in snapshot.open_runs:
                        if row.trigger is Trigger.ITEM:
                            self._note_item(row.key, row.state)
                        else:
                            moved[row.key] = row.state
                    self._move_all(moved)
                case BucketsLost(buckets, is_fenced):
                    self.buckets_lost += len(buckets) if is_fenced else 0
                    gone = frozenset(buckets)
                    self._owned -= gone
                    self._forget([key for key in self._states if bucket_of(key.job_id) in gone])
                    self._items = {key for key in self._items if bucket_of(key.job_id) not in gone}
                case _:
                    pass
        self._move_all(moved)

    def _note_item(self, key: RunKey, state: RunState) -> None:
        """The run of an item is not counted: it is a part of another. A later change may not say that it is one."""
        if state in OPEN:
            self._items.add(key)
        else:
            self._items.discard(key)

    def _move_all(self, moved: dict[RunKey, RunState]) -> None:
        states, counts = self._states, self._counts
        for key, state in moved.items():
            before = states.get(key)
            if before is state:
                continue
            if before is not None:
                counts[before] -= 1
            elif bucket_of(key.job_id) not in self._owned:
                continue  # a run that continued when its job moved to another node, which counts it
            if state in OPEN:
                states[key] = state
                counts[state] += 1
            elif before is not None:
                del states[key]
        moved.clear()

    def _forget(self, keys: Iterable[RunKey]) -> None:
        for key in keys:
            before = self._states.pop(key, None)
            if before is not None:
                self._counts[before] -= 1

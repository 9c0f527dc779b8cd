"""Where the lines of an in-memory ledger lie in time: in order of the keyset, and per job for the rule about gaps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from evertick.model.instant import Instant
from evertick.model.run import Entry, RunKey

Place: TypeAlias = tuple[Instant, str, str]
"""A key as the ledger is sorted: (scheduled_for, job_id, origin)."""
Stretch: TypeAlias = tuple[Instant, Instant]


class TimeIndex:
    def __init__(self) -> None:
        self._sorted: list[Place] = []
        self._unsorted: list[Place] = []
        self._removed: set[Place] = set()
        self._instants: dict[str, list[Instant]] = {}
        """Per job: where its schedule has a line, in order."""
        self._gaps: dict[str, list[Stretch]] = {}
        """Per job: its gaps, in order; they never overlap."""

    def add(self, key: RunKey, through: Instant | None) -> None:
        job_id, at, origin = key
        place = (at, job_id, origin)
        if place in self._removed:
            self._removed.discard(place)  # it is still in one of the lists
        else:
            self._unsorted.append(place)
        if origin:
            return
        instants = self._instants.setdefault(job_id, [])
        if not instants or instants[-1] < at:
            instants.append(at)
        else:
            insort(instants, at)
        if through is not None:
            insort(self._gaps.setdefault(job_id, []), (at, through))

    def remove(self, key: RunKey) -> None:
        job_id, at, origin = key
        self._removed.add((at, job_id, origin))
        if origin:
            return
        instants = self._instants[job_id]
        del instants[bisect_left(instants, at)]
        if not instants:
            del self._instants[job_id]
        gap = self._gap_before(job_id, at)
        if gap is not None and gap[0] == at:
            self._gaps[job_id].remove(gap)

    def is_taken(self, entry: Entry) -> bool:
        """Whether an occurrence of this entry was decided by another line of its job."""
        job_id, at, origin = entry.key
        if origin:
            return False
        gap = self._gap_before(job_id, at)
        if gap is not None and gap[1] >= at:
            return True
        if not entry.is_gap or entry.through is None:
            return False
        instants = self._instants.get(job_id, [])
        following = bisect_left(instants, at)
        return following < len(instants) and instants[following] <= entry.through

    def walk(
        self, since: Instant | None, until: Instant | None, after: RunKey | None, oldest_first: bool
    ) -> Iterator[Place]:
        """The places that may lie between two instants, in order; gaps that reach past `since` count."""
        self._settle()
        places = self._sorted
        low = 0 if since is None else bisect_left(places, (self._reach_back(since), "", ""))
        high = len(places) if until is None else bisect_left(places, (until, "", ""))
        if after is not None:
            mark = (after.scheduled_for, after.job_id, after.origin)
            if oldest_first:
                low = max(low, bisect_right(places, mark))
            else:
                high = min(high, bisect_left(places, mark))
        if oldest_first:
            return islice(places, low, max(low, high))
        return (places[number] for number in range(high - 1, low - 1, -1))

    def _gap_before(self, job_id: str, at: Instant) -> Stretch | None:
        """The last gap of a job that begins at or before an instant."""
        gaps = self._gaps.get(job_id)
        if not gaps:
            return None
        number = bisect_right(gaps, at, key=lambda gap: gap[0])
        return gaps[number - 1] if number else None

    def _reach_back(self, since: Instant) -> Instant:
        """Where the earliest gap begins that is still going on at this instant."""
        reaching = (self._gap_before(job_id, since) for job_id in self._gaps)
        return min((gap[0] for gap in reaching if gap is not None and gap[1] >= since), default=since)

    def _settle(self) -> None:
        """Sort what was added since the last look: reading is rare, so writing does not pay for it."""
        if self._removed:
            removed = self._removed
            self._sorted = [place for place in self._sorted if place not in removed]
            self._unsorted = [place for place in self._unsorted if place not in removed]
            self._removed = set()
        if self._unsorted:
            self._sorted += sorted(self._unsorted)
            self._sorted.sort()  # two runs in order: one merge
            self._unsorted = []

"""Indexes of an in-memory ledger: by key, by job, by rare outcomes, and for gaps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeAlias

from evertick.model.instant import Instant
from evertick.model.lifecycle import SUCCEEDED, TERMINAL, RunState
from evertick.model.run import Entry, RunKey
from evertick.store import RunFilter

Place: TypeAlias = tuple[Instant, str, str]
"""A key as the ledger is sorted: (scheduled_for, job_id, origin)."""
Stretch: TypeAlias = tuple[Instant, Instant]
Read: TypeAlias = Callable[[Place | None, Place | None, int], list[Place]]
"""The places of lines: from the first, before the second, at most this many, in the wanted order."""
RARE = TERMINAL - {SUCCEEDED}
"""Outcomes that few lines have and that people search for most."""
QUOTA_MIN = 16
"""Read at least this many of each list where several are merged."""


def place_of(key: RunKey) -> Place:
    job_id, at, origin = key
    return at, job_id, origin


def next_place(place: Place) -> Place:
    """The first place behind this one."""
    at, job_id, origin = place
    return at, job_id, origin + "\0"


class TimeOrder:
    """Writing is quick; reading sorts only what was written since the last read."""

    __slots__ = ("_added", "_removed", "_sorted")

    def __init__(self) -> None:
        self._sorted: list[Place] = []
        self._added: list[Place] = []
        self._removed: set[Place] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._added) - len(self._removed)

    def add(self, place: Place) -> None:
        if place in self._removed:
            self._removed.discard(place)  # it is still in one of the lists
        else:
            self._added.append(place)

    def remove(self, place: Place) -> None:
        self._removed.add(place)

    def stretch(self, low: Place | None, high: Place | None, count: int, *, oldest_first: bool) -> list[Place]:
        """Up to `count` from `low` on and before `high`: the first ones in order, or the last ones in reverse order."""
        self._settle()
        start = 0 if low is None else bisect_left(self._sorted, low)
        end = len(self._sorted) if high is None else bisect_left(self._sorted, high)
        if oldest_first:
            return self._sorted[start : min(end, start + count)]
        return self._sorted[max(start, end - count) : end][::-1]

    def _settle(self) -> None:
        if self._removed:
            removed, places = self._removed, self._sorted
            low, high = bisect_left(places, min(removed)), bisect_right(places, max(removed))
            places[low:high] = [place for place in places[low:high] if place not in removed]
            self._added = [place for place in self._added if place not in removed]
            self._removed = set()
        if self._added:
            self._added.sort()
            # What is new is late in time, and so is what it must be put between.
            low = bisect_left(self._sorted, self._added[0])
            self._sorted[low:] = sorted(self._sorted[low:] + self._added)
            self._added = []


class TimeIndex:
    def __init__(self) -> None:
        self._all = TimeOrder()
        self._ended = {state: TimeOrder() for state in RARE}
        self._instants: dict[str, list[Instant]] = {}
        """Per job: where its schedule has a line, in order."""
        self._requested: dict[str, TimeOrder] = {}
        """Per job: the lines of requested runs."""
        self._gaps: dict[str, list[Stretch]] = {}
        """Per job: its gaps, in order; they never overlap."""

    def add(self, key: RunKey, through: Instant | None, state: RunState) -> None:
        job_id, at, origin = key
        place = place_of(key)
        self._all.add(place)
        if state in RARE:
            self._ended[state].add(place)
        if origin:
            self._requested.setdefault(job_id, TimeOrder()).add(place)
            return
        instants = self._instants.setdefault(job_id, [])
        if not instants or instants[-1] < at:
            instants.append(at)
        else:
            insort(instants, at)
        if through is not None:
            insort(self._gaps.setdefault(job_id, []), (at, through))

    def end(self, key: RunKey, state: RunState) -> None:
        """Note that an existing line has ended."""
        if state in RARE:
            self._ended[state].add(place_of(key))

    def remove(self, key: RunKey, state: RunState) -> None:
        job_id, at, origin = key
        place = place_of(key)
        self._all.remove(place)
        if state in RARE:
            self._ended[state].remove(place)
        if origin:
            self._requested[job_id].remove(place)
            if not self._requested[job_id]:
                del self._requested[job_id]
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

    def stretch(self, where: RunFilter, after: Place | None, count: int) -> list[Place]:
        """The next places, about `count`, where a matching line may be; none only at the end.

        Gaps that reach past `since` count. Which of them fit is for the lines to say.
        """
        low = None if where.since is None else (where.since, "", "")
        high = None if where.until is None else (where.until, "", "")
        earlier = [] if where.since is None else self._reaching(where.job_ids, where.since)
        if after is not None:
            if where.oldest_first:
                behind = next_place(after)
                low = behind if low is None else max(low, behind)
                earlier = [place for place in earlier if place >= behind]
            else:
                high = after if high is None else min(high, after)
                earlier = [place for place in earlier if place < after]
        reads = self._reads(where)
        if len(reads) == 1 and not earlier:
            return reads[0](low, high, count)
        quota = max(count // max(len(reads), 1), QUOTA_MIN)
        parts = [read(low, high, quota) for read in reads]
        found = sorted(chain(earlier, *parts), reverse=not where.oldest_first)
        # After the last place of a list that continues, there may be more.
        ends = [part[-1] for part in parts if len(part) == quota]
        if not ends:
            return found
        if where.oldest_first:
            return found[: bisect_right(found, min(ends))]
        end = max(ends)
        return [place for place in found if place >= end]

    def _reads(self, where: RunFilter) -> Sequence[Read]:
        """The index with the fewest candidates."""
        is_forward = where.oldest_first

        def of_places(places: TimeOrder) -> Read:
            return lambda low, high, count: places.stretch(low, high, count, oldest_first=is_forward)

        def of_job(job_id: str) -> Read:
            return lambda low, high, count: self._of_job(job_id, low, high, count, is_forward=is_forward)

        size, found = len(self._all), [of_places(self._all)]
        if where.states and RARE.issuperset(where.states):
            rare = [self._ended[state] for state in set(where.states)]
            if sum(map(len, rare)) < size:
                size, found = sum(map(len, rare)), [of_places(places) for places in rare]
        if where.job_ids:
            jobs = set(where.job_ids)
            if (
                sum(len(self._instants.get(job_id, ())) + len(self._requested.get(job_id, ())) for job_id in jobs)
                < size
            ):
                found = [of_job(job_id) for job_id in jobs]
        return found

    def _of_job(
        self, job_id: str, low: Place | None, high: Place | None, count: int, *, is_forward: bool
    ) -> list[Place]:
        instants = self._instants.get(job_id, [])
        start = 0 if low is None else _number(instants, job_id, low)
        end = len(instants) if high is None else _number(instants, job_id, high)
        some = instants[start : min(end, start + count)] if is_forward else instants[max(start, end - count) : end]
        found = [(at, job_id, "") for at in some]
        requested = self._requested.get(job_id)
        if requested is not None:
            found += requested.stretch(low, high, count, oldest_first=is_forward)
        found.sort(reverse=not is_forward)
        return found[:count]

    def _gap_before(self, job_id: str, at: Instant) -> Stretch | None:
        """The last gap of a job that begins at or before an instant."""
        gaps = self._gaps.get(job_id)
        if not gaps:
            return None
        number = bisect_right(gaps, at, key=lambda gap: gap[0])
        return gaps[number - 1] if number else None

    def _reaching(self, job_ids: Iterable[str], since: Instant) -> list[Place]:
        """The beginnings of gaps that begin before this instant and include it; of all jobs if none is named."""
        gaps = ((job_id, self._gap_before(job_id, since - 1)) for job_id in set(job_ids) or self._gaps)
        return [(gap[0], job_id, "") for job_id, gap in gaps if gap is not None and gap[1] >= since]


def _number(instants: Sequence[Instant], job_id: str, bound: Place) -> int:
    """How many instants of a job lie before a place."""
    number = bisect_left(instants, bound[0])
    is_before = number < len(instants) and (instants[number], job_id, "") < bound
    return number + is_before

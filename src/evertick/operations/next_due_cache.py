"""Caches when each job is due next, so that a query about many jobs does not compute it again."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from evertick.errors import EvertickError
from evertick.model.instant import Instant
from evertick.model.schedule import ScheduleSpec
from evertick.planning.schedules import Schedule, compile_all, key_of, next_of

Specs = tuple[ScheduleSpec, ...]
Action: TypeAlias = Literal["start", "stop", "restart"]
ALIKE_MAX = 10_000
"""Schedules whose results are shared; those that no job has any more are dropped in time."""


class Due(NamedTuple):
    at: Instant
    job_id: str
    action: Action = "start"


class _Place(NamedTuple):
    specs: Specs
    engines: tuple[Schedule, ...]
    asked_at: Instant
    next_at: Instant | None


class NextDueCache:
    """Caches a result until its time has come. Thread-safe; at worst, two threads compute the same."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, str], _Place] = {}
        self._alike: dict[Hashable, _Place] = {}
        """The last result for each schedule: many jobs have the same."""

    def next_of(self, job_id: str, specs: Specs, now: Instant, action: Action = "start") -> Instant | None:
        """The first occurrence after now; None if there is none, or the schedule is invalid."""
        return self._place(job_id, specs, now, action).next_at if specs else None

    def engines_of(self, job_id: str, specs: Specs, now: Instant) -> tuple[Schedule, ...]:
        """The compiled schedules of a job; none if they are invalid."""
        return self._place(job_id, specs, now, "start").engines

    def walk(
        self,
        jobs: Iterable[tuple[str, Action, Specs]],
        now: Instant,
        most: int | None = None,
        *,
        is_once: bool = False,
    ) -> Iterator[Due]:
        """Every occurrence of these jobs after now, in the order of time: ends only if all schedules do.

        With `is_once` only the first one of each. A caller that needs at most n passes n: the first n occurrences
        belong to the n jobs that are due first.
        """
        heap: list[tuple[Instant, str, Action, tuple[Schedule, ...]]] = []
        places = self._places
        for job_id, action, specs in jobs:
            place = places.get((job_id, action))
            if place is None or place.specs is not specs or not place.asked_at <= now < (place.next_at or 0):
                place = self._place(job_id, specs, now, action)
            if place.next_at is not None:
                heap.append((place.next_at, job_id, action, place.engines))
        if most is not None and most < len(heap):
            heap = heapq.nsmallest(most, heap)
        heapq.heapify(heap)
        while heap:
            at, job_id, action, engines = heap[0]
            yield Due(at, job_id, action)
            following = None if is_once else next_of(engines, at)
            if following is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (following, job_id, action, engines))

    def _place(self, job_id: str, specs: Specs, now: Instant, action: Action) -> _Place:
        known = self._places.get((job_id, action))
        is_same = known is not None and known.specs == specs
        if known is not None and is_same and _is_valid(known, now):
            return known
        key = key_of(specs)
        alike = self._alike.get(key)
        if alike is not None and _is_valid(alike, now):
            place = _Place(specs, *alike[1:])
        else:
            engines = known.engines if known is not None and is_same else _compiled(specs)
            place = _Place(specs, engines, now, next_of(engines, now) if engines else None)
            if len(self._alike) >= ALIKE_MAX:
                self._alike.clear()
            self._alike[key] = place
        self._places[job_id, action] = place
        return place


def _is_valid(place: _Place, now: Instant) -> bool:
    return place.asked_at <= now and (place.next_at is None or now < place.next_at)


def _compiled(specs: Specs) -> tuple[Schedule, ...]:
    try:
        return compile_all(specs)
    except EvertickError:
        return ()  # its definition is invalid, and has its own error

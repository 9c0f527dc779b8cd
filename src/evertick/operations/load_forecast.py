"""How many jobs start in each of the coming minutes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from evertick.errors import EvertickError
from evertick.model.instant import MINUTE, Instant
from evertick.model.schedule import ScheduleSpec
from evertick.planning.schedules import Schedule, compile_all, count_of, occurrences

COUNTED_MAX: Final = 200_000
"""Minutes of schedules that are computed, which takes some tenths of a second; jobs with equal schedules count once."""


class Crowd(NamedTuple):
    minutes: Mapping[Instant, int]
    """The beginnings of minutes in which something starts."""
    until: Instant
    """How far it counted: less than requested if there are too many occurrences."""


def count_starts(jobs: Iterable[tuple[ScheduleSpec, ...]], after: Instant, until: Instant) -> Crowd:
    """The starts of jobs with these schedules, minute by minute: all of them, or of a shorter time all of them."""
    groups = [(schedules, count) for specs, count in Counter(jobs).items() if (schedules := _compiled(specs))]
    while (until - after) // MINUTE > 1 and sum(_looks(one, after, until) for one, _ in groups) > COUNTED_MAX:
        until = after + (until - after) // 2
    found: Counter[Instant] = Counter()
    for schedules, count in groups:
        if count_of(schedules, after, until) <= (until - after) // MINUTE:
            for at in occurrences(schedules, after, until):
                found[at // MINUTE * MINUTE] += count
            continue
        # Due more often than once a minute: counted by minutes, however often that is.
        for minute in range((after + 1) // MINUTE * MINUTE, until + 1, MINUTE):
            number = count_of(schedules, max(after, minute - 1), min(until, minute + MINUTE - 1))
            if number:
                found[minute] += count * number
    return Crowd(dict(sorted(found.items())), until)


def _compiled(specs: tuple[ScheduleSpec, ...]) -> Sequence[Schedule]:
    try:
        return compile_all(specs)
    except EvertickError:
        return ()  # its definition is invalid, and has its own error


def _looks(schedules: Sequence[Schedule], after: Instant, until: Instant) -> int:
    return min(count_of(schedules, after, until), (until - after) // MINUTE)

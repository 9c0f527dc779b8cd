"""At which instants a schedule is due, and several schedules of one job together.

Windows are open at their start and closed at their end, as everywhere in planning: `start < instant <= end`.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from math import lcm
from typing import Protocol, TypeAlias
from weakref import WeakValueDictionary

from evertick.errors import DurationError
from evertick.model.duration import format_duration
from evertick.model.instant import DAY, MILLISECOND, SECOND, Instant
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.planning.calendar import CalendarSchedule, ExcludedOccurrences, Exclusion, day_rule
from evertick.planning.cron import Cron
from evertick.planning.days import days_in

SHORTEST_PERIOD_US = MILLISECOND
"""Below this an interval would ask for more launches than any machine can make."""
_PIECE = 100_000  # occurrences looked at together where they cannot be counted by arithmetic
_PERIODS_MAX = 10  # inclusion and exclusion looks at every subset


class Schedule(Protocol):
    def next_after(self, instant: Instant) -> Instant | None:
        """The first occurrence strictly after an instant."""

    def previous_before(self, instant: Instant) -> Instant | None:
        """The last occurrence strictly before an instant."""

    def between(self, start: Instant, end: Instant) -> list[Instant]:
        """Every occurrence of a window, in order."""

    def count(self, start: Instant, end: Instant) -> int:
        """How many occurrences a window has, without listing them."""


class CronSchedule:
    """A cron expression: the engine counts whole seconds, the planner microseconds."""

    __slots__ = ("__weakref__", "cron")

    def __init__(self, cron: Cron) -> None:
        self.cron = cron

    def next_after(self, instant: Instant) -> Instant | None:
        second = self.cron.next_second(instant // SECOND)
        return None if second is None else second * SECOND

    def previous_before(self, instant: Instant) -> Instant | None:
        # Rounded up: at 10:00:00.5 the second 10:00:00 has already been.
        second = self.cron.previous_second(-(-instant // SECOND))
        return None if second is None else second * SECOND

    def between(self, start: Instant, end: Instant) -> list[Instant]:
        return [second * SECOND for second in self.cron.seconds_between(start // SECOND, end // SECOND)]

    def count(self, start: Instant, end: Instant) -> int:
        return self.cron.count_between(start // SECOND, end // SECOND)


class Every:
    """The multiples of a period since the epoch."""

    __slots__ = ("__weakref__", "period_us")

    def __init__(self, period_us: int) -> None:
        if period_us < SHORTEST_PERIOD_US:
            raise DurationError(
                f"an interval of {format_duration(period_us)} is too short.",
                hint=f"Write {format_duration(SHORTEST_PERIOD_US)} or more, for example every: 250ms.",
            )
        self.period_us = period_us

    def next_after(self, instant: Instant) -> Instant | None:
        return max(instant // self.period_us + 1, 0) * self.period_us

    def previous_before(self, instant: Instant) -> Instant | None:
        return (instant - 1) // self.period_us * self.period_us if instant > 0 else None

    def between(self, start: Instant, end: Instant) -> list[Instant]:
        first = max(start // self.period_us + 1, 0) * self.period_us
        return list(range(first, end + 1, self.period_us))

    def count(self, start: Instant, end: Instant) -> int:
        return max(end // self.period_us - max(start // self.period_us, -1), 0)


class At:
    """One instant."""

    __slots__ = ("instant",)

    def __init__(self, instant: Instant) -> None:
        self.instant = instant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, At) and self.instant == other.instant

    def __hash__(self) -> int:
        return hash(self.instant)

    def next_after(self, instant: Instant) -> Instant | None:
        return self.instant if instant < self.instant else None

    def previous_before(self, instant: Instant) -> Instant | None:
        return self.instant if self.instant < instant else None

    def between(self, start: Instant, end: Instant) -> list[Instant]:
        return [self.instant] if start < self.instant <= end else []

    def count(self, start: Instant, end: Instant) -> int:
        return int(start < self.instant <= end)


Engine: TypeAlias = CronSchedule | Every | At | CalendarSchedule

_Shared: TypeAlias = CronSpec | EverySpec | CalendarSpec

# Weak references: an engine lives only as long as jobs use it, because jobs come and go for years.
_engines: WeakValueDictionary[_Shared, CronSchedule | Every | CalendarSchedule] = WeakValueDictionary()

# An H on its own, not the one of THU, @hourly or a zone. Seeing one too many would only cost sharing.
_HASHED = re.compile(r"(?<![A-Za-z])[Hh](?![A-Za-z])")


@lru_cache(maxsize=1_024)
def uses_name(text: str) -> bool:
    """Whether an expression is spread by the name of its job."""
    return _HASHED.search(text) is not None


def compile_schedule(spec: ScheduleSpec) -> Engine:
    """The engine of a schedule, shared by all that are equal; a `DefinitionError` if it cannot be used."""
    # An instant has nothing to compile and nothing to share, and there may be a million of them.
    # Without the name first: ten thousand jobs on twenty expressions look for twenty engines.
    return At(spec.instant) if isinstance(spec, AtSpec) else _compile_shared(_without_unused_name(spec))


# Recent ones are kept although no job uses them: previews ask for the same few again and again.
@lru_cache(maxsize=1_024)
def _compile_shared(spec: _Shared) -> CronSchedule | Every | CalendarSchedule:
    return _engine_of(spec)


def _engine_of(spec: _Shared) -> CronSchedule | Every | CalendarSchedule:
    engine = _engines.get(spec)
    if engine is None:
        engine = _engines[spec] = _compile(spec)
    return engine


def _without_unused_name(spec: _Shared) -> _Shared:
    """Without a name that it does not use, so that jobs share it."""
    match spec:
        case CronSpec(name=""):
            return spec
        case CronSpec(text, timezone) if not uses_name(text):
            return CronSpec(text, timezone)
        case CalendarSpec(CronSpec(text, timezone, name), rule, zone) if name and not uses_name(text):
            return CalendarSpec(CronSpec(text, timezone), rule, zone)
    return spec


def key_of(specs: Sequence[ScheduleSpec]) -> Hashable:
    """The same for schedules that are due at the same instants by the way they are written, in any order."""
    if len(specs) == 1:
        return _key_of(specs[0])
    keys = frozenset(map(_key_of, specs))
    return next(iter(keys)) if len(keys) == 1 else keys


def _key_of(spec: ScheduleSpec) -> Hashable:
    """The same for the same schedule, whatever the job is called; plain values, which are quick to look up."""
    if isinstance(spec, AtSpec):
        return spec.instant
    match spec:
        case CronSpec(text, timezone, name):
            return (text, timezone, name) if name and uses_name(text) else (text, timezone)
        case EverySpec(period_us):
            return ("every", period_us)
        case CalendarSpec(schedule, rule, timezone):
            return (_key_of(schedule), rule, timezone)


def compile_all(specs: Iterable[ScheduleSpec]) -> tuple[Engine, ...]:
    """The engines of one job: what runs, without what its calendar excludes."""
    return tuple([compile_schedule(spec) for spec in specs])


def excluded_of(engines: Iterable[Engine]) -> tuple[ExcludedOccurrences, ...]:
    """What the calendar of a job takes away; nothing for a job without one."""
    return tuple([one.excluded for one in engines if isinstance(one, CalendarSchedule)])


def compile_occurrences(specs: Iterable[ScheduleSpec]) -> tuple[Schedule, ...]:
    """Everything that must be in the ledger: what runs, and what the calendar excludes."""
    # The caller keeps them: a hundred thousand need not pass through the memory of recent ones.
    engines = tuple(
        [At(spec.instant) if isinstance(spec, AtSpec) else _engine_of(_without_unused_name(spec)) for spec in specs]
    )
    excluded = excluded_of(engines)
    return (*engines, *excluded) if excluded else engines


def exclusion_of(specs: Iterable[ScheduleSpec], at: Instant) -> Exclusion | None:
    """Why the occurrence of an instant does not run; None: it runs, perhaps by another schedule of the job."""
    engines = compile_all(specs)
    excluded = excluded_of(engines)
    if not excluded or any(isinstance(one, At) and one.instant == at for one in engines):
        return None
    # The schedules of a job share one calendar: a moved occurrence is on a day that is not excluded.
    return excluded[0].exclusion(at)


def _compile(spec: _Shared) -> CronSchedule | Every | CalendarSchedule:
    match spec:
        case CalendarSpec(schedule, rule, timezone):
            return CalendarSchedule(_compile_shared(schedule), day_rule(rule), days_in(timezone))
        case CronSpec(text, timezone, name):
            return CronSchedule(Cron.parse(text, timezone, name))
        case EverySpec(period_us):
            return Every(period_us)


def next_of(schedules: Sequence[Schedule], after: Instant) -> Instant | None:
    """The first occurrence of any of them strictly after an instant."""
    if len(schedules) == 1:
        return schedules[0].next_after(after)
    return min((at for one in schedules if (at := one.next_after(after)) is not None), default=None)


def previous_of(schedules: Sequence[Schedule], before: Instant) -> Instant | None:
    """The last occurrence of any of them strictly before an instant."""
    return max((at for one in schedules if (at := one.previous_before(before)) is not None), default=None)


def first_of(schedules: Sequence[Schedule], start: Instant, end: Instant) -> Instant | None:
    """The first occurrence of a window."""
    first = next_of(schedules, start)
    return first if first is not None and first <= end else None


def occurrences(schedules: Sequence[Schedule], start: Instant, end: Instant) -> list[Instant]:
    """Every occurrence of a window in order; an instant at which several schedules are due counts once.

    It lists them all: ask `count_of` first when the window may be long.
    """
    if len(schedules) == 1:
        return schedules[0].between(start, end)
    return sorted({at for one in schedules for at in one.between(start, end)})


def newest(schedules: Sequence[Schedule], start: Instant, end: Instant, limit: int) -> list[Instant]:
    """The last `limit` occurrences of a window in order; costs the same however long the window is."""
    found: list[Instant] = []
    at = previous_of(schedules, end + 1)
    while at is not None and at > start and len(found) < limit:
        found.append(at)
        at = previous_of(schedules, at)
    found.reverse()
    return found


def count_of(schedules: Sequence[Schedule], start: Instant, end: Instant) -> int:
    """How many instants of a window have an occurrence.

    One schedule, and any number of intervals, are counted by arithmetic. Of others, the one that is due most
    often is, and the rest are listed piece by piece to see which of their instants it shares: memory stays
    small, time follows the rest.
    """
    distinct = list(dict.fromkeys(schedules))
    if not distinct or start >= end:
        return 0
    if len(distinct) == 1:
        return distinct[0].count(start, end)
    periods = [one.period_us for one in distinct if isinstance(one, Every)]
    if len(periods) == len(distinct) <= _PERIODS_MAX:
        return _count_multiples(periods, start, end)
    *rest, densest = sorted(distinct, key=lambda one: one.count(start, end))
    total = densest.count(start, end)
    piece_us = min(DAY, max((end - start) * _PIECE // max(total, 1), SECOND))
    while (first := first_of(rest, start, end)) is not None:
        start, piece_end = first - 1, min(first + piece_us, end)
        total += _count_outside(densest, occurrences(rest, start, piece_end), start, piece_end)
        start = piece_end
    return total


def count_days(schedules: Sequence[Schedule], start: Instant, days: int) -> list[int]:
    """How many instants have an occurrence in each of consecutive stretches of 24 hours, the first from `start` on."""
    if len(schedules) == 1 and isinstance(schedules[0], CronSchedule) and start % SECOND == 0:
        return schedules[0].cron.count_days(start // SECOND, days)
    return [count_of(schedules, at - 1, at + DAY - 1) for at in range(start, start + days * DAY, DAY)]


def _count_multiples(periods: Sequence[int], start: Instant, end: Instant) -> int:
    """How many instants are a multiple of any period, by inclusion and exclusion."""
    return sum(
        (-1) ** (size + 1) * Every(lcm(*chosen)).count(start, end)
        for size in range(1, len(periods) + 1)
        for chosen in combinations(periods, size)
    )


def _count_outside(schedule: Schedule, instants: list[Instant], start: Instant, end: Instant) -> int:
    """How many instants of a window are not occurrences of a schedule."""
    if schedule.count(start, end) < 16 * len(instants):
        return len(set(instants).difference(schedule.between(start, end)))
    return sum(schedule.next_after(at - 1) != at for at in instants)

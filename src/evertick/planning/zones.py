"""Which UTC offset a time zone has when, and which local times its changes skip and repeat.

`zoneinfo` answers for one datetime at a time. Here each zone becomes, once, a short table of whole seconds, so that
a fire time costs a bisection instead of a conversion. Two readings of a zone are made from it:

- *wildcard*: local time as the clock on the wall shows it, with its gaps, and its repeated hours twice;
- *fixed-time*: local time as a person means it, each second once. Skipped seconds are owed at the change that
  skipped them, repeated ones count in their first pass. Changes too large to be daylight saving are corrections of
  the calendar: what they skip is lost, what they repeat happens again.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from evertick.errors import DefinitionError

DAY = 86_400
"""Seconds in a day of the calendar."""
HORIZON = (date(2201, 1, 1) - date(1970, 1, 1)).days * DAY
"""Fire times are exact from 1970 up to, but not including, this second."""
CORRECTION = 3 * 3600
"""Vixie's bound: a forward change this large, or a backward one larger still, is not daylight saving."""

# The shortest time any zone keeps an offset is 6 days 23 hours (Gaza, Recife), so a probe every second day meets
# every offset; `test_zones` holds each release of the data against that.
_PROBE_DAYS = 2
_FIRST_PROBE = date(1969, 11, 1).toordinal()
_LAST_PROBE = date(2201, 3, 1).toordinal()
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_HOST_NAMES = ("localtime", "posixrules", "posix/", "right/")


class Interval(NamedTuple):
    """`offset` seconds are added to UTC from `start` up to `end`."""

    start: int
    end: int
    offset: int


class Stretch(NamedTuple):
    """From `start` up to `end`, local times from `covers_from` on happen at local minus `offset`.

    Local times before the stretch's first are owed: they all happen at `start`.
    """

    start: int
    end: int
    offset: int
    covers_from: int


class Reading(NamedTuple):
    """The stretches of a zone in order, and their starts to bisect."""

    starts: tuple[int, ...]
    stretches: tuple[Stretch, ...]


def find_zone(name: str) -> ZoneInfo:
    """The zone of that IANA name; a zone that differs from host to host is refused."""
    try:
        if name.startswith(_HOST_NAMES):
            raise ValueError("its meaning depends on the host")
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a path, or a folder such as "America"
        raise DefinitionError(
            f"time zone {_clip(name)!r} is not known.", hint=_suggest_zone(name), field="timezone"
        ) from None


def _suggest_zone(name: str) -> str:
    known = _known_zones()
    wanted = _clip(name).casefold()
    by_city = {zone.rpartition("/")[2]: zone for zone in sorted(known, reverse=True)}
    near = difflib.get_close_matches(wanted, known, 1, 0.8) or difflib.get_close_matches(wanted, by_city, 1, 0.8)
    if near:
        found = known[near[0]] if near[0] in known else known[by_city[near[0]]]
        return f"Did you mean '{found}'?"
    return "Write an IANA name such as Europe/Berlin, America/New_York or UTC."


@cache
def _known_zones() -> dict[str, str]:
    return {zone.casefold(): zone for zone in available_timezones()}


def _clip(text: str, length: int = 60) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


@cache  # bounded by the number of zones there are
def offset_intervals(name: str) -> tuple[Interval, ...]:
    """The offsets of a zone from late 1969 to early 2201, neighbours always different."""
    zone = find_zone(name)
    found: list[Interval] = []
    start = (_FIRST_PROBE - _EPOCH_ORDINAL) * DAY
    end = (_LAST_PROBE - _EPOCH_ORDINAL) * DAY
    offset = _offset_at(zone, start)
    for change, following in _changes(zone):
        found.append(Interval(start, change, offset))
        start, offset = change, following
    found.append(Interval(start, end, offset))
    return tuple(found)


def _offset_at(zone: ZoneInfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, zone).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


def _changes(zone: ZoneInfo) -> Iterator[tuple[int, int]]:
    """Each second at which the offset changes, with the new offset."""
    # Asking for wall times is four times as fast as for instants; a day either side makes up for the difference.
    ordinals = range(_FIRST_PROBE, _LAST_PROBE, _PROBE_DAYS)
    offsets = list(map(zone.utcoffset, map(datetime.fromordinal, ordinals)))
    known_to = (_FIRST_PROBE - _EPOCH_ORDINAL) * DAY
    for index, ordinal in enumerate(ordinals[1:]):
        if offsets[index] == offsets[index + 1]:
            continue
        low = max(known_to, (ordinal - _PROBE_DAYS - 1 - _EPOCH_ORDINAL) * DAY)
        known_to = (ordinal + 1 - _EPOCH_ORDINAL) * DAY
        before, last = _offset_at(zone, low), _offset_at(zone, known_to)
        while before != last:
            change = _first_change(zone, low, known_to, before)
            before = _offset_at(zone, change)
            yield change, before
            low = change


def _first_change(zone: ZoneInfo, low: int, high: int, before: int) -> int:
    """The second in (low, high] at which the offset leaves `before`; it has it at low and not at high."""
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(zone, middle) == before:
            low = middle
        else:
            high = middle
    return high


@cache
def read_zone(name: str, *, as_wildcard: bool) -> Reading:
    """A zone as wildcard jobs, or as fixed-time jobs, live in it, from 1970 to the horizon."""
    intervals = offset_intervals(name)
    stretches = on_the_wall(intervals) if as_wildcard else each_second_once(intervals)
    kept = tuple(_within_bounds(stretches))
    return Reading(tuple(stretch.start for stretch in kept), kept)


def on_the_wall(intervals: tuple[Interval, ...]) -> Iterator[Stretch]:
    """The wildcard reading: local time as the clock shows it."""
    for start, end, offset in intervals:
        yield Stretch(start, end, offset, start + offset)


def each_second_once(intervals: tuple[Interval, ...]) -> Iterator[Stretch]:
    """The fixed-time reading: local time goes forward only, and from a change back waits until it is past it."""
    covered = intervals[0].start + intervals[0].offset  # every local second below this one has had its turn
    offset_before = intervals[0].offset
    for start, end, offset in intervals:
        change = offset - offset_before
        offset_before = offset
        if change < -CORRECTION:
            covered = start + offset
        elif change >= CORRECTION:
            covered = max(covered, start + offset)
        if end + offset > covered:
            yield Stretch(max(start, covered - offset), end, offset, covered)
            covered = end + offset


def _within_bounds(stretches: Iterator[Stretch]) -> Iterator[Stretch]:
    for start, end, offset, covers_from in stretches:
        if start < 0 < end:
            yield Stretch(0, min(end, HORIZON), offset, offset)
        elif 0 <= start < HORIZON:
            yield Stretch(start, min(end, HORIZON), offset, covers_from)

"""What do changes of the clock do to a schedule? One sentence for each that matters, for previews."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from evertick.planning.cron_pattern import Pattern
from evertick.planning.zones import CORRECTION, DAY, offset_intervals


class DstNote(NamedTuple):
    """At the change `at`, the schedule does something its text does not say."""

    at: datetime
    text: str


class _Change(NamedTuple):
    """Local time goes from `shown` to `then` in one instant; both count local seconds from 1970."""

    at: int
    shown: int
    then: int

    @property
    def is_correction(self) -> bool:
        return self.then - self.shown >= CORRECTION or self.shown - self.then > CORRECTION


def notes_between(pattern: Pattern, zone: str, start: int, end: int, *, is_wildcard: bool) -> list[DstNote]:
    """A note for each change after `start`, up to and including `end`, that skips or repeats a match."""
    notes: list[DstNote] = []
    for before, after in pairwise(offset_intervals(zone)):
        change = _Change(after.start, after.start + before.offset, after.start + after.offset)
        if not start < change.at <= end:
            continue
        text = _skipped(pattern, change, is_wildcard) or _repeated(pattern, change, is_wildcard)
        if text:
            notes.append(DstNote(datetime.fromtimestamp(change.at, ZoneInfo(zone)), text))
    return notes


def _skipped(pattern: Pattern, change: _Change, is_wildcard: bool) -> str:
    count = pattern.count(change.shown, change.then) if change.then > change.shown else 0
    if not count:
        return ""
    what = f"{_times(pattern, change.shown, change.then)} on {_date(change.shown)}"
    then = _clock(change.then, change.shown)
    why = f"clocks go forward from {_clock(change.shown)} to {then}"
    is_or_are = "is" if count == 1 else "are"
    if is_wildcard or change.is_correction:
        return f"{what} {is_or_are} skipped: {why}."
    if pattern.count(change.then, change.then + 1):
        return f"{what} {is_or_are} merged into the run at {then}: {why}."
    return f"{what} {'runs' if count == 1 else 'run once,'} at {then}: {why}."


def _repeated(pattern: Pattern, change: _Change, is_wildcard: bool) -> str:
    count = pattern.count(change.then, change.shown) if change.then < change.shown else 0
    if not count:
        return ""
    what = f"{_times(pattern, change.then, change.shown)} on {_date(change.then)}"
    why = f"clocks go back from {_clock(change.shown, change.then)} to {_clock(change.then)}"
    how = "twice" if is_wildcard or change.is_correction else "the first time only"
    return f"{what} {'runs' if count == 1 else 'run'} {how}: {why}."


def _times(pattern: Pattern, low: int, high: int) -> str:
    """The one time, or how many, that match from `low` up to `high`."""
    count = pattern.count(low, high)
    first, last = pattern.at_or_after(low), pattern.before(high)
    assert first is not None
    assert last is not None
    return _clock(first) if count == 1 else f"{count:,} times from {_clock(first)} to {_clock(last, first)}"


def _date(local: int) -> str:
    return datetime.fromtimestamp(local, UTC).strftime("%Y-%m-%d")


def _clock(local: int, beside: int | None = None) -> str:
    """The time of day, with its date where that differs from that of `beside`."""
    text = datetime.fromtimestamp(local, UTC).strftime("%H:%M:%S" if local % 60 else "%H:%M")
    return text if beside is None or local // DAY == beside // DAY else f"{_date(local)} {text}"

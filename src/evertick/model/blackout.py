"""Stretches in which nothing is planned, such as maintenance: at their end, the rules of a pause decide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evertick.model.instant import Instant, to_text


@dataclass(frozen=True, slots=True)
class Blackout:
    """An occurrence at `start` is inside, one at `end` is not."""

    start: Instant
    end: Instant
    reason: str = ""

    def __str__(self) -> str:
        told = f": {self.reason}" if self.reason else ""
        return f"the blackout from {to_text(self.start)} to {to_text(self.end)}{told}"


def blackout_at(blackouts: tuple[Blackout, ...], at: Instant) -> Blackout | None:
    """The blackout that an instant is in; of several, the one that ends last."""
    found = [one for one in blackouts if one.start <= at < one.end]
    return max(found, key=lambda one: one.end, default=None)


def ended_through(blackouts: tuple[Blackout, ...], now: Instant) -> Instant | None:
    """The last instant of the blackouts that are over; None if none is."""
    return max((one.end - 1 for one in blackouts if one.end <= now), default=None)


def split_stretch(
    blackouts: tuple[Blackout, ...], start: Instant, end: Instant
) -> Iterator[tuple[Instant, Instant, Blackout | None]]:
    """The parts of `(start, end]` inside and outside of blackouts, in order."""
    while start < end:
        inside = blackout_at(blackouts, start + 1)
        if inside is not None:
            stop = min(inside.end - 1, end)
        else:
            stop = min((one.start - 1 for one in blackouts if start + 1 < one.start <= end), default=end)
        yield start, stop, inside
        start = stop

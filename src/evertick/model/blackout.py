"""Stretches in which nothing is planned, such as maintenance: at their end, the rules of a pause decide."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace

from evertick.model.instant import Instant, to_text


@dataclass(frozen=True, slots=True)
class Blackout:
    """An occurrence at `start` is inside, one at `end` is not."""

    start: Instant
    end: Instant
    reason: str = ""
    id: str = ""
    """Of one that was added at run time; empty: the settings declare it."""

    def __str__(self) -> str:
        return f"the blackout {self.window_text}"

    @property
    def window_text(self) -> str:
        told = f": {self.reason}" if self.reason else ""
        return f"from {to_text(self.start)} to {to_text(self.end)}{told}"


@dataclass(frozen=True, slots=True)
class AddedBlackout:
    """A blackout that a person or a program added at run time, as the ledger keeps it."""

    id: str
    start: Instant
    end: Instant
    reason: str = ""
    jobs: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    is_for_all: bool = False
    added_at: Instant = 0
    added_by: str = ""

    def concerns(self, job_id: str, tags: Collection[str]) -> bool:
        return concerns(self.is_for_all, self.jobs, self.tags, job_id, tags)

    @property
    def window(self) -> Blackout:
        return Blackout(self.start, self.end, self.reason, self.id)

    def ended(self, at: Instant) -> AddedBlackout | None:
        """What is left of it when it is removed: the part that has passed, which explains what was not planned."""
        return None if at <= self.start else replace(self, end=min(self.end, at))


def concerns(
    is_for_all: bool, jobs: Collection[str], tags: Collection[str], job_id: str, job_tags: Collection[str]
) -> bool:
    """Whether a blackout of these jobs and tags, or of all jobs, concerns a job."""
    return is_for_all or job_id in jobs or any(tag in job_tags for tag in tags)


def blackout_text(blackout: AddedBlackout) -> str:
    """As the ledger stores it."""
    return json.dumps(asdict(blackout), ensure_ascii=False)


def read_blackouts(texts: Iterable[str]) -> tuple[AddedBlackout, ...]:
    """Those of the ledger, by time. Fields of a later version are left out, so that two versions can share a ledger."""
    return tuple(sorted(map(_read, texts), key=lambda one: (one.start, one.id)))


_FIELDS = tuple(one.name for one in fields(AddedBlackout))


def _read(text: str) -> AddedBlackout:
    found = json.loads(text)
    known = {name: found[name] for name in _FIELDS if name in found}
    return AddedBlackout(**{**known, "jobs": tuple(known.get("jobs", ())), "tags": tuple(known.get("tags", ()))})


def blackout_at(blackouts: tuple[Blackout, ...], at: Instant) -> Blackout | None:
    """The blackout that an instant is in; of several, the one that ends last."""
    if not blackouts:  # as nearly all jobs; a page asks for each of ten thousand
        return None
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

"""How many entries ended in each hour, by kind: counts that every store keeps beside its entries.

A store adds to them in the transaction that ends an entry, and subtracts what retention removes, so that a year of all
jobs is read as some thousand rows and not as its entries. They are by hour and not by day, because a day begins at
another hour in each time zone; where it begins within an hour, the entries of the rest of that hour are counted one by
one. Open entries change too often to be kept as counts; they are few, and an index finds them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from evertick.model.instant import HOUR, Instant
from evertick.model.ledger import HourCount, WrongCount
from evertick.model.lifecycle import SKIPPED, RunState, SkipReason, Trigger
from evertick.store import RunFilter, Tally

Kind: TypeAlias = tuple[RunState, Trigger, SkipReason | None]
HourKind: TypeAlias = tuple[Instant, RunState, Trigger, SkipReason | None]
"""The hour by its start, and the kind."""

NOTHING = HourCount(0, 0)


def hour_of(at: Instant) -> Instant:
    return at - at % HOUR


def hour_kind(at: Instant, state: RunState, trigger: Trigger, reason: SkipReason | None) -> HourKind:
    """As what an entry is counted that was due at an instant; only a skip has a reason."""
    return at - at % HOUR, state, trigger, reason if state is SKIPPED else None


class HourCounts(dict[HourKind, HourCount]):
    """Counts by hour and kind; zero counts are left out."""

    def add(self, kind: HourKind, entries: int, occurrences: int) -> None:
        known = self.get(kind, NOTHING)
        count = HourCount(known.entries + entries, known.occurrences + occurrences)
        if count == NOTHING:
            self.pop(kind, None)
        else:
            self[kind] = count

    def add_all(self, counts: Mapping[HourKind, HourCount]) -> None:
        for kind, (entries, occurrences) in counts.items():
            self.add(kind, entries, occurrences)


def wrong_counts(kept: Mapping[HourKind, HourCount], found: Mapping[HourKind, HourCount]) -> Sequence[WrongCount]:
    """Where the kept counts differ from what the entries say, oldest first."""
    return sorted(
        WrongCount(*kind, kept.get(kind, NOTHING), found.get(kind, NOTHING))
        for kind in kept.keys() | found.keys()
        if kept.get(kind, NOTHING) != found.get(kind, NOTHING)
    )


class Cells:
    """Stretches of time between consecutive bounds, filled from hours, from parts of hours, and from open entries.

    An hour belongs to the cell in which it begins. Where a bound is inside an hour, the rest of the hour behind the
    bound is moved to the next cell. So no hour may have two bounds inside it. Runs of items are left out: each is a
    part of another run.
    """

    def __init__(self, bounds: Sequence[Instant]) -> None:
        self.bounds = bounds
        self._counts: dict[tuple[int, RunState, Trigger, SkipReason | None], list[int]] = defaultdict(lambda: [0, 0])
        hours = [hour_of(bound) for bound in bounds if bound % HOUR]
        assert all(one < other for one, other in pairwise(bounds)), "the bounds of cells must be in order"
        assert len(hours) == len(set(hours)), "two bounds are inside one hour"

    def rests(self) -> Sequence[tuple[Instant, Instant]]:
        """The parts of hours behind a bound that is inside them."""
        return [(bound, hour_of(bound) + HOUR) for bound in self.bounds if bound % HOUR]

    def add(self, cell: int, kind: Kind, entries: int, occurrences: int) -> None:
        if 0 <= cell < len(self.bounds) - 1 and kind[1] is not Trigger.ITEM:
            counts = self._counts[(cell, *kind)]
            counts[0] += entries
            counts[1] += occurrences

    def add_at(self, at: Instant, kind: Kind, entries: int, occurrences: int) -> None:
        """What is at an instant, such as an hour by its start."""
        self.add(bisect_right(self.bounds, at) - 1, kind, entries, occurrences)

    def move_rest(self, bound: Instant, kind: Kind, entries: int, occurrences: int) -> None:
        """The rest of an hour after a bound is counted in the cell that begins there."""
        cell = bisect_right(self.bounds, bound) - 1
        self.add(cell, kind, entries, occurrences)
        self.add(cell - 1, kind, -entries, -occurrences)

    def tallies(self) -> Sequence[Tally]:
        found = (
            Tally(cell, "", state, trigger, reason, entries, occurrences, None, None)
            for (cell, state, trigger, reason), (entries, occurrences) in self._counts.items()
        )
        return sorted((one for one in found if one.lines), key=lambda one: (*one[:4], one.reason or ""))


class EqualCells(NamedTuple):
    """Consecutive cells of one width: a database computes in which of them an hour begins."""

    first: int
    start: Instant
    end: Instant
    width_us: int


def equal_cells(bounds: Sequence[Instant]) -> Iterator[EqualCells]:
    """The cells in groups of one width; days have other widths only where a clock changes."""
    first = 0
    widths = [end - start for start, end in pairwise(bounds)]
    for number, width in enumerate(widths):
        if number + 1 == len(widths) or widths[number + 1] != width:
            yield EqualCells(first, bounds[first], bounds[number + 1], width)
            first = number + 1


def outcomes_of_job(
    tally: Callable[[RunFilter, int], Sequence[Tally]], bounds: Sequence[Instant], job_id: str
) -> Sequence[Tally]:
    """The rule of `LedgerReader.outcomes` for one job, which no counts are kept of."""
    return [
        one._replace(cell=group.first + one.cell, longest_us=None, latest_us=None)
        for group in equal_cells(bounds)
        for one in tally(RunFilter(job_ids=[job_id], since=group.start, until=group.end), group.width_us)
    ]


def count_rows(rows: Iterable[tuple[Instant, RunState, Trigger, SkipReason | None, int, int]]) -> HourCounts:
    found = HourCounts()
    for hour, state, trigger, reason, entries, occurrences in rows:
        found.add((hour, state, trigger, reason), entries, occurrences)
    return found

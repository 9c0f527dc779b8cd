"""Counts lines in memory by time cell and kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evertick.model.instant import Instant
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.model.run import LedgerRow
from evertick.store import Tally

NONE = -(1 << 63)
"""Of a length that is not known yet."""


def tally(rows: Iterable[LedgerRow], start: Instant, width_us: int, *, by_job: bool) -> Sequence[Tally]:
    """In the order of cells; the order within a cell is not specified."""
    # Counted in place, one list for each kind and cell: there may be a hundred thousand lines, and few kinds.
    found: dict[tuple[int, str, RunState, Trigger, SkipReason | None], list[int]] = {}
    for row in rows:
        job_id, at, _ = row.key
        kind = ((at - start) // width_us, job_id if by_job else "", row.state, row.trigger, row.reason)
        counts = found.get(kind)
        if counts is None:
            counts = found[kind] = [0, 0, NONE, NONE]
        counts[0] += 1
        counts[1] += row.occurrences
        began, ended = row.started_at, row.finished_at
        if began is not None:
            counts[3] = max(counts[3], began - at)
            if ended is not None:
                counts[2] = max(counts[2], ended - began)
    return _ordered(
        Tally(*kind, lines, occurrences, _or_none(longest_us), _or_none(latest_us))
        for kind, (lines, occurrences, longest_us, latest_us) in found.items()
    )


def _or_none(value: int) -> int | None:
    return None if value == NONE else value


def merge(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each kind and cell."""
    found: dict[tuple[object, ...], Tally] = {}
    for one in tallies:
        kind = one[:5]
        known = found.get(kind)
        found[kind] = one if known is None else _sum(known, one)
    return _ordered(found.values())


def _ordered(tallies: Iterable[Tally]) -> list[Tally]:
    return sorted(tallies, key=lambda one: (one.cell, one.job_id, one.state, one.trigger, one.reason or ""))


def _sum(one: Tally, other: Tally) -> Tally:
    return one._replace(
        lines=one.lines + other.lines,
        occurrences=one.occurrences + other.occurrences,
        longest_us=_longer(one.longest_us, other.longest_us),
        latest_us=_longer(one.latest_us, other.latest_us),
    )


def _longer(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)

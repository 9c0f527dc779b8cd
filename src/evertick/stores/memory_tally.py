"""How many lines fall into each cell of time, by kind, from lines in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evertick.model.instant import Instant
from evertick.model.run import LedgerRow
from evertick.store import Tally


def tally(rows: Iterable[LedgerRow], start: Instant, width_us: int, *, by_job: bool) -> Sequence[Tally]:
    """In the order of cells; within one in no order that anybody may rely on."""
    return merge(_single(row, start, width_us, by_job=by_job) for row in rows)


def merge(tallies: Iterable[Tally]) -> list[Tally]:
    """One tally for each kind and cell."""
    found: dict[tuple[object, ...], Tally] = {}
    for one in tallies:
        kind = one[:5]
        known = found.get(kind)
        found[kind] = one if known is None else _sum(known, one)
    return sorted(found.values(), key=lambda one: (one.cell, one.job_id, one.state, one.trigger, one.reason or ""))


def _single(row: LedgerRow, start: Instant, width_us: int, *, by_job: bool) -> Tally:
    began, ended = row.started_at, row.finished_at
    return Tally(
        (row.key.scheduled_for - start) // width_us,
        row.key.job_id if by_job else "",
        row.state,
        row.trigger,
        row.reason,
        1,
        row.occurrences,
        None if began is None or ended is None else ended - began,
        None if began is None else began - row.key.scheduled_for,
    )


def _sum(one: Tally, other: Tally) -> Tally:
    return one._replace(
        lines=one.lines + other.lines,
        occurrences=one.occurrences + other.occurrences,
        longest_us=_longer(one.longest_us, other.longest_us),
        latest_us=_longer(one.latest_us, other.latest_us),
    )


def _longer(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)

"""Which entries of a batch are new: an occurrence that a line or a gap has decided is not decided again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from evertick.model.instant import Instant
from evertick.model.lifecycle import TERMINAL
from evertick.model.run import Entry, RunKey
from evertick.stores.hour_counts import HourCounts, hour_kind
from evertick.stores.sql.rows import chunks, key_row
from evertick.stores.sql.statements import CHUNK, Statements

Insert = Callable[[sa.Connection, Sequence[Entry]], bool]
"""Write these entries; answers False, with nothing written, when one of them was there."""


@dataclass(slots=True)
class Entered:
    """Which entries of a batch were written, and which refused."""

    written: Sequence[Entry] = ()
    refused: set[RunKey] = field(default_factory=set)

    def counts(self) -> tuple[Counter[str], HourCounts]:
        """What the written entries add to the counters, and the entries among them that have ended."""
        counted: Counter[str] = Counter()
        ended = HourCounts()
        kinds = Counter((entry.trigger, entry.state in TERMINAL) for entry in self.written)
        for (trigger, _), lines in kinds.items():
            counted[f"entries.{trigger}"] += lines
        if any(is_ended for _, is_ended in kinds):
            for key, state, trigger, _, reason, _, occurrences, *_ in self.written:
                if state in TERMINAL:
                    ended.add(hour_kind(key.scheduled_for, state, trigger, reason), 1, occurrences)
        return counted, ended


def is_stretch(entry: Entry) -> bool:
    """Whether an entry settles a stretch of the schedule, not one instant of it."""
    return entry.occurrences > 1 and entry.through is not None and entry.state in TERMINAL and not entry.key.origin


def enter_all(
    connection: sa.Connection, statements: Statements, entries: Sequence[Entry], by: str, insert: Insert
) -> Entered:
    """Write the entries that are new; refuse those that another node decided. The caller holds the gap lock."""
    refused = _taken(connection, statements, entries)
    left = entries
    if refused:
        left = [entry for entry in entries if entry.key not in refused]
        # A line of ours is a repeat, whatever else lies there.
        refused -= {key for key, owner in decided_by(connection, statements, refused).items() if owner == by}
    while left and not insert(connection, left):
        # Another node was first. Only then is it read which one: conflicts are rare.
        first = {entry.key: entry for entry in reversed(left)}
        known = decided_by(connection, statements, first)
        if not known and len(first) == len(left):
            raise AssertionError("the database refused entries as duplicates and has none of them")
        refused.update(key for key, owner in known.items() if owner != by)
        left = [entry for key, entry in first.items() if key not in known]
    return Entered(left, refused)


def decided_by(connection: sa.Connection, statements: Statements, keys: Iterable[RunKey]) -> dict[RunKey, str]:
    """Which node decided each of these runs that exist."""
    found: dict[RunKey, str] = {}
    for chunk in chunks(keys, CHUNK):
        params = tuple(value for key in chunk for value in key_row(key))
        for row in connection.exec_driver_sql(statements.existing(len(chunk), False), params):
            found[RunKey(row[0], row[1], row[2])] = row[3]
    return found


def _taken(connection: sa.Connection, statements: Statements, entries: Sequence[Entry]) -> set[RunKey]:
    """The entries that lie inside a gap of another line, or are a gap around one."""
    earliest: dict[str, Instant] = {}
    stretches: list[Entry] = []
    last_end = connection.exec_driver_sql(statements.last_gap_end).scalar()
    for entry in entries:
        job_id, at, origin = entry.key
        if is_stretch(entry):
            stretches.append(entry)
        # Live planning is always after the last gap, so this is nearly always false.
        if last_end is not None and at <= last_end and not origin:
            earliest[job_id] = min(at, earliest.get(job_id, at))
    if not earliest and not stretches:
        return set()
    gaps = _gaps(connection, statements, earliest)
    around = _around_lines(connection, statements, stretches)
    return _refused(entries, gaps, around, {entry.key.job_id for entry in stretches})


def _gaps(
    connection: sa.Connection, statements: Statements, earliest: dict[str, Instant]
) -> dict[str, list[tuple[Instant, Instant]]]:
    gaps: dict[str, list[tuple[Instant, Instant]]] = defaultdict(list)
    for chunk in chunks(earliest.items(), CHUNK):
        params = tuple(value for item in chunk for value in item)
        for job_id, first, last in connection.exec_driver_sql(statements.gaps_reaching(len(chunk)), params):
            gaps[job_id].append((first, last))
    return gaps


def _around_lines(connection: sa.Connection, statements: Statements, stretches: Sequence[Entry]) -> set[RunKey]:
    found: set[RunKey] = set()
    for chunk in chunks(stretches, CHUNK):
        params = tuple(value for entry in chunk for value in (entry.key.job_id, entry.key.scheduled_for, entry.through))
        found |= {
            RunKey(job_id, first)
            for job_id, first in connection.exec_driver_sql(statements.lines_inside(len(chunk)), params)
        }
    return found


def _refused(
    entries: Sequence[Entry],
    gaps: dict[str, list[tuple[Instant, Instant]]],
    around: set[RunKey],
    stretched: set[str],
) -> set[RunKey]:
    """Check the entries in order: an earlier one of the same batch can conflict with a later one."""
    refused: set[RunKey] = set()
    accepted: dict[str, dict[Instant, Instant]] = defaultdict(dict)
    for entry in entries:
        key, first = entry.key, entry.key.scheduled_for
        if key.origin:
            continue
        stretch = is_stretch(entry)
        last = entry.through if stretch and entry.through is not None else first
        # A gap that begins where this entry does is the same line: whose it is, its key will tell.
        if any(start != first and start <= last and end >= first for start, end in gaps.get(key.job_id, ())) or (
            stretch and key in around
        ):
            refused.add(key)
        elif key.job_id in stretched:
            others = accepted[key.job_id]
            if any(start != first and start <= last and end >= first for start, end in others.items()):
                refused.add(key)
            else:
                others.setdefault(first, last)
    return refused

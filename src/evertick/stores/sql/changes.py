"""Which changes apply: the run has not ended, and the writer's fence is not older than the ledger's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import sqlalchemy as sa

from evertick.model.instant import HOUR
from evertick.model.lifecycle import SKIPPED, TERMINAL, RunState, SkipReason, Trigger
from evertick.model.run import Change, RunKey
from evertick.stores.hour_counts import HourCounts, hour_kind
from evertick.stores.sql.rows import Params, change_row, chunks, key_row, to_reason, to_state, to_trigger
from evertick.stores.sql.statements import CHANGE_COLUMNS, CHUNK, KEY_COLUMNS, Statements

Update = Callable[[sa.Connection, Sequence[Params]], int]
"""Write these rows, each of another run, where the guard allows it; answers how many it wrote."""


_KEY_OF_ROW = itemgetter(*(CHANGE_COLUMNS.index(column) for column in KEY_COLUMNS))


def end_counters(ended: HourCounts) -> Counter[str]:
    """The counters of these ends."""
    found: Counter[str] = Counter()
    for (_, state, trigger, reason), (entries, occurrences) in ended.items():
        if trigger is Trigger.ITEM:
            continue
        if state is SKIPPED:
            found[f"skipped.{reason or 'unknown'}"] += occurrences
        else:
            found[f"ended.{state}"] += entries
    return found


@dataclass(slots=True)
class Recorded:
    """Which changes were written, and which refused."""

    refused: frozenset[RunKey] = frozenset()
    ended: HourCounts = field(default_factory=HourCounts)
    overruled: frozenset[RunKey] = frozenset()
    """Of the refused those that are not as the last change to them says: a call that is repeated meets its own end."""


@dataclass(slots=True)
class _Known:
    """The state of a run while changes are applied to it."""

    state: RunState
    fence: int
    reason: SkipReason | None
    occurrences: int
    trigger: Trigger


def apply_changes(
    connection: sa.Connection, statements: Statements, changes: Sequence[Change], update: Update
) -> Recorded:
    """Write the changes. Nearly always all of them apply; only if some do not, the code finds out which."""
    if not changes:
        return Recorded()
    ended = _ends(changes)
    if ended is not None:
        with connection.begin_nested() as attempt:
            if _write(connection, changes, update):
                return Recorded(ended=ended)
            attempt.rollback()
    known = _read(connection, statements, changes)
    recorded, applied = judge(changes, known)
    if not _write(connection, applied, update):
        raise AssertionError("a change to a locked run did not apply")
    return recorded


def judge(changes: Sequence[Change], known: dict[RunKey, _Known]) -> tuple[Recorded, list[Change]]:
    """Apply the rules of `record` to the changes in their order, on what is known of their runs."""
    refused: set[RunKey] = set()
    applied: list[Change] = []
    ended = HourCounts()
    for change in changes:
        key = change.key
        run = known.get(key)
        if run is None:
            refused.add(key)
        elif run.state in TERMINAL:
            if run.state is change.state and run.fence == change.fence:
                # A repeat: what led to this end was applied the first time.
                refused.discard(key)
            else:
                refused.add(key)
        elif change.fence < run.fence:
            refused.add(key)
        else:
            applied.append(change)
            run.state, run.fence, run.reason = change.state, change.fence, change.reason or run.reason
            run.trigger = change.trigger or run.trigger
            if run.state in TERMINAL:
                ended.add(hour_kind(key.scheduled_for, run.state, run.trigger, run.reason), 1, run.occurrences)
    last = {change.key: change for change in changes if change.key in refused}
    overruled = [key for key, change in last.items() if not _stands(change, known.get(key))]
    return Recorded(frozenset(refused), ended, frozenset(overruled)), applied


def _stands(change: Change, run: _Known | None) -> bool:
    return run is not None and (run.state, run.fence) == (change.state, change.fence)


def _ends(changes: Sequence[Change]) -> HourCounts | None:
    """What is counted when all of these applied; None where a change does not tell the kind of what it ends.

    An open run is one occurrence: gaps are entered as ended.
    """
    kinds = Counter(
        (change.key.scheduled_for // HOUR, change.state, change.trigger, change.reason)
        for change in changes
        if change.state in TERMINAL
    )
    ended = HourCounts()
    for (hour, state, trigger, reason), count in kinds.items():
        if trigger is None or (state is SKIPPED and reason is None):
            return None
        ended.add(hour_kind(hour * HOUR, state, trigger, reason), count, count)
    return ended


def _read(connection: sa.Connection, statements: Statements, changes: Sequence[Change]) -> dict[RunKey, _Known]:
    """The runs of these changes, locked in the order of their keys until the transaction ends."""
    known: dict[RunKey, _Known] = {}
    for chunk in chunks(sorted({change.key for change in changes}, key=key_row), CHUNK):
        params = tuple(value for key in chunk for value in key_row(key))
        for row in connection.exec_driver_sql(statements.existing(len(chunk), True), params):
            job_id, scheduled_for, origin, _, state, fence, reason, occurrences, trigger = row
            known[RunKey(job_id, scheduled_for, origin)] = _Known(
                to_state(state), fence, to_reason(reason), occurrences, to_trigger(trigger)
            )
    return known


def _write(connection: sa.Connection, changes: Sequence[Change], update: Update) -> bool:
    """Write changes, several of one run one after another; answers whether the guard let all of them pass."""
    return all(update(connection, wave) == len(wave) for wave in _waves(changes))


def _waves(changes: Sequence[Change]) -> list[list[Params]]:
    """Rows of the first change of each run, then of the second of each, and so on; each wave in the order of keys."""
    if len({change.key for change in changes}) == len(changes):
        waves = [list(map(change_row, changes))]
    else:
        waves = []
        seen: Counter[RunKey] = Counter()
        for change in changes:
            number = seen[change.key]
            seen[change.key] += 1
            if number == len(waves):
                waves.append([])
            waves[number].append(change_row(change))
    for wave in waves:
        wave.sort(key=_KEY_OF_ROW)
    return waves

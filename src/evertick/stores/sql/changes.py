"""Which changes apply: the run has not ended, and the writer's fence is not older than the ledger's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from evertick.model.lifecycle import SKIPPED, TERMINAL, RunState
from evertick.model.run import Change, RunKey
from evertick.stores.sql.rows import Params, change_row, chunks, key_row, to_state
from evertick.stores.sql.statements import CHUNK, Statements

Update = Callable[[sa.Connection, Sequence[Params]], int]
"""Write these rows, each of another run, where the guard allows it; answers how many it wrote."""


def end_name(state: RunState, reason: str | None) -> str:
    """The counter of a run that ended so."""
    return f"skipped.{reason or 'unknown'}" if state is SKIPPED else f"ended.{state}"


@dataclass(slots=True)
class Recorded:
    """Which changes were written, and which refused."""

    refused: frozenset[RunKey] = frozenset()
    ended: Counter[str] = field(default_factory=Counter)
    overruled: frozenset[RunKey] = frozenset()
    """Of the refused those that are not as the last change to them says: a call that is repeated meets its own end."""


@dataclass(slots=True)
class _Known:
    """What a run is while changes are applied to it."""

    state: RunState
    fence: int
    reason: str | None
    occurrences: int


def apply_changes(
    connection: sa.Connection, statements: Statements, changes: Sequence[Change], update: Update
) -> Recorded:
    """Write the changes. Nearly always all of them apply; only when some do not is it found out which."""
    if not changes:
        return Recorded()
    if all(change.state is not SKIPPED or change.reason is not None for change in changes):
        with connection.begin_nested() as attempt:
            if _write(connection, changes, update):
                return Recorded(ended=_ends(changes))
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
    ended: Counter[str] = Counter()
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
            if run.state in TERMINAL:
                ended[end_name(run.state, run.reason)] += run.occurrences if run.state is SKIPPED else 1
    last = {change.key: change for change in changes if change.key in refused}
    overruled = [key for key, change in last.items() if not _stands(change, known.get(key))]
    return Recorded(frozenset(refused), ended, frozenset(overruled)), applied


def _stands(change: Change, run: _Known | None) -> bool:
    return run is not None and (run.state, run.fence) == (change.state, change.fence)


def _ends(changes: Sequence[Change]) -> Counter[str]:
    """What is counted when all of these applied. An open run is one occurrence: gaps are entered as ended."""
    kinds = Counter((change.state, change.reason) for change in changes if change.state in TERMINAL)
    ended: Counter[str] = Counter()
    for (state, reason), count in kinds.items():
        ended[end_name(state, reason)] += count
    return ended


def _read(connection: sa.Connection, statements: Statements, changes: Sequence[Change]) -> dict[RunKey, _Known]:
    """The runs of these changes, locked in the order of their keys until the transaction ends."""
    known: dict[RunKey, _Known] = {}
    for chunk in chunks(sorted({change.key for change in changes}, key=key_row), CHUNK):
        params = tuple(value for key in chunk for value in key_row(key))
        for row in connection.exec_driver_sql(statements.existing(len(chunk), True), params):
            job_id, scheduled_for, origin, _, state, fence, reason, occurrences = row
            known[RunKey(job_id, scheduled_for, origin)] = _Known(to_state(state), fence, reason, occurrences)
    return known


def _write(connection: sa.Connection, changes: Sequence[Change], update: Update) -> bool:
    """Write changes, several of one run one after another; answers whether the guard let all of them pass."""
    return all(update(connection, [change_row(change) for change in wave]) == len(wave) for wave in _waves(changes))


def _waves(changes: Sequence[Change]) -> list[list[Change]]:
    """The first change of each run, then the second of each, and so on; each wave in the order of its keys."""
    if len({change.key for change in changes}) == len(changes):
        waves = [list(changes)]
    else:
        waves = []
        seen: Counter[RunKey] = Counter()
        for change in changes:
            number = seen[change.key]
            seen[change.key] += 1
            if number == len(waves):
                waves.append([])
            waves[number].append(change)
    for wave in waves:
        wave.sort(key=lambda change: key_row(change.key))
    return waves

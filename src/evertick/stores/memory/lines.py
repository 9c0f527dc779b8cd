"""How a line of the ledger is created, changed and matched as a value."""

from __future__ import annotations

from evertick.model.instant import Instant
from evertick.model.lifecycle import Trigger
from evertick.model.run import Change, Entry, LedgerRow
from evertick.store import RunFilter


def line_of(entry: Entry, by: str) -> LedgerRow:
    """The line of the ledger that an entry begins as."""
    key, state, trigger, decided_at, reason, through, occurrences, detail, params, facts = entry
    known = (key, state, trigger, decided_at, by, reason, through, occurrences, detail, params)
    return LedgerRow(*known, changed_at=decided_at, facts=facts)


def changed(row: LedgerRow, change: Change) -> LedgerRow:
    """The line after a change; None leaves a value as it is."""
    return LedgerRow(
        row.key,
        change.state,
        row.trigger if change.trigger is None else change.trigger,
        row.decided_at,
        row.decided_by,
        row.reason if change.reason is None else change.reason,
        row.through,
        row.occurrences,
        row.detail if change.detail is None else change.detail,
        row.params,
        change.fence,
        row.attempt if change.attempt is None else change.attempt,
        row.executor if change.executor is None else change.executor,
        row.started_at if change.started_at is None else change.started_at,
        row.finished_at if change.finished_at is None else change.finished_at,
        row.retry_at if change.retry_at is None else change.retry_at,
        row.exit_code if change.exit_code is None else change.exit_code,
        change.at,
        row.steps if change.steps is None else change.steps,
        row.definition if change.definition is None else change.definition,
        row.earlier if change.earlier is None else change.earlier,
        row.facts if change.facts is None else change.facts,
    )


def stands(change: Change, row: LedgerRow | None) -> bool:
    return row is not None and (row.state, row.fence) == (change.state, change.fence)


def ends_at(row: LedgerRow) -> Instant:
    """The last occurrence of a line."""
    return row.key.scheduled_for if row.through is None else row.through


def matches(row: LedgerRow, where: RunFilter) -> bool:
    return (
        (not where.job_ids or row.key.job_id in where.job_ids)
        and (not where.states or row.state in where.states)
        and (not where.triggers or row.trigger in where.triggers)
        and (not where.reasons or row.reason in where.reasons)
        and (where.since is None or ends_at(row) >= where.since)
        and (where.until is None or row.key.scheduled_for < where.until)
        and not (where.occurrences_only and row.key.origin)
        and (not where.executors or row.executor in where.executors)
        and (where.gaps is None or where.gaps is (row.occurrences > 1))
        and not (row.trigger is Trigger.ITEM and where.leaves_out_items)
    )

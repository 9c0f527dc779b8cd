"""Counts for overviews, computed by the database instead of line by line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import sqlalchemy as sa

from evertick.model.lifecycle import ENDED, TERMINAL, RunState, SkipReason, Trigger
from evertick.model.run import LedgerRow, newest_first
from evertick.store import RunFilter, Tally
from evertick.stores.memory.tally import merge
from evertick.stores.sql.reads import ITEM, LINE, NAMES_PER_QUERY, filtered, is_found_by_end
from evertick.stores.sql.rows import Row, Select, chunks, to_line
from evertick.stores.sql.schema import DIALECTS_BY_END, ENDED_AS, JOBS, RUNS

_ENDED = sorted(state.value for state in ENDED)
_TERMINAL = sorted(state.value for state in TERMINAL)


def newest(
    connection: sa.Connection, job_ids: Collection[str], count: int, *, with_skips: bool
) -> Mapping[str, Sequence[LedgerRow]]:
    found: dict[str, list[LedgerRow]] = {}
    statement = _select_newest(count, with_skips=with_skips)
    for some in chunks(sorted(set(job_ids)), NAMES_PER_QUERY):
        for row in map(to_line, connection.execute(statement, {"jobs": some})):
            found.setdefault(row.key.job_id, []).append(row)
    for job_id, rows in found.items():
        found[job_id] = newest_first(rows)[:count]
    return found


@lru_cache(maxsize=64)  # putting it together takes longer than asking it of one job
def _select_newest(count: int, *, with_skips: bool) -> Select:
    """For each job, find in the index where its last `count` runs begin, and read from there."""
    runs, states = RUNS.alias(), _TERMINAL if with_skips else _ENDED
    first = (
        sa.select(runs.c.scheduled_for)
        .where(runs.c.job_id == JOBS.c.job_id, runs.c.state.in_(states), runs.c.trigger_kind != ITEM)
        .order_by(runs.c.scheduled_for.desc())
        .limit(1)
        .offset(count - 1)
        .scalar_subquery()
    )
    since = RUNS.c.scheduled_for >= sa.func.coalesce(first, sa.literal_column("0"))
    return (
        sa.select(*LINE)
        .join_from(JOBS, RUNS, sa.and_(RUNS.c.job_id == JOBS.c.job_id, since))
        .where(JOBS.c.job_id.in_(sa.bindparam("jobs", expanding=True)), RUNS.c.state.in_(states))
        .where(RUNS.c.trigger_kind != ITEM)
    )


def tally(connection: sa.Connection, where: RunFilter, width_us: int, *, by_job: bool) -> Sequence[Tally]:
    statement = select_tally(where, width_us, by_job=by_job)
    if is_found_by_end(where, has_ends=connection.dialect.name in DIALECTS_BY_END):
        statement = statement.where(ENDED_AS.in_(sorted(state.value for state in where.states)))
    named = chunks(sorted(set(where.job_ids)), NAMES_PER_QUERY)
    by_names = [statement.where(RUNS.c.job_id.in_(some)) for some in named] if where.job_ids else [statement]
    return merge(_to_tally(row) for one in by_names for row in connection.execute(one))


def select_tally(where: RunFilter, width_us: int, *, by_job: bool) -> Select:
    assert where.since is not None
    assert where.until is not None
    cell = ((RUNS.c.scheduled_for - where.since) // sa.literal(width_us, sa.BigInteger)).label("cell")
    kind = (cell, *((RUNS.c.job_id,) if by_job else ()), RUNS.c.state, RUNS.c.trigger_kind, RUNS.c.reason)
    job_id = RUNS.c.job_id if by_job else sa.literal("").label("job_id")
    statement = sa.select(
        cell,
        job_id,
        RUNS.c.state,
        RUNS.c.trigger_kind,
        RUNS.c.reason,
        sa.func.count(),
        sa.func.sum(RUNS.c.occurrences),
        sa.func.max(RUNS.c.finished_at - RUNS.c.started_at),
        sa.func.max(RUNS.c.started_at - RUNS.c.scheduled_for),
    )
    return filtered(statement, where).where(RUNS.c.scheduled_for >= where.since).group_by(*kind)


def _to_tally(row: Row) -> Tally:
    cell, job_id, state, trigger, reason, lines, occurrences, longest_us, latest_us = row
    return Tally(
        int(cell),
        job_id,
        RunState(state),
        Trigger(trigger),
        None if reason is None else SkipReason(reason),
        int(lines),
        int(occurrences),
        None if longest_us is None else int(longest_us),
        None if latest_us is None else int(latest_us),
    )

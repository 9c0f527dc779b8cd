"""Deletes old data from the ledger: ended lines, and the schedules and definitions that only they used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

import sqlalchemy as sa

from evertick.model.instant import Instant
from evertick.model.run import RunKey
from evertick.stores.hour_counts import HourCounts, HourKind, hour_kind
from evertick.stores.sql.hour_counts import removed_counts
from evertick.stores.sql.reads import follows, schedules
from evertick.stores.sql.rows import chunks, to_reason, to_state, to_trigger
from evertick.stores.sql.schema import DEFINITIONS, JOBS, RUNS
from evertick.stores.sql.statements import Statements

Old: TypeAlias = tuple[Instant, str, str, Instant | None, HourKind, int]
"""(scheduled_for, job_id, origin, through, as what it is counted, occurrences)"""

JOBS_PER_QUERY = 500


def compact(
    connection: sa.Connection,
    statements: Statements,
    before: Mapping[str, Instant],
    default_before: Instant | None,
    limit: int,
) -> tuple[int, HourCounts]:
    """The rule of `Store.compact`, in one transaction; also returns what to subtract from the hourly counts."""
    old = sorted(_old_lines(connection, before, default_before, limit), key=lambda line: line[:3])[:limit]
    if not old:
        return 0, HourCounts()
    connection.exec_driver_sql(statements.delete_run, [line[:3] for line in old])
    gaps = [(job_id, through, first, origin) for first, job_id, origin, through, *_ in old if through is not None]
    if gaps:
        connection.exec_driver_sql(statements.delete_gap, gaps)
    job_ids = sorted({line[1] for line in old})
    _move_up(connection, statements, job_ids, before, default_before)
    _forget_definitions(connection, statements, job_ids, before, default_before)
    return len(old), removed_counts([(kind, occurrences) for *_, kind, occurrences in old])


def _old_lines(
    connection: sa.Connection, before: Mapping[str, Instant], default_before: Instant | None, limit: int
) -> Iterator[Old]:
    """For each bound, the oldest lines to delete; jobs with the same bound share a query."""
    by_bound: dict[Instant, list[str]] = defaultdict(list)
    for job_id, bound in before.items():
        by_bound[bound].append(job_id)
    for bound, job_ids in by_bound.items():
        for some in chunks(job_ids, JOBS_PER_QUERY):
            yield from _select(connection, bound, RUNS.c.job_id.in_(some), limit)
    if default_before is None:
        return
    if len(before) <= JOBS_PER_QUERY:
        yield from _select(connection, default_before, RUNS.c.job_id.not_in(list(before)), limit)
    else:
        yield from islice(_walk(connection, default_before, before, limit), limit)


def _walk(connection: sa.Connection, bound: Instant, but_for: Collection[str], limit: int) -> Iterator[Old]:
    """The oldest lines of all jobs except these, if these are too many for one statement."""
    behind: sa.ColumnElement[bool] = sa.true()
    while page := _select(connection, bound, behind, limit):
        yield from (line for line in page if line[1] not in but_for)
        first, job_id, origin, *_ = page[-1]
        behind = follows(RunKey(job_id, first, origin), oldest_first=True)


def _select(connection: sa.Connection, bound: Instant, whose: sa.ColumnElement[bool], limit: int) -> Sequence[Old]:
    key = (RUNS.c.scheduled_for, RUNS.c.job_id, RUNS.c.origin)
    statement = (
        sa.select(*key, RUNS.c.through, RUNS.c.state, RUNS.c.trigger_kind, RUNS.c.reason, RUNS.c.occurrences)
        .where(RUNS.c.scheduled_for < bound, RUNS.c.is_open == 0, whose)
        .where(sa.or_(RUNS.c.through.is_(None), RUNS.c.through < bound))
        .order_by(*key)
        .limit(limit)
        # What another node removes at this moment must not be taken off the counts twice.
        .with_for_update()
    )
    return [
        (at, *rest, hour_kind(at, to_state(state), to_trigger(trigger), to_reason(reason)), occurrences)
        for at, *rest, state, trigger, reason, occurrences in connection.execute(statement)
    ]


def _move_up(
    connection: sa.Connection,
    statements: Statements,
    job_ids: Sequence[str],
    before: Mapping[str, Instant],
    default_before: Instant | None,
) -> None:
    """Let the schedule lines of these jobs begin no earlier than their bound."""
    passed: dict[str, list[tuple[Instant, str]]] = defaultdict(list)
    for line in schedules(connection, job_ids):
        bound = before.get(line.job_id, default_before)
        if bound is not None and line.since <= bound:
            passed[line.job_id].append((line.since, line.specs))
    gone = [(job_id, since) for job_id, lines in passed.items() for since, _ in lines]
    moved = [(job_id, before.get(job_id, default_before), lines[-1][1]) for job_id, lines in passed.items()]
    if gone:
        connection.exec_driver_sql(statements.delete_schedule, gone)
        connection.exec_driver_sql(statements.upsert_schedule, moved)


def _forget_definitions(
    connection: sa.Connection,
    statements: Statements,
    job_ids: Sequence[str],
    before: Mapping[str, Instant],
    default_before: Instant | None,
) -> None:
    """What these jobs were before the definition that was in force at their bound: no run that is left names it."""
    told: dict[str, list[tuple[Instant, str]]] = defaultdict(list)
    in_force: set[tuple[str, str]] = set()
    columns = (DEFINITIONS.c.job_id, DEFINITIONS.c.since, DEFINITIONS.c.digest, JOBS.c.definition)
    joined = sa.select(*columns).join_from(DEFINITIONS, JOBS, DEFINITIONS.c.job_id == JOBS.c.job_id, isouter=True)
    for some in chunks(job_ids, JOBS_PER_QUERY):
        for job_id, since, digest, present in connection.execute(joined.where(DEFINITIONS.c.job_id.in_(some))):
            bound = before.get(job_id, default_before)
            if bound is not None and since <= bound:
                told[job_id].append((since, digest))
            if digest == present:
                in_force.add((job_id, digest))  # it is the older one only where a clock was set back
    passed = [(job_id, digest) for job_id, lines in told.items() for _, digest in sorted(lines)[:-1]]
    gone = [one for one in passed if one not in in_force]
    if gone:
        connection.exec_driver_sql(statements.delete_definition, gone)

"""Reads the ledger: whole for a node that takes over buckets, page by page for people."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Final

import sqlalchemy as sa

from evertick.model.lifecycle import OPEN, SUCCEEDED, TERMINAL, RunState, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.store import Page, Request, RequestKind, RunFilter, ScheduleLine, Snapshot
from evertick.stores.sql.rows import Select, chunks, to_job, to_line, to_request
from evertick.stores.sql.schema import (
    BLACKOUTS,
    BY_END,
    BY_TRIGGER,
    COUNTERS,
    DEFINITIONS,
    DIALECTS_BY_END,
    ENDED_AS,
    FLOORS,
    GAPS,
    JOBS,
    NOT_SCHEDULED,
    REQUESTS,
    RUNS,
    SCHEDULES,
    STORED_JOBS,
)
from evertick.stores.sql.statements import JOB_COLUMNS, LINE_COLUMNS, REQUEST_COLUMNS

NAMES_PER_QUERY = 500

ITEM: Final[sa.ColumnElement[str]] = sa.literal_column(f"'{Trigger.ITEM.value}'")
LINE = [RUNS.c[name] for name in LINE_COLUMNS]
_PLACE = (RUNS.c.scheduled_for, RUNS.c.job_id, RUNS.c.origin)
_NOT_WELL = TERMINAL - {SUCCEEDED}
_REQUEST = [REQUESTS.c[name] for name in REQUEST_COLUMNS]


def load(connection: sa.Connection, buckets: Collection[int] | None) -> Snapshot:
    jobs, open_runs, floors = _select_all() if buckets is None else _select_some()
    wanted = {} if buckets is None else {"buckets": sorted(set(buckets))}
    return Snapshot(
        # All rows at once: one by one the cursor would be asked ten thousand times.
        jobs=[to_job(row) for row in connection.execute(jobs, wanted).all()],
        open_runs=sorted(map(to_line, connection.execute(open_runs, wanted).all()), key=_place_of),
        floors={int(row[0]): int(row[1]) for row in connection.execute(floors, wanted)},
    )


@cache
def _select_all() -> tuple[Select, Select, Select]:
    """The jobs, the open runs and the floors; put together once, because that takes longer than asking for a few."""
    return (
        sa.select(*(JOBS.c[name] for name in JOB_COLUMNS)),
        # No order by the database: sorting a million lines there would read the open ones through the key instead.
        select_open_runs(None),
        sa.select(FLOORS.c.bucket, FLOORS.c.planned_through),
    )


@cache
def _select_some() -> tuple[Select, Select, Select]:
    jobs, open_runs, floors = _select_all()
    buckets: sa.BindParameter[int] = sa.bindparam("buckets", expanding=True)
    return (
        jobs.where(JOBS.c.bucket.in_(buckets)),
        open_runs.where(RUNS.c.bucket.in_(buckets)),
        floors.where(FLOORS.c.bucket.in_(buckets)),
    )


def select_open_runs(buckets: Sequence[int] | None) -> Select:
    statement = sa.select(*LINE).where(RUNS.c.is_open == sa.literal_column("1"), _in(RUNS.c.bucket, buckets))
    # MySQL's statistics lag behind the share of runs that are open, which falls from all to few within a minute.
    return statement.with_hint(RUNS, "FORCE INDEX (evertick_runs_open)", "mysql")


# Built once: an idle node asks this each second.
_OPEN_REQUESTS: Final = (
    sa.select(*_REQUEST)
    .where(REQUESTS.c.is_open == sa.literal_column("1"))
    # What only a newer version can be asked for waits for a node that knows it.
    .where(REQUESTS.c.kind.in_([kind.value for kind in RequestKind]))
    .order_by(REQUESTS.c.submitted_at, REQUESTS.c.id)
    .limit(sa.bindparam("limit"))
)
_OPEN_REQUESTS_OF: Final = _OPEN_REQUESTS.where(REQUESTS.c.bucket.in_(sa.bindparam("buckets", expanding=True)))


def claim(connection: sa.Connection, buckets: Collection[int] | None, limit: int) -> Sequence[Request]:
    if buckets is None:
        return [to_request(row) for row in connection.execute(_OPEN_REQUESTS, {"limit": limit})]
    wanted = {"limit": limit, "buckets": sorted(set(buckets))}
    return [to_request(row) for row in connection.execute(_OPEN_REQUESTS_OF, wanted)]


def requests(connection: sa.Connection, ids: Collection[str]) -> Sequence[Request]:
    found = [
        to_request(row)
        for some in chunks(set(ids), NAMES_PER_QUERY)
        for row in connection.execute(sa.select(*_REQUEST).where(REQUESTS.c.id.in_(some)))
    ]
    return sorted(found, key=lambda request: (request.submitted_at, request.id))


def schedules(connection: sa.Connection, job_ids: Collection[str] | None) -> Sequence[ScheduleLine]:
    columns = (SCHEDULES.c.job_id, SCHEDULES.c.since, SCHEDULES.c.specs)
    if job_ids is None:
        return sorted(ScheduleLine(*row) for row in connection.execute(sa.select(*columns)))
    return sorted(
        ScheduleLine(*row)
        for some in chunks(set(job_ids), NAMES_PER_QUERY)
        for row in connection.execute(sa.select(*columns).where(SCHEDULES.c.job_id.in_(some)))
    )


def definition(connection: sa.Connection, job_id: str, digest: str) -> str | None:
    named = (DEFINITIONS.c.job_id == job_id, DEFINITIONS.c.digest == digest)
    found = connection.execute(sa.select(DEFINITIONS.c.text).where(*named)).scalar()
    return None if found is None else str(found)


def stored_jobs(connection: sa.Connection) -> Mapping[str, str]:
    statement = sa.select(STORED_JOBS.c.job_id, STORED_JOBS.c.text)
    return {row.job_id: row.text for row in connection.execute(statement)}


def blackouts(connection: sa.Connection) -> Mapping[str, str]:
    return {row.id: row.text for row in connection.execute(sa.select(BLACKOUTS.c.id, BLACKOUTS.c.text))}


def counters(connection: sa.Connection) -> Mapping[str, int]:
    statement = sa.select(COUNTERS.c.name, sa.func.sum(COUNTERS.c.value)).group_by(COUNTERS.c.name)
    return {name: int(value) for name, value in connection.execute(statement)}


def query(connection: sa.Connection, where: RunFilter, after: RunKey | None, limit: int) -> Page:
    """One page: as many lines as asked for, and one more to know whether there is another page."""
    found = list(islice(_lines(connection, where, after, limit + 1), limit + 1))
    rows = found[:limit]
    return Page(rows, rows[-1].key if len(found) > limit and rows else None)


def _lines(connection: sa.Connection, where: RunFilter, after: RunKey | None, limit: int) -> Iterator[LedgerRow]:
    """Lines in the order of the filter, from statements that each walk an index and stop."""
    parts = select_pages(where, after, limit, has_ends=connection.dialect.name in DIALECTS_BY_END)
    for statements in parts:
        found = [to_line(row) for statement in statements for row in connection.execute(statement).all()]
        if len(statements) > 1:
            found.sort(key=_place_of, reverse=not where.oldest_first)
        yield from found
        if len(found) >= limit:
            return


def select_pages(where: RunFilter, after: RunKey | None, limit: int, *, has_ends: bool = False) -> list[list[Select]]:
    """The statements of a page: parts that follow each other, each a statement per `NAMES_PER_QUERY` jobs.

    A gap may begin before `since` and reach past it. Found by its own table, such gaps all lie before the other
    lines, so that neither part has to read the whole past.
    """
    lines = _narrowed(where, has_ends=has_ends)
    if where.gaps:
        parts = [([select_gaps(where)], GAPS)]
    elif where.since is None or where.gaps is False:
        parts = [(lines, RUNS)]
    else:
        parts = [([select_reaching_gaps(where)], GAPS), (lines, RUNS)]
    pages = [[_paged(one, table, where, after, limit) for one in statements] for statements, table in parts]
    by_jobs: list[sa.ColumnElement[bool]] = [
        RUNS.c.job_id.in_(some) for some in chunks(set(where.job_ids), NAMES_PER_QUERY)
    ]
    by_jobs = by_jobs or [sa.true()]
    in_order = pages if where.oldest_first else reversed(pages)
    return [[page.where(jobs) for page in part for jobs in by_jobs] for part in in_order]


def _paged(statement: Select, table: sa.Table, where: RunFilter, after: RunKey | None, limit: int) -> Select:
    """A page of lines; gaps in the order of their own table, or SQLite would walk all lines to find them."""
    place = [table.c[name] for name in ("scheduled_for", "job_id", "origin")]
    behind = sa.true() if after is None else follows(after, where.oldest_first)
    order = (column if where.oldest_first else column.desc() for column in place)
    return statement.where(behind).order_by(*order).limit(limit)


def select_lines(where: RunFilter) -> Select:
    """The lines that match a filter, except gaps that began before `since`."""
    statement = filtered(sa.select(*LINE), where)
    return statement if where.since is None else statement.where(RUNS.c.scheduled_for >= where.since)


def _narrowed(where: RunFilter, *, has_ends: bool) -> list[Select]:
    """The lines that a filter finds; what is rare among all jobs through an index of its own.

    Such an index is asked for each kind by itself: a statement walks a part of it, in order, and stops. The index of
    runs that did not end well is one that not every database has.
    """
    if is_found_by_end(where, has_ends=has_ends):
        return [select_ends(replace(where, states=[state]), state) for state in sorted(set(where.states))]
    if not where.job_ids and where.triggers and Trigger.SCHEDULER not in where.triggers:
        return [select_asked(replace(where, triggers=[trigger])) for trigger in sorted(set(where.triggers))]
    return [select_lines(where)]


def is_found_by_end(where: RunFilter, *, has_ends: bool) -> bool:
    """Whether the lines that a filter finds are those of runs that did not end well, of all jobs."""
    return has_ends and not where.job_ids and bool(where.states) and _NOT_WELL.issuperset(where.states)


def select_asked(where: RunFilter) -> Select:
    """The lines that a filter finds among those of one trigger other than the schedule."""
    # SQLite takes a partial index only where its condition is said word for word.
    return select_lines(where).where(NOT_SCHEDULED).with_hint(RUNS, f"FORCE INDEX ({BY_TRIGGER})", "mysql")


def select_ends(where: RunFilter, state: RunState) -> Select:
    """The lines that a filter finds among those that ended in a state other than well."""
    statement = select_lines(where).where(sa.literal(state.value) == ENDED_AS)
    return statement.with_hint(RUNS, f"FORCE INDEX ({BY_END})", "mysql")


def select_reaching_gaps(where: RunFilter) -> Select:
    """The gaps that began before `since` and reach it."""
    return select_gaps(where).where(GAPS.c.scheduled_for < where.since)


def select_gaps(where: RunFilter) -> Select:
    """The gaps that match a filter, from their own table: they are few among many lines."""
    same = sa.and_(*(RUNS.c[name] == GAPS.c[name] for name in ("scheduled_for", "job_id", "origin")))
    statement = filtered(sa.select(*LINE).join_from(GAPS, RUNS, same), where)
    return statement if where.since is None else statement.where(GAPS.c.through >= where.since)


def filtered(statement: Select, where: RunFilter) -> Select:
    if where.states:
        statement = statement.where(RUNS.c.state.in_([state.value for state in where.states]))
        if OPEN.issuperset(where.states):
            statement = statement.where(RUNS.c.is_open == sa.literal_column("1"))
    if where.triggers:
        statement = statement.where(RUNS.c.trigger_kind.in_([trigger.value for trigger in where.triggers]))
    if where.reasons:
        statement = statement.where(RUNS.c.reason.in_([reason.value for reason in where.reasons]))
    if where.until is not None:
        statement = statement.where(RUNS.c.scheduled_for < where.until)
    if where.occurrences_only:
        statement = statement.where(RUNS.c.origin == "")
    if where.executors:
        statement = statement.where(RUNS.c.executor.in_(sorted(where.executors)))
    if where.gaps is not None:
        statement = statement.where(RUNS.c.occurrences > 1 if where.gaps else RUNS.c.occurrences == 1)
    if where.leaves_out_items:
        statement = statement.where(RUNS.c.trigger_kind != ITEM)
    return statement


def follows(mark: RunKey, oldest_first: bool) -> sa.ColumnElement[bool]:
    """The lines behind a key. The bound on the time alone is there for MySQL, which ranges over no tuples."""
    at, job_id, origin = RUNS.c.scheduled_for, RUNS.c.job_id, RUNS.c.origin
    place = sa.tuple_(at, job_id, origin)
    values = (mark.scheduled_for, mark.job_id, mark.origin)
    key = sa.tuple_(*(sa.literal(value, column.type) for value, column in zip(values, _PLACE, strict=True)))
    if oldest_first:
        return sa.and_(at >= mark.scheduled_for, place > key)
    return sa.and_(at <= mark.scheduled_for, place < key)


def _in(column: sa.Column[int], wanted: Sequence[int] | None) -> sa.ColumnElement[bool]:
    return sa.true() if wanted is None else column.in_(wanted)


def _place_of(line: LedgerRow) -> tuple[int, str, str]:
    return line.key.scheduled_for, line.key.job_id, line.key.origin

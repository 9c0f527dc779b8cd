"""Leases, each with an epoch, and the slots of shared queues: nodes take them under row locks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from evertick.model.instant import Instant
from evertick.model.ledger import Claim
from evertick.model.lifecycle import ACTIVE, WAITING, RunState
from evertick.model.run import RunKey
from evertick.store import Lease
from evertick.stores.sql.reads import ITEM, NAMES_PER_QUERY
from evertick.stores.sql.rows import chunks
from evertick.stores.sql.schema import JOBS, RUNS
from evertick.stores.sql.statements import Statements


def take_leases(
    connection: sa.Connection,
    statements: Statements,
    names: Collection[str],
    holder: str,
    ttl_us: int,
    clock: Callable[[], Instant],
) -> Sequence[Lease]:
    """The rule of `Store.lease`, in one transaction."""
    # Seen without a lock first: the leases of others are not waited for while their owners commit under them.
    now, seen = clock(), {held.name: held for held in _all(connection)}
    wanted = sorted(name for name in set(names) if _may_change(seen.get(name), holder, ttl_us, now))
    if wanted:
        _make(connection, statements, [name for name in wanted if name not in seen])
        statement = statements.lease_rows(len(wanted), statements.dialect.row_lock.format(alias="evertick_leases"))
        locked = [Lease(*row) for row in connection.exec_driver_sql(statement, tuple(wanted))]
        now = clock()  # the locks may have been waited for
        _change(connection, statements, [(held, after(held, holder, ttl_us, now)) for held in locked])
        seen = {held.name: held for held in _all(connection)}
    return sorted(held for held in seen.values() if held.expires_at > now)


def lock_rows(connection: sa.Connection, statements: Statements, names: Sequence[str]) -> None:
    """Block other transactions here until this one ends; the rows are leases that no node ever holds."""
    wanted = sorted(set(names))
    there = {held.name for held in _all(connection)}
    _make(connection, statements, [name for name in wanted if name not in there])
    statement = statements.lease_rows(len(wanted), statements.dialect.row_lock.format(alias="evertick_leases"))
    connection.exec_driver_sql(statement, tuple(wanted)).all()


def after(held: Lease, holder: str, ttl_us: int, now: Instant) -> Lease | None:
    """The lease after the holder asked for it; None where it stays as it is."""
    if held.expires_at <= now:
        return Lease(held.name, holder, held.epoch + 1, now + ttl_us) if ttl_us > 0 else None
    if held.holder != holder:
        return None
    # The epoch stays with a lease that was given up: the next holder's must be newer.
    return held.renewed(now + ttl_us) if ttl_us > 0 else held._replace(expires_at=0)


def _change(connection: sa.Connection, statements: Statements, pairs: Sequence[tuple[Lease, Lease | None]]) -> None:
    """In one or two statements: a node that freezes while it sends many would keep the locks on all of them."""
    names: defaultdict[tuple[str, int, Instant], list[str]] = defaultdict(list)
    for held, new in pairs:
        if new is not None:
            names[new.holder, new.epoch - held.epoch, new.expires_at].append(new.name)
    for values, group in names.items():
        connection.exec_driver_sql(statements.set_leases(len(group)), (*values, *group))


def _may_change(held: Lease | None, holder: str, ttl_us: int, now: Instant) -> bool:
    if held is None:
        return ttl_us > 0
    return after(held, holder, ttl_us, now) is not None


def _all(connection: sa.Connection) -> list[Lease]:
    rows = connection.exec_driver_sql("SELECT name, holder, epoch, expires_at FROM evertick_leases")
    return [Lease(*row) for row in rows]


def _make(connection: sa.Connection, statements: Statements, names: Sequence[str]) -> None:
    """Rows of leases that no node holds yet; another node may insert them at the same time."""
    if names:
        connection.exec_driver_sql(statements.insert_lease, [(name, "", 0, 0) for name in names])


class WithoutSlot(NamedTuple):
    crowded: frozenset[RunKey] = frozenset()
    """The runs for which their queue has no free slot."""
    outranked: frozenset[RunKey] = frozenset()
    """Those of them that have to give way to runs of a higher priority."""


def find_runs_without_slot(connection: sa.Connection, statements: Statements, claims: Sequence[Claim]) -> WithoutSlot:
    """Count the slots of these queues; until the transaction ends no other node takes one of them."""
    if not claims:
        return WithoutSlot()
    lock_rows(connection, statements, [f"queue:{claim.queue}" for claim in claims])
    crowded: set[RunKey] = set()
    outranked: set[RunKey] = set()
    for claim in claims:
        active = _runs(connection, claim.job_ids, ACTIVE)
        waiting = _runs(connection, list(claim.priorities), (WAITING,), are_planned=True)
        crowded.update(claim.without_place(active, waiting))
        outranked.update(claim.outranked(active, waiting))
    return WithoutSlot(frozenset(crowded), frozenset(outranked))


def _runs(
    connection: sa.Connection, job_ids: Sequence[str], states: Iterable[RunState], *, are_planned: bool = False
) -> set[RunKey]:
    """Open runs of these jobs, of all or of those that are not held; items have no places of their own."""
    statement = sa.select(RUNS.c.job_id, RUNS.c.scheduled_for, RUNS.c.origin).where(
        RUNS.c.is_open == sa.literal_column("1"),
        RUNS.c.state.in_([state.value for state in states]),
        RUNS.c.trigger_kind != ITEM,
    )
    if are_planned:
        held = sa.exists().where(JOBS.c.job_id == RUNS.c.job_id, JOBS.c.held != 0)
        statement = statement.where(~held)
    return {
        RunKey(*row)
        for some in chunks(job_ids, NAMES_PER_QUERY)
        for row in connection.execute(statement.where(RUNS.c.job_id.in_(some)))
    }

"""Who finds no place in a queue that several nodes share: counted and taken in one transaction, under a lock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from evertick.model.ledger import Claim
from evertick.model.lifecycle import ACTIVE, WAITING, RunState
from evertick.model.run import RunKey
from evertick.stores import sql_leases
from evertick.stores.sql_reads import NAMES_PER_QUERY
from evertick.stores.sql_rows import chunks
from evertick.stores.sql_schema import JOBS, RUNS
from evertick.stores.sql_statements import Statements


class Places(NamedTuple):
    crowded: frozenset[RunKey] = frozenset()
    """The runs without a place."""
    outranked: frozenset[RunKey] = frozenset()
    """Those of them that have to give way to runs of a higher priority."""


def places(connection: sa.Connection, statements: Statements, claims: Sequence[Claim]) -> Places:
    """Who gets no place. Until the transaction ends nobody else takes one in these queues."""
    if not claims:
        return Places()
    sql_leases.lock(connection, statements, [f"queue:{claim.queue}" for claim in claims])
    crowded: set[RunKey] = set()
    outranked: set[RunKey] = set()
    for claim in claims:
        active = _runs(connection, claim.job_ids, ACTIVE)
        waiting = _runs(connection, list(claim.priorities), (WAITING,), are_planned=True)
        crowded.update(claim.without_place(active, waiting))
        outranked.update(claim.outranked(active, waiting))
    return Places(frozenset(crowded), frozenset(outranked))


def _runs(
    connection: sa.Connection, job_ids: Sequence[str], states: Iterable[RunState], *, are_planned: bool = False
) -> set[RunKey]:
    """Open runs of these jobs, of all or of those that are not held."""
    statement = sa.select(RUNS.c.job_id, RUNS.c.scheduled_for, RUNS.c.origin).where(
        RUNS.c.is_open == sa.literal_column("1"), RUNS.c.state.in_([state.value for state in states])
    )
    if are_planned:
        held = sa.exists().where(JOBS.c.job_id == RUNS.c.job_id, JOBS.c.held != 0)
        statement = statement.where(~held)
    return {
        RunKey(*row)
        for some in chunks(job_ids, NAMES_PER_QUERY)
        for row in connection.execute(statement.where(RUNS.c.job_id.in_(some)))
    }

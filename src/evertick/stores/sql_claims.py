"""Who finds no place in a queue that several nodes share: counted and taken in one transaction, under a lock."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from evertick.model.ledger import Claim
from evertick.model.lifecycle import ACTIVE
from evertick.model.run import RunKey
from evertick.stores import sql_leases
from evertick.stores.sql_reads import NAMES_PER_QUERY
from evertick.stores.sql_rows import chunks
from evertick.stores.sql_schema import RUNS
from evertick.stores.sql_statements import Statements


def crowded(connection: sa.Connection, statements: Statements, claims: Sequence[Claim]) -> frozenset[RunKey]:
    """The runs without a place. Until the transaction ends nobody else takes one in these queues."""
    if not claims:
        return frozenset()
    sql_leases.lock(connection, statements, [f"queue:{claim.queue}" for claim in claims])
    return frozenset(key for claim in claims for key in claim.without_place(_active(connection, claim)))


def _active(connection: sa.Connection, claim: Claim) -> set[RunKey]:
    columns = (RUNS.c.job_id, RUNS.c.scheduled_for, RUNS.c.origin)
    states = RUNS.c.state.in_([state.value for state in ACTIVE])
    return {
        RunKey(*row)
        for some in chunks(claim.job_ids, NAMES_PER_QUERY)
        for row in connection.execute(
            sa.select(*columns).where(RUNS.c.is_open == sa.literal_column("1"), states, RUNS.c.job_id.in_(some))
        )
    }

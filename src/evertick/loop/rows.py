"""A run as a line of the ledger, for whoever asks about it before the ledger has it."""

from __future__ import annotations

from evertick.loop.runs import OpenRun
from evertick.model.facts import facts_text
from evertick.model.instant import Instant
from evertick.model.lifecycle import SkipReason
from evertick.model.run import LedgerRow


def row_of(
    run: OpenRun,
    node: str,
    now: Instant,
    reason: SkipReason | None = None,
    detail: str = "",
    finished_at: Instant | None = None,
    exit_code: int | None = None,
) -> LedgerRow:
    """A run as a line of the ledger, for answers."""
    return LedgerRow(
        run.key,
        run.state,
        run.trigger,
        run.decided_at,
        node,
        reason=reason,
        detail=detail,
        params=run.params,
        fence=run.fence,
        attempt=run.attempt,
        executor=run.executor,
        started_at=run.started_at,
        finished_at=finished_at,
        retry_at=run.retry_at,
        exit_code=exit_code,
        changed_at=now,
        steps=run.steps,
        definition=run.definition,
        earlier=run.earlier,
        facts=facts_text(run.facts),
    )

"""The history of runs and skips, page by page."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from evertick.model.instant import Instant
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.store import RunFilter, Store


class HistoryPage(NamedTuple):
    rows: tuple[LedgerRow, ...]
    after: str | None
    """The run behind which the next page begins; None: this was the last."""


def history(
    store: Store,
    job_id: str | None = None,
    *,
    states: Collection[RunState] = (),
    triggers: Collection[Trigger] = (),
    reasons: Collection[SkipReason] = (),
    since: Instant | None = None,
    until: Instant | None = None,
    limit: int = 20,
    after: RunKey | None = None,
) -> HistoryPage:
    """Lines of the ledger, newest first; `since` is included and `until` is not."""
    where = RunFilter(
        job_ids=[job_id] if job_id else (), states=states, triggers=triggers, reasons=reasons, since=since, until=until
    )
    page = store.query(where, after, limit)
    return HistoryPage(tuple(page.rows), page.after.run_id if page.after else None)

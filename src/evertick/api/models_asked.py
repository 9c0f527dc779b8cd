"""How answers look about what was asked for, what would come of it, and why something was so."""

from __future__ import annotations

from typing import Any

from evertick.api.models_base import Moment, Shape
from evertick.api.models_runs import RunBase
from evertick.model.lifecycle import SkipReason


class Why(Shape):
    job: str
    scheduled_for: Moment
    local: str
    timezone: str
    outcome: str
    reason: SkipReason | None
    verdict: str
    sentences: list[str]
    run: RunBase | None
    other_run: RunBase | None
    policy: str | None
    policy_from: str | None
    advice: str | None
    nearest_before: Moment | None
    nearest_after: Moment | None


class Fate(Shape):
    scheduled_for: Moment
    local: str
    through: Moment | None
    occurrences: int
    runs: bool
    what: str
    reason: SkipReason | None
    detail: str


class Catchup(Shape):
    job: str
    timezone: str
    watermark: Moment | None
    paused_at: Moment | None
    backlog: list[str]
    kept: int
    skipped: int
    fates: list[Fate]


class Asked(Shape):
    """What became of a request; until it is answered, the ledger keeps it."""

    request: str
    job: str
    is_answered: bool
    answer: dict[str, Any] | None
    run: str | None
    is_scheduler_running: bool


class Candidate(Shape):
    scheduled_for: Moment
    local: str
    is_chosen: bool
    why: str


class Backfill(Shape):
    request: str | None
    job: str
    is_answered: bool
    answer: dict[str, Any] | None
    chosen: int
    timezone: str | None = None
    total: int | None = None
    candidates: list[Candidate] | None = None
    run: str | None = None
    is_scheduler_running: bool | None = None


class BackfillProgress(Shape):
    request: str
    job: str
    submitted_at: Moment
    submitted_by: str
    first: Moment
    last: Moment
    is_answered: bool
    total: int
    ended: int
    is_over: bool
    states: dict[str, int]


class Backfills(Shape):
    items: list[BackfillProgress]


class CancelledBackfill(Asked):
    cancelled: int

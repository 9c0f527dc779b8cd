"""The results of a job's steps in its last runs, and of the job by weekday."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from evertick.model.instant import to_datetime
from evertick.model.lifecycle import ENDED, SUCCEEDED
from evertick.model.run import LedgerRow
from evertick.model.steps import FAILED, LOST, StepRecord, read_steps
from evertick.operations.context import Context, bounded
from evertick.operations.figures import BAD
from evertick.operations.ledger_rows import point_of
from evertick.operations.results.jobs import StepHistory, StepRow, WeekdayFigures
from evertick.store import RunFilter

RUNS_MAX = 100
WEEKDAYS_OF = 500
"""Runs from which the figures by weekday are computed."""


def step_history(context: Context, job_id: str, limit: int = 40) -> StepHistory:
    context.require_job(job_id)
    bounded("limit", limit, 1, RUNS_MAX)
    rows = context.store.query(RunFilter(job_ids=[job_id], states=ENDED), limit=WEEKDAYS_OF).rows
    shown = list(reversed(rows[:limit]))
    records = [_last_attempt(row) for row in shown]
    job = context.jobs.get(job_id)
    # In the order of the definition; steps that it no longer has come last.
    names = dict.fromkeys([*(step.name for step in job.steps)] if job else [])
    names |= dict.fromkeys(name for one in records for name in one)
    steps = []
    for name in names:
        states = tuple(one[name].state if name in one else None for one in records)
        failures = sum(state in (FAILED, LOST) for state in states)
        tries = sum(max(one[name].tries - 1, 0) for one in records if name in one)
        steps.append(StepRow(name=name, states=states, failures=failures, retries=tries))
    zone = context.zone(job_id)
    return StepHistory(
        job=job_id,
        timezone=zone,
        runs=tuple(map(point_of, shown)),
        steps=tuple(steps),
        weekdays=_weekdays(rows, zone),
    )


def _last_attempt(row: LedgerRow) -> dict[str, StepRecord]:
    return {step.name: step for step in read_steps(row.steps) if step.attempt == row.attempt and not step.item_of}


def _weekdays(rows: Sequence[LedgerRow], zone: str) -> tuple[WeekdayFigures, ...]:
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    place = ZoneInfo(zone)
    for row in rows:
        due: datetime = to_datetime(row.key.scheduled_for)
        day = counts[due.astimezone(place).weekday()]
        day["succeeded"] += row.state is SUCCEEDED
        day["failed"] += row.state in BAD
    return tuple(WeekdayFigures(day, counts[day]["succeeded"], counts[day]["failed"]) for day in range(7))

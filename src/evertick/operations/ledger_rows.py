"""Converts rows of the ledger to results."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeVar

from evertick.model import facts
from evertick.model.attempts import read_attempts
from evertick.model.facts import read_facts
from evertick.model.instant import Instant, to_datetime
from evertick.model.job import Job
from evertick.model.lifecycle import LOST, RETRYING, RUNNING
from evertick.model.loss import LossReason, read_loss
from evertick.model.plain_json import parse_json
from evertick.model.policy import Missed
from evertick.model.run import LedgerRow
from evertick.model.steps import RUNNING as STEP_RUNNING
from evertick.model.steps import StepRecord, read_steps
from evertick.operations.jobs import name_of, zone_of
from evertick.operations.results.base import fields_of
from evertick.operations.results.jobs import RunPoint
from evertick.operations.results.runs import Gap, Parent, Run, RunSummary, Step, Wait
from evertick.operations.resume_point import given_params, resumed_from

if TYPE_CHECKING:
    from evertick.operations.results.schedule import Mark

_NEVER = sys.maxsize


class StepLog(Protocol):
    """A log of a step of an attempt."""

    @property
    def attempt(self) -> int: ...

    @property
    def step(self) -> str: ...


Log = TypeVar("Log", bound=StepLog)


@lru_cache(maxsize=1 << 12)
def moment_of(instant: Instant) -> datetime:
    # Remembered: pages repeat their queries, and a page of the ledger has thousands of times.
    return to_datetime(instant)


def moment(instant: Instant | None) -> datetime | None:
    return None if instant is None else moment_of(instant)


def seconds_between(start: Instant | None, end: Instant | None) -> float | None:
    return None if start is None or end is None else (end - start) / 1_000_000


def run_summary(row: LedgerRow) -> RunSummary:
    return RunSummary(**fields_of(RunSummary, run_of(row, None)))


def run_of(row: LedgerRow, job: Job | None) -> Run:
    """A row with the name and the time zone of its job."""
    key, started, finished, known = row.key, row.started_at, row.finished_at, read_facts(row.facts)
    return Run(
        run=key.run_id,
        job=key.job_id,
        scheduled_for=moment_of(key.scheduled_for),
        starts_at=moment(known.starts_at or None),
        state=row.state,
        reason=row.reason,
        trigger=row.trigger,
        attempt=row.attempt,
        started_at=moment(started),
        finished_at=moment(finished),
        duration_seconds=seconds_between(started, finished),
        lateness_seconds=lateness_seconds(row),
        exit_code=row.exit_code,
        detail=row.detail,
        loss=loss_of(row),
        missed_by=Missed(known.missed_by) if known.missed_by else None,
        other_run=known.other or None,
        executor=row.executor,
        decided_at=moment_of(row.decided_at),
        decided_by=node_of(row),
        through=moment(row.through),
        occurrences=row.occurrences,
        request=key.origin or None,
        params=_params(given_params(row)),
        resumed_from=resumed_from(row),
        waits=tuple(map(wait_of, known.waits)),
        running_steps=_running_steps(row, job),
        parents=tuple(map(_parent, known.parents)),
        job_name=name_of(key.job_id, job),
        timezone="UTC" if job is None else zone_of(job, job.schedules),
    )


def _running_steps(row: LedgerRow, job: Job | None) -> tuple[str, ...]:
    found = (
        tuple(step.name for step in read_steps(row.steps) if step.state == STEP_RUNNING and not step.item_of)
        if row.steps
        else ()
    )
    # A keeper reports the steps of a run that has several; a single step runs while its run does.
    if row.state is RUNNING and job is not None and len(job.steps) == 1 and not found:
        return (job.steps[0].name,)
    return found


def wait_of(wait: facts.Wait) -> Wait:
    return Wait(wait.kind, moment_of(wait.since), wait.name, wait.runs, wait.jobs, wait.detail, wait.limit or None)


def _parent(parent: facts.Parent) -> Parent:
    return Parent(parent.run, parent.via or None)


def step_of(step: StepRecord) -> Step:
    started, finished = step.started_at, step.finished_at
    return Step(
        name=step.name,
        item_of=step.item_of or None,
        item=step.item if step.item_of else None,
        state=step.state,
        attempt=step.attempt,
        tries=step.tries,
        started_at=moment(started),
        finished_at=moment(finished),
        duration_seconds=seconds_between(started, finished),
        exit_code=step.exit_code,
        detail=step.detail,
        output=step.output,
        is_output_cut=step.is_output_cut,
        sub_run=step.sub_run or None,
        executor=step.executor or None,
        reused_from=step.reused_from or None,
        has_log=step.has_log,
        cpu_seconds=(step.user_us + step.system_us) / 1_000_000,
        max_rss_bytes=step.max_rss_bytes or None,
    )


def mark_of(row: LedgerRow) -> Mark:
    from evertick.operations.results.schedule import Mark

    return Mark(
        row.key.run_id,
        moment_of(row.key.scheduled_for),
        row.state,
        row.trigger,
        row.reason,
        moment(row.started_at),
        moment(row.finished_at),
        lateness_seconds(row),
        row.attempt,
    )


def point_of(row: LedgerRow) -> RunPoint:
    return RunPoint(
        row.key.run_id,
        moment_of(row.key.scheduled_for),
        row.state,
        row.trigger,
        seconds_between(row.started_at, row.finished_at),
        lateness_seconds(row),
    )


def gap_of(row: LedgerRow) -> Gap:
    return Gap(
        run=row.key.run_id,
        job=row.key.job_id,
        at=moment_of(row.key.scheduled_for),
        through=moment(row.through),
        occurrences=row.occurrences,
        reason=row.reason,
        detail=row.detail,
        decided_at=moment_of(row.decided_at),
    )


def loss_of(row: LedgerRow) -> LossReason | None:
    """Why the newest attempt has no result, where it was lost."""
    if row.state is LOST:
        return read_loss(read_facts(row.facts).loss)
    last = read_attempts(row.earlier)[-1:] if row.state is RETRYING else ()
    return read_loss(last[0].loss) if last else None


def as_begun(row: LedgerRow, logs: Iterable[Log]) -> list[Log]:
    """The logs of a run in the order in which its steps started; logs of steps that the row does not have come last.

    Those keep their order: while a run is in progress, the ledger learns of a step later than its log exists.
    """
    earlier = (step for one in read_attempts(row.earlier) for step in one.steps)
    records = [*earlier, *read_steps(row.steps)]
    began = {
        (step.attempt, step.name): (_NEVER if step.started_at is None else step.started_at, number)
        for number, step in enumerate(records)
    }
    last = (_NEVER, len(records))
    return sorted(logs, key=lambda log: (log.attempt, began.get((log.attempt, log.step), last)))


def lateness_seconds(row: LedgerRow) -> float | None:
    """How late the first attempt started; None for a requested run, which has no time to be late for."""
    started_at = first_started_at(row)
    if started_at is None or row.key.origin:
        return None
    return (started_at - starts_at_of(row)) / 1_000_000


def starts_at_of(row: LedgerRow) -> Instant:
    """When the run of an occurrence is to start: at its time, or later by the job's jitter."""
    return read_facts(row.facts).starts_at or row.key.scheduled_for


def first_started_at(row: LedgerRow) -> Instant | None:
    """When the first attempt started; the row itself has the newest."""
    earlier = read_attempts(row.earlier)
    return earlier[0].started_at if earlier else row.started_at


def node_of(row: LedgerRow) -> str:
    """The node that decided the row, without its incarnation."""
    return row.decided_by.partition("/")[0]


def _params(text: str) -> object:
    try:
        return parse_json(text) if text else None
    except ValueError:
        return text

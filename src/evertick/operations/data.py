"""The fields in which rows of the ledger are returned: the same names on every surface."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

from evertick.model.attempts import read_attempts
from evertick.model.facts import Wait, read_facts
from evertick.model.instant import Instant, to_text
from evertick.model.lifecycle import LOST, RETRYING
from evertick.model.loss import LossReason, read_loss
from evertick.model.plain_json import parse_json
from evertick.model.run import LedgerRow
from evertick.model.steps import RUNNING as STEP_RUNNING
from evertick.model.steps import StepRecord, read_steps
from evertick.operations.resume_point import given_params, resumed_from

_NEVER = sys.maxsize


class OfStep(Protocol):
    """A log, by whose it is."""

    @property
    def attempt(self) -> int: ...

    @property
    def step(self) -> str: ...


Log = TypeVar("Log", bound=OfStep)


def text_or_none(instant: Instant | None) -> str | None:
    return None if instant is None else to_text(instant)


def run_data(row: LedgerRow) -> dict[str, Any]:
    """A line of the ledger; instants as RFC 3339 in UTC."""
    started, finished, loss = row.started_at, row.finished_at, loss_of(row)
    return {
        "run": row.key.run_id,
        "job": row.key.job_id,
        "scheduled_for": to_text(row.key.scheduled_for),
        "state": str(row.state),
        "reason": None if row.reason is None else str(row.reason),
        "trigger": str(row.trigger),
        "attempt": row.attempt,
        "started_at": text_or_none(started),
        "finished_at": text_or_none(finished),
        "duration_seconds": None if started is None or finished is None else (finished - started) / 1_000_000,
        "lateness_seconds": lateness_seconds(row),
        "exit_code": row.exit_code,
        "detail": row.detail,
        "loss": None if loss is None else str(loss),
        "missed_by": read_facts(row.facts).missed_by or None,
        "executor": row.executor,
        "decided_at": to_text(row.decided_at),
        "decided_by": node_of(row),
        "through": text_or_none(row.through),
        "occurrences": row.occurrences,
        "request": row.key.origin or None,
        "waits": [wait_data(one) for one in read_facts(row.facts).waits],
        "running_steps": [step.name for step in read_steps(row.steps) if step.state == STEP_RUNNING],
        "parents": [{"run": one.run, "via": one.via or None} for one in read_facts(row.facts).parents],
        "params": _params(given_params(row)),
        "resumed_from": resumed_from(row),
        "steps": [step_data(step) for step in read_steps(row.steps)],
    }


def loss_of(row: LedgerRow) -> LossReason | None:
    """Why its newest attempt has no result, where that was lost."""
    if row.state is LOST:
        return read_loss(read_facts(row.facts).loss)
    last = read_attempts(row.earlier)[-1:] if row.state is RETRYING else ()
    return read_loss(last[0].loss) if last else None


def wait_data(wait: Wait) -> dict[str, Any]:
    """What a run waited for, and since when."""
    return {
        "kind": str(wait.kind),
        "since": to_text(wait.since),
        "name": wait.name,
        "runs": list(wait.runs),
        "jobs": list(wait.jobs),
        "detail": wait.detail,
        "limit": wait.limit or None,
    }


def step_data(step: StepRecord) -> dict[str, Any]:
    """How a step of the newest attempt stands."""
    started, finished = step.started_at, step.finished_at
    return {
        "name": step.name,
        "state": step.state,
        "attempt": step.attempt,
        "tries": step.tries,
        "started_at": text_or_none(started),
        "finished_at": text_or_none(finished),
        "duration_seconds": None if started is None or finished is None else (finished - started) / 1_000_000,
        "exit_code": step.exit_code,
        "detail": step.detail,
        "output": step.output,
        "is_output_cut": step.is_output_cut,
        "sub_run": step.sub_run or None,
        "reused_from": step.reused_from or None,
        "has_log": step.has_log,
        "cpu_seconds": (step.user_us + step.system_us) / 1_000_000,
        "max_rss_bytes": step.max_rss_bytes or None,
    }


def as_begun(row: LedgerRow, logs: Iterable[Log]) -> list[Log]:
    """The logs of a run in the order in which its steps began, to be read as it went; of those not told of, last.

    Those keep the order they come in: while it runs, the ledger learns of steps later than their logs do.
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
    """How long after its time an occurrence first started; a requested run has no time of its own to be late for."""
    started_at = first_started_at(row)
    if started_at is None or row.key.origin:
        return None
    return (started_at - row.key.scheduled_for) / 1_000_000


def first_started_at(row: LedgerRow) -> Instant | None:
    """When its first attempt started; the line itself speaks of the newest."""
    earlier = read_attempts(row.earlier)
    return earlier[0].started_at if earlier else row.started_at


def node_of(row: LedgerRow) -> str:
    """The node that decided it; what is written with it tells its incarnations apart."""
    return row.decided_by.partition("/")[0]


def _params(text: str) -> object:
    try:
        return parse_json(text) if text else None
    except ValueError:
        return text

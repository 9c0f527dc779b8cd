"""Queries about executors, their members, and queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from evertick.model.lifecycle import ACTIVE, WAITING
from evertick.model.member import Closed
from evertick.model.run import LedgerRow
from evertick.operations.context import Context
from evertick.operations.ledger_rows import run_of
from evertick.operations.results.base import fields_of
from evertick.operations.results.runs import Run
from evertick.operations.results.system import (
    Executors,
    ExecutorState,
    MemberRun,
    MemberState,
    Queue,
    QueuedRun,
    Queues,
    Status,
)
from evertick.operations.scheduler_report import MemberReport, read_member
from evertick.operations.waits import noted_blocker
from evertick.routing.placement import executor_of, parse_placement

SHOWN = 20
_UNKNOWN = read_member({})


@dataclass(frozen=True, slots=True)
class _Executor:
    """An executor as the scheduler reports it; one with members, such as a fleet, is a single one."""

    kind: str | None
    report: MemberReport | None = None
    """None: it has members."""
    members: dict[str, MemberReport] = field(default_factory=dict)


def status(context: Context) -> Status:
    report = context.raw_report()
    return Status(report is not None or context.is_scheduler_running(), report)


def executors(context: Context) -> Executors:
    report = context.report()
    known = _by_executor({} if report is None else report.executors)
    running: dict[str, list[LedgerRow]] = defaultdict(list)
    for row in context.view().snapshot.open_runs:
        if row.state in ACTIVE and row.executor:
            running[_executor_of_run(row.executor, known)].append(row)
    return Executors(
        is_scheduler_running=context.is_scheduler_running(),
        items=tuple(_state(context, name, known.get(name), running[name]) for name in sorted({*known, *running})),
    )


def _state(context: Context, name: str, known: _Executor | None, running: Sequence[LedgerRow]) -> ExecutorState:
    members = _members(context, {} if known is None else known.members, running)
    report = known.report if known is not None else None
    is_healthy = report.is_healthy if report is not None else None
    if known is not None and known.members:
        is_healthy = any(one.is_healthy for one in known.members.values())
    return ExecutorState(
        executor=name,
        is_known=known is not None,
        health="unknown" if known is None else _health(is_healthy, members),
        ready=sum(one.is_healthy and one.is_open for one in members),
        active=len(running),
        runs=context.runs(running[:SHOWN]),
        members=members,
        kind=known.kind if known is not None else None,
        is_healthy=is_healthy,
        running=report.state.running if report is not None else None,
        slots=report.state.slots if report is not None else None,
        lanes=report.lanes if report is not None else None,
        keepers=report.keepers if report is not None else None,
    )


def _members(context: Context, known: Mapping[str, MemberReport], rows: Sequence[LedgerRow]) -> tuple[MemberState, ...]:
    """The members of an executor, and those that are gone but that runs still name."""
    runs: dict[str, list[LedgerRow]] = defaultdict(list)
    for row in rows:
        for member in parse_placement(row.executor).members:
            runs[member].append(row)
    return tuple(
        replace(
            known.get(name, _UNKNOWN).state,
            name=name,
            runs=tuple(
                MemberRun(row.key.run_id, row.key.job_id, context.name_of(row.key.job_id)) for row in runs[name][:SHOWN]
            ),
        )
        for name in sorted({*known, *runs})
    )


def _by_executor(reports: Mapping[str, MemberReport]) -> dict[str, _Executor]:
    """An executor of one node has its own entry; members are put together under their executor."""
    found: dict[str, _Executor] = {}
    for name, one in reports.items():
        if one.kind is None or one.member in (None, one.kind):
            found[name] = _Executor(one.kind, one)
        else:
            found.setdefault(one.kind, _Executor(one.kind)).members[one.member] = one
    return found


def _executor_of_run(executor: str, known: Mapping[str, _Executor]) -> str:
    """The entry that a run belongs to: `local@a1` as it is, `fleet:ex-a` with the fleet, a cluster by its kind."""
    kind = executor_of(executor)
    same = [executor, kind, *(name for name, one in known.items() if one.kind == kind and "@" not in executor)]
    return next((name for name in same if name in known), executor if "@" in executor else kind)


def _health(
    is_healthy: bool | None, members: Sequence[MemberState]
) -> Literal["healthy", "degraded", "down", "unknown"]:
    """With members: healthy if all accept runs or were drained on purpose, down if none accepts runs."""
    if not members:
        return "unknown" if is_healthy is None else "healthy" if is_healthy else "down"
    if not any(one.is_healthy and one.is_open for one in members):
        return "down"
    is_well = all(one.is_healthy and one.closed is not Closed.LEASE_TOO_LONG for one in members)
    return "healthy" if is_well else "degraded"


def queues(context: Context) -> Queues:
    report = context.report()
    limits = {} if report is None else report.queue_limits
    jobs: dict[str, list[str]] = defaultdict(list)
    for job in context.jobs.values():
        if job.queue:
            jobs[job.queue].append(job.id)
    rows = context.view().snapshot.open_runs
    return Queues(
        is_scheduler_running=context.is_scheduler_running(),
        items=tuple(
            _queue(context, name, sorted(jobs[name]), limits.get(name), rows) for name in sorted({*jobs, *limits})
        ),
    )


def _queue(context: Context, name: str, jobs: Sequence[str], limit: int | None, rows: Sequence[LedgerRow]) -> Queue:
    members = set(jobs)
    own = [row for row in rows if row.key.job_id in members]
    active = [row for row in own if row.state in ACTIVE]
    waiting = [row for row in own if row.state is WAITING]
    return Queue(
        queue=name,
        limit=limit,
        jobs=tuple(jobs),
        active=len(active),
        waiting=len(waiting),
        runs=tuple(
            QueuedRun(
                **fields_of(Run, run_of(row, context.jobs.get(row.key.job_id))),
                blocked_by=noted_blocker(row) if row.state is WAITING else None,
            )
            for row in (*active[:SHOWN], *waiting[:SHOWN])
        ),
    )

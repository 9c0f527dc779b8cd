"""What people can do, whichever surface they use: each is a durable request, or a question to the ledger."""

from __future__ import annotations

import json
from typing import assert_never

from evertick.loop.messages import (
    BackfillJob,
    CancelRun,
    ChainArrived,
    ForwardedReport,
    PauseJob,
    ResumeJob,
    RunFinished,
    TriggerJob,
)
from evertick.model.instant import Instant
from evertick.model.ledger import Batch, Request, RequestKind
from evertick.model.lifecycle import RunState, Trigger
from evertick.model.policy import Missed, Overlap, OverlapKind
from evertick.model.run import LedgerRow, RunKey
from evertick.planning.verify import Report, verify_ledger
from evertick.store import RunFilter, Store

RequestMessage = TriggerJob | CancelRun | PauseJob | ResumeJob | BackfillJob | ChainArrived | ForwardedReport


def submit(store: Store, request: Request) -> None:
    """Put a request into the ledger; whoever owns the job carries it out and answers there."""
    store.commit(Batch(by=f"request/{request.id}", requests=[request]))


def trigger_request(request_id: str, job_id: str, now: Instant, *, by: str = "", params: str = "") -> Request:
    payload = json.dumps({"trigger": Trigger.MANUAL, "params": params})
    return Request(request_id, RequestKind.TRIGGER, job_id, payload, now, by)


def cancel_request(request_id: str, job_id: str, now: Instant, *, run_id: str | None = None, by: str = "") -> Request:
    return Request(request_id, RequestKind.CANCEL, job_id, json.dumps({"run_id": run_id}), now, by)


def pause_request(request_id: str, job_id: str, now: Instant, *, note: str = "", by: str = "") -> Request:
    return Request(request_id, RequestKind.PAUSE, job_id, json.dumps({"note": note}), now, by)


def resume_request(request_id: str, job_id: str, now: Instant, *, keep: Missed | None = None, by: str = "") -> Request:
    return Request(request_id, RequestKind.RESUME, job_id, json.dumps({"keep": keep}), now, by)


def backfill_request(
    request_id: str,
    job_id: str,
    now: Instant,
    instants: list[Instant],
    *,
    overlap: Overlap | None = None,
    gap_us: int = 0,
    by: str = "",
) -> Request:
    """`instants` are worked out before, from the schedule and what the ledger has already: the loop does not read."""
    rule = overlap or Overlap(OverlapKind.WAIT)
    payload = json.dumps({"instants": instants, "overlap": rule.kind, "limit": rule.limit, "gap_us": gap_us})
    return Request(request_id, RequestKind.BACKFILL, job_id, payload, now, by)


def message_of(request: Request) -> RequestMessage:
    """A request as the loop is told of it."""
    payload = json.loads(request.payload)
    match request.kind:
        case RequestKind.TRIGGER:
            return TriggerJob(
                request.id, request.job_id, request.submitted_at, Trigger(payload["trigger"]), payload["params"]
            )
        case RequestKind.CANCEL:
            key = RunKey.from_run_id(payload["run_id"]) if payload["run_id"] else None
            return CancelRun(request.id, request.job_id, key, request.submitted_by)
        case RequestKind.PAUSE:
            return PauseJob(request.id, request.job_id, payload["note"])
        case RequestKind.RESUME:
            return ResumeJob(request.id, request.job_id, Missed(payload["keep"]) if payload["keep"] else None)
        case RequestKind.BACKFILL:
            overlap = Overlap(OverlapKind(payload["overlap"]), payload["limit"])
            return BackfillJob(request.id, request.job_id, payload["instants"], overlap, payload["gap_us"])
        case RequestKind.CHAIN:
            return ChainArrived(request.id, request.job_id, payload["upstream"], payload["at"])
        case RequestKind.REPORT:
            report = RunFinished(
                RunKey.from_run_id(payload["run_id"]),
                payload["attempt"],
                payload["at"],
                RunState(payload["state"]),
                payload["exit_code"],
                payload["detail"],
            )
            return ForwardedReport(request.id, report)
        case _:
            assert_never(request.kind)


def verify(store: Store) -> Report:
    """Prove from the ledger alone that no occurrence was lost and none decided twice."""
    snapshot = store.load()
    rows: list[LedgerRow] = []
    after = None
    while True:
        page = store.query(RunFilter(occurrences_only=True, oldest_first=True), after, 10_000)
        rows += page.rows
        if page.after is None:
            break
        after = page.after
    return verify_ledger(store.schedules(), snapshot.jobs, snapshot.floors, rows)

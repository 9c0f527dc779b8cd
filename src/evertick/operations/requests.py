"""Requests: how they are stored, and how they become messages for the loop."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from typing import assert_never

from evertick.loop.messages import (
    BackfillJob,
    CancelRun,
    ForwardedReport,
    PauseJob,
    ResumeJob,
    RunFinished,
    TriggerJob,
    UpstreamEnded,
)
from evertick.model.answer import Answer, Refusal, answer_text
from evertick.model.facts import Parent
from evertick.model.instant import MILLISECOND, Instant
from evertick.model.job import Job
from evertick.model.ledger import Batch, Request, RequestKind
from evertick.model.lifecycle import RunState, Trigger
from evertick.model.loss import read_loss
from evertick.model.policy import Missed, Overlap, OverlapKind
from evertick.model.run import LedgerRow, RunKey
from evertick.operations.resume_point import given_params, resume_params
from evertick.store import Ledger

log = logging.getLogger("evertick")

REPORTS_AT_ONCE = 1_000

RequestMessage = TriggerJob | CancelRun | PauseJob | ResumeJob | BackfillJob | UpstreamEnded | ForwardedReport


def trigger_request(
    request_id: str,
    job_id: str,
    now: Instant,
    *,
    by: str = "",
    params: str = "",
    trigger: Trigger = Trigger.MANUAL,
    scheduled_for: Instant | None = None,
    parent: RunKey | None = None,
) -> Request:
    """`scheduled_for` is the due time of the run; without it, the time of the request, to the millisecond.

    The id of the run contains that time, which makes it short.
    """
    payload: dict[str, object] = {"trigger": trigger, "params": params}
    if scheduled_for is not None:
        payload["scheduled_for"] = scheduled_for
    if parent is not None:
        payload["parents"] = [[parent.run_id]]
    asked_at = now // MILLISECOND * MILLISECOND
    return Request(request_id, RequestKind.TRIGGER, job_id, json.dumps(payload), asked_at, by)


def retry_request(
    request_id: str,
    row: LedgerRow,
    now: Instant,
    *,
    by: str = "",
    job: Job | None = None,
    from_failed: bool = False,
) -> Request:
    """A new run for the same due time as another one, with the same parameters.

    With `from_failed` it keeps the steps that succeeded, which must still be in the definition `job`; else `Conflict`.
    The request contains everything that the run needs, so nothing depends on the process that sends or executes it.
    """
    params = resume_params(row, job) if from_failed else given_params(row)
    key = row.key
    return trigger_request(
        request_id,
        key.job_id,
        now,
        by=by,
        params=params,
        trigger=Trigger.RETRY,
        scheduled_for=key.scheduled_for,
        parent=key,
    )


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


def messages_of(store: Ledger, requests: Sequence[Request]) -> list[RequestMessage]:
    """The messages for the loop; a request that this version cannot read is refused."""
    messages: list[RequestMessage] = []
    answers: dict[str, str] = {}
    for request in requests:
        try:
            messages.append(message_of(request))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("request.not_understood id=%s kind=%s reason=%r", request.id, request.kind, error)
            from importlib.metadata import version

            reader = f"the scheduler, Evertick {version('evertick')},"
            text = f"{reader} cannot read this request; a newer version may have sent it"
            answers[request.id] = answer_text(Answer(refusal=Refusal.NOT_UNDERSTOOD, text=text))
    if answers:
        store.commit(Batch(by="request", answers=answers))
    return messages


def forwarded_reports(store: Ledger, buckets: Collection[int]) -> list[RequestMessage]:
    """Every report about runs of these buckets that no owner has answered yet."""
    limit = REPORTS_AT_ONCE
    while len(found := store.claim(buckets, limit)) == limit:
        limit *= 4  # the oldest come first, among other requests about these jobs
    return messages_of(store, [request for request in found if request.kind is RequestKind.REPORT])


def message_of(request: Request) -> RequestMessage:
    """The message for the loop."""
    payload = json.loads(request.payload)
    match request.kind:
        case RequestKind.TRIGGER:
            at = payload.get("scheduled_for", request.submitted_at)
            return TriggerJob(
                request.id,
                request.job_id,
                at,
                Trigger(payload["trigger"]),
                payload["params"],
                payload.get("detail", ""),
                tuple(Parent(*parent) for parent in payload.get("parents", ())),
            )
        case RequestKind.CANCEL:
            key = RunKey.from_run_id(payload["run_id"]) if payload["run_id"] else None
            return CancelRun(request.id, request.job_id, key, request.submitted_by)
        case RequestKind.PAUSE:
            return PauseJob(request.id, request.job_id, payload["note"], submitted_at=request.submitted_at)
        case RequestKind.RESUME:
            keep = Missed(payload["keep"]) if payload["keep"] else None
            return ResumeJob(request.id, request.job_id, keep, submitted_at=request.submitted_at)
        case RequestKind.BACKFILL:
            overlap = Overlap(OverlapKind(payload["overlap"]), payload["limit"])
            return BackfillJob(request.id, request.job_id, payload["instants"], overlap, payload["gap_us"])
        case RequestKind.CHAIN:
            # Without a state it is from a version that reported successes only.
            ended = RunState(payload.get("state", RunState.SUCCEEDED))
            run_id = payload.get("run", "")
            return UpstreamEnded(request.id, request.job_id, payload["upstream"], payload["at"], run_id, ended)
        case RequestKind.REPORT:
            report = RunFinished(
                RunKey.from_run_id(payload["run_id"]),
                payload["attempt"],
                payload["at"],
                RunState(payload["state"]),
                payload["exit_code"],
                payload["detail"],
                steps=payload.get("steps"),
                executor=payload.get("executor", ""),
                broken=payload.get("broken", ""),
                has_loss=payload.get("has_loss", False),
                loss=read_loss(payload.get("loss")),
            )
            return ForwardedReport(request.id, report, str(payload.get("node", "")))
        case _:
            assert_never(request.kind)

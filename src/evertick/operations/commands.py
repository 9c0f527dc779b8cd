"""Commands: each is a durable request with its own id, so that repeating it is harmless."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from evertick.errors import Conflict, InvalidArgument, NotFound
from evertick.model.answer import Answer
from evertick.model.facts import read_facts
from evertick.model.ids import digest
from evertick.model.instant import DAY, from_datetime, to_datetime
from evertick.model.ledger import Request, RequestKind
from evertick.model.lifecycle import TERMINAL, RunState, Trigger
from evertick.model.policy import Missed
from evertick.operations.backfill import (
    cancel_requests,
    excluded_range,
    find_backfill,
    plan_backfill,
    progress_of,
    read_overlap,
)
from evertick.operations.context import Context, bounded
from evertick.operations.ledger_rows import moment
from evertick.operations.protocol import Moment
from evertick.operations.requests import (
    backfill_request,
    cancel_request,
    pause_request,
    resume_request,
    retry_request,
    trigger_request,
)
from evertick.operations.results.requests import (
    Backfill,
    BackfillCandidate,
    BackfillProgress,
    CancelledBackfill,
    RequestAnswer,
    RequestStatus,
)
from evertick.operations.submission import answer_in, answer_to, params_text, submit
from evertick.operations.time_text import local_text, read_moment
from evertick.planning.schedules import compile_all
from evertick.store import RunFilter

LOOK_SECONDS = 0.005
"""The least time between two looks for an answer."""
LOOK_MAX_SECONDS = 0.5
"""The most, where no scheduler reports changes to this process."""
WAITERS_MAX = 24
"""Callers that may wait for an answer at once; others get the present status, so that they do not block everyone."""
BACKFILL_US = 10 * 366 * DAY
_waiters = threading.BoundedSemaphore(WAITERS_MAX)
GAP_MAX_SECONDS = 86_400.0
BACKFILLS_MAX = 50
LINES_LOOKED_AT = 1_000

TRIGGERS = (Trigger.MANUAL, Trigger.API, Trigger.WEBHOOK)


def trigger(
    context: Context,
    job_id: str,
    params: Mapping[str, str] | None = None,
    trigger: Trigger = Trigger.MANUAL,
    *,
    request_id: str = "",
    by: str = "",
    wait_seconds: float = 0.0,
) -> RequestStatus:
    if trigger not in TRIGGERS:
        raise InvalidArgument(f"a run cannot be requested with the trigger '{trigger}'.", field="trigger")
    context.require_job(job_id)
    text = params_text(context.written_jobs.get(job_id), params or {})
    request = trigger_request(_id(request_id), job_id, context.now(), by=by or context.by, params=text, trigger=trigger)
    return _submit(context, request, wait_seconds, is_new=not request_id)


def cancel(
    context: Context, target: str, *, request_id: str = "", by: str = "", wait_seconds: float = 0.0
) -> RequestStatus:
    if "@" not in target and context.is_job(target):
        request = cancel_request(_id(request_id), target, context.now(), by=by or context.by)
        return _submit(context, request, wait_seconds, is_new=not request_id)
    return cancel_run(context, target, request_id=request_id, by=by, wait_seconds=wait_seconds)


def cancel_run(
    context: Context, reference: str, *, request_id: str = "", by: str = "", wait_seconds: float = 0.0
) -> RequestStatus:
    row = context.find_run(reference)
    job_id, run_id = row.key.job_id, row.key.run_id
    if row.state in TERMINAL and (not request_id or _known(context, request_id) is None):
        raise Conflict(f"the run {run_id} has ended: {row.state}. Nothing was changed.")
    request = cancel_request(_id(request_id), job_id, context.now(), run_id=run_id, by=by or context.by)
    return _submit(context, request, wait_seconds, is_new=not request_id)


def retry(
    context: Context,
    run_id: str,
    from_failed: bool = False,
    *,
    request_id: str = "",
    by: str = "",
    wait_seconds: float = 0.0,
) -> RequestStatus:
    row = context.find_run(run_id)
    key, run_id = row.key, row.key.run_id
    if row.state not in TERMINAL:
        raise Conflict(f"the run {run_id} is {row.state}. Next: wait until it ends, or cancel it.")
    if row.occurrences > 1:
        raise Conflict(f"{run_id} is a gap of {row.occurrences:,} skipped occurrences. Next: backfill them.")
    if row.trigger is Trigger.ITEM:
        parent = read_facts(row.facts).parents[0].run
        raise Conflict(f"{run_id} is an item of {parent}. Next: retry that run, from the failed step.")
    job = context.written_jobs.get(key.job_id)
    request = retry_request(_id(request_id), row, context.now(), by=by or context.by, job=job, from_failed=from_failed)
    return _submit(context, request, wait_seconds, is_new=not request_id)


def pause(
    context: Context, job_id: str, note: str = "", *, request_id: str = "", by: str = "", wait_seconds: float = 0.0
) -> RequestStatus:
    context.require_job(job_id)
    request = pause_request(_id(request_id), job_id, context.now(), note=note, by=by or context.by)
    return _submit(context, request, wait_seconds, is_new=not request_id)


def resume(
    context: Context,
    job_id: str,
    keep: Missed | None = None,
    *,
    request_id: str = "",
    by: str = "",
    wait_seconds: float = 0.0,
) -> RequestStatus:
    context.require_job(job_id)
    request = resume_request(_id(request_id), job_id, context.now(), keep=keep, by=by or context.by)
    return _submit(context, request, wait_seconds, is_new=not request_id)


def backfill(
    context: Context,
    job_id: str,
    start: Moment,
    end: Moment,
    only_missing: bool = True,
    overlap: str = "wait",
    gap_seconds: float = 0.0,
    preview: bool = False,
    *,
    request_id: str = "",
    by: str = "",
    wait_seconds: float = 0.0,
) -> Backfill:
    context.require_job(job_id)
    if not 0 <= gap_seconds <= GAP_MAX_SECONDS:
        raise InvalidArgument(
            f"the delay between starts is {gap_seconds:g} s.",
            hint=f"Write 0 to {GAP_MAX_SECONDS:,.0f}.",
            field="gap_seconds",
        )
    rule, zone = read_overlap(overlap), context.zone(job_id)
    known = _known(context, request_id) if request_id and not preview else None
    if known is not None:
        return _with_request(
            Backfill(None, job_id, False, None, len(json.loads(known.payload).get("instants", ()))),
            _status(context, known, wait_seconds),
        )
    schedules = compile_all(context.specs(job_id))
    first, last = (
        from_datetime(at) if isinstance(at, datetime) else read_moment(at, zone, schedules, now=context.now())
        for at in (start, end)
    )
    if last - first > BACKFILL_US:
        raise InvalidArgument("the range of the backfill is longer than ten years.", hint="Split it.")
    found = plan_backfill(context.store, job_id, context.jobs, first, last, context.now(), only_missing=only_missing)
    chosen = [one.at for one in found if one.is_chosen]
    planned = Backfill(
        request=None,
        job=job_id,
        is_answered=False,
        answer=None,
        chosen=len(chosen),
        timezone=zone,
        total=len(found),
        candidates=tuple(
            BackfillCandidate(to_datetime(one.at), local_text(one.at, zone), one.is_chosen, one.why) for one in found
        ),
        excluded=None if found else excluded_range(context.specs(job_id), first, last),
    )
    if preview or not chosen:
        return planned
    gap_us = round(gap_seconds * 1_000_000)
    request = backfill_request(
        _id(request_id), job_id, context.now(), chosen, overlap=rule, gap_us=gap_us, by=by or context.by
    )
    return _with_request(planned, _submit(context, request, wait_seconds, is_new=not request_id))


def _with_request(planned: Backfill, status: RequestStatus) -> Backfill:
    return replace(
        planned,
        request=status.request,
        is_answered=status.is_answered,
        answer=status.answer,
        run=status.run,
        is_scheduler_running=status.is_scheduler_running,
    )


def backfill_progress(context: Context, job_id: str, request: str) -> BackfillProgress:
    return _progress(context, find_backfill(context.store, job_id, request))


def backfills(context: Context, job_id: str, limit: int = 10) -> Sequence[BackfillProgress]:
    """As far back as the job's newest rows reach."""
    bounded("limit", limit, 1, BACKFILLS_MAX)
    context.require_job(job_id)
    where = RunFilter(job_ids=[job_id], triggers=[Trigger.BACKFILL])
    rows = context.store.query(where, limit=LINES_LOOKED_AT).rows
    active = [row for row in context.view().open_runs.get(job_id, ()) if row.trigger is Trigger.BACKFILL]
    unanswered = [one.id for one in context.store.claim(None, LINES_LOOKED_AT) if one.job_id == job_id]
    ids = dict.fromkeys([*unanswered, *(row.key.origin for row in (*active, *rows))])
    found = [one for one in context.store.requests(list(ids)) if one.kind is RequestKind.BACKFILL]
    newest = sorted(found, key=lambda one: -one.submitted_at)[: 2 * limit]
    return sorted((_progress(context, one) for one in newest), key=lambda one: one.is_over)[:limit]


def _progress(context: Context, found: Request) -> BackfillProgress:
    progress = progress_of(context.store, found)
    instants = json.loads(found.payload).get("instants") or [found.submitted_at]
    return BackfillProgress(
        request=found.id,
        job=found.job_id,
        submitted_at=to_datetime(found.submitted_at),
        submitted_by=found.submitted_by,
        first=to_datetime(min(instants)),
        last=to_datetime(max(instants)),
        is_answered=found.answer is not None,
        total=progress.total,
        ended=progress.ended,
        is_over=progress.is_over,
        states={state: progress.states[state] for state in RunState if progress.states.get(state)},
    )


def cancel_backfill(
    context: Context, job_id: str, request: str, *, request_id: str = "", by: str = "", wait_seconds: float = 0.0
) -> CancelledBackfill:
    found, request_id = find_backfill(context.store, job_id, request), _id(request_id)
    requests = cancel_requests(context.store, found, request_id, context.now(), by=by or context.by)
    # Where nothing is left to cancel, or the rest has ended meanwhile, there is no request and nothing to wait for.
    status = RequestStatus(request_id, job_id, True, RequestAnswer(), None, context.is_scheduler_running())
    if requests:
        *others, last = requests
        submit(context.store, *others)
        with suppress(Conflict):
            status = _submit(context, last, wait_seconds, is_new=False)
    return CancelledBackfill(
        request=request_id,
        job=job_id,
        is_answered=status.is_answered,
        answer=status.answer,
        run=status.run,
        is_scheduler_running=status.is_scheduler_running,
        cancelled=len(requests),
    )


def answer(context: Context, request_id: str, wait_seconds: float = 0.0) -> RequestStatus:
    known = _known(context, request_id)
    if known is None:
        raise NotFound(f"unknown request '{request_id}'.")
    return _status(context, known, wait_seconds)


def _known(context: Context, request_id: str) -> Request | None:
    return next(iter(context.store.requests([request_id])), None)


def _submit(context: Context, request: Request, wait_seconds: float, *, is_new: bool) -> RequestStatus:
    """`is_new`: the id was made here, so that the ledger cannot have it already."""
    submit(context.store, request)
    if context.live is not None:
        context.live.announce_requests()
    context.forget()
    known = request if is_new else _known(context, request.id) or request
    if not _is_same(known, request):
        raise Conflict(
            f"the request id '{request.id}' was used for another request: {known.kind} of {known.job_id}. "
            "Next: use a new id, or another Idempotency-Key."
        )
    return _status(context, known, wait_seconds)


def _status(context: Context, request: Request, wait_seconds: float) -> RequestStatus:
    """The status of a request as it was read; waits for its answer if there is none and a scheduler runs."""
    answer = answer_in(request)
    is_running = answer is not None or context.is_scheduler_running()
    if answer is None and wait_seconds > 0 and is_running and _waiters.acquire(blocking=False):
        try:
            answer = _wait(context, request.id, wait_seconds)
        finally:
            _waiters.release()
        context.forget()
    return RequestStatus(
        request=request.id,
        job=request.job_id,
        is_answered=answer is not None,
        answer=None if answer is None else _result(answer),
        run=None if answer is None else answer.run_id,
        is_scheduler_running=is_running,
    )


def _result(answer: Answer) -> RequestAnswer:
    return RequestAnswer(
        answer.cancelled, answer.planned, moment(answer.paused_at), answer.is_resumed, answer.is_superseded
    )


def _wait(context: Context, request_id: str, wait_seconds: float) -> Answer | None:
    """Wait for the scheduler's answer: look when it reports a change, and otherwise less and less often."""
    deadline, pause = time.monotonic() + wait_seconds, LOOK_SECONDS
    while True:
        seen = context.changes
        answer = answer_to(context.store, request_id)
        left = deadline - time.monotonic()
        if answer is not None or left <= 0:
            return answer
        context.wait_for_change(seen, min(pause, left))
        pause = min(2 * pause, LOOK_MAX_SECONDS)
        time.sleep(min(LOOK_SECONDS, max(deadline - time.monotonic(), 0)))  # many changes must not become many reads


def _is_same(known: Request, asked: Request) -> bool:
    """Whether two requests with one id are the same; the occurrences that a backfill chooses may change with time."""
    if (known.kind, known.job_id) != (asked.kind, asked.job_id):
        return False
    return known.kind is RequestKind.BACKFILL or known.payload == asked.payload


def _id(request_id: str) -> str:
    return request_id or f"request-{digest(secrets.token_hex(16))}"

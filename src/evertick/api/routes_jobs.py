"""The routes about jobs."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import Body as InBody
from fastapi import Query, Request
from pydantic import Field
from starlette.responses import PlainTextResponse, Response

from evertick.api.route_decorators import At, Body, JobId, Moment, RequestId, Routes, Text, Wait, Who, Words
from evertick.errors import NotFound
from evertick.model.lifecycle import JobStatus, Trigger
from evertick.model.policy import Missed
from evertick.operations import routes as table
from evertick.operations.bulk import ITEMS_MAX
from evertick.operations.protocol import enum_of, enums_of
from evertick.operations.results.bulk import Bulk, BulkAction, BulkItem
from evertick.operations.results.jobs import Durations, Graph, JobDetail, JobPage, JobSort, Rules, StepHistory
from evertick.operations.results.requests import (
    Backfill,
    BackfillProgress,
    Backfills,
    CancelledBackfill,
    Catchup,
    RequestStatus,
    Why,
)
from evertick.operations.results.schedule import Calendar, JobUpcoming
from evertick.operations.tokens import Role

routes = Routes("jobs")

PARAMS_MAX = 100
NOTE_MAX = 1_000


class TriggerBody(Body):
    params: dict[str, Annotated[str, Field(max_length=100_000)]] = Field(default_factory=dict, max_length=PARAMS_MAX)
    trigger: Literal["api", "manual"] = Field("api", description="`manual` if a person requests the run.")


class PauseBody(Body):
    note: str = Field("", max_length=NOTE_MAX)


class ResumeBody(Body):
    catchup: str | None = Field(None, max_length=20, description="`all`, `latest`, `first`, `none`; null: the policy.")


class BackfillBody(Body):
    start: str = Field(alias="from", max_length=64)
    end: str = Field(alias="to", max_length=64, description="Not included.")
    preview: bool = False
    only_missing: bool = True
    overlap: str = Field("wait", max_length=30, description="`wait`, or `parallel(n)`.")
    gap_seconds: float = Field(0.0, ge=0, le=86_400, description="Minimum time between two starts.")


class BulkBody(Body):
    action: BulkAction
    jobs: list[Annotated[str, Field(max_length=255)]] = Field(default_factory=list, max_length=ITEMS_MAX)
    runs: list[Annotated[str, Field(max_length=600)]] = Field(default_factory=list, max_length=ITEMS_MAX)
    start: str | None = Field(None, alias="from", max_length=64)
    end: str | None = Field(None, alias="to", max_length=64, description="Not included.")
    note: str = Field("", max_length=NOTE_MAX, description="Why jobs are paused.")
    preview: bool = False


@routes.serve(table.LIST_JOBS, Role.VIEWER)
def list_jobs(
    at: At,
    search: Text = "",
    tag: Words = [],  # noqa: B006
    state: Words = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Annotated[str | None, Query(max_length=255)] = None,
    sparkline: Annotated[int, Query(ge=0, le=50, description="How many of the last runs of each job to include.")] = 0,
    gone: Annotated[bool, Query(description="Include jobs whose definition was deleted.")] = False,
    sort: Annotated[JobSort, Query(description="`last` and `duration` are about the newest ended run.")] = JobSort.JOB,
    reverse: Annotated[bool, Query(description="Use the opposite order.")] = False,
) -> JobPage:
    """List jobs, with the number of jobs in each status."""
    statuses = enums_of("status", state, JobStatus)
    return at.operations.list_jobs(
        *(search, tag, statuses, limit, cursor), with_gone=gone, recent=sparkline, sort=sort, is_reversed=reverse
    )


@routes.serve(table.JOB, Role.VIEWER)
def get_job(at: At, job: JobId) -> JobDetail:
    """Get the status of a job and its definition."""
    return at.operations.job(job)


@routes.serve(table.EXPLAIN, Role.VIEWER)
def explain_job(at: At, job: JobId) -> Rules:
    """List every policy of a job, and where it was set."""
    return Rules(tuple(at.operations.explain(job)))


@routes.serve(table.GRAPH, Role.VIEWER)
def get_graph(at: At, job: JobId) -> Graph:
    """Get the steps of a job and their dependencies."""
    return at.operations.graph(job)


@routes.serve(table.JOB_UPCOMING, Role.VIEWER)
def list_job_upcoming(
    at: At,
    job: JobId,
    count: Annotated[int, Query(ge=1, le=1_000)] = 20,
    to: Moment = None,
    excluded: Annotated[bool, Query(description="Also occurrences that a calendar excludes.")] = False,
) -> JobUpcoming:
    """List the next occurrences of a job, and how changes of the clock affect them."""
    return at.operations.job_upcoming(job, count, to, excluded=excluded)


@routes.serve(table.WHY, Role.VIEWER)
def explain_occurrence(
    at: At,
    job: JobId,
    when: Annotated[str | None, Query(alias="at", max_length=64, description="Default: the newest occurrence.")] = None,
) -> Why:
    """Explain why an occurrence ran, was skipped, or waits."""
    return at.operations.why(job, when)


@routes.serve(table.JOB_CALENDAR, Role.VIEWER)
def get_job_calendar(
    at: At,
    job: JobId,
    start: Annotated[str | None, Query(alias="from", max_length=64)] = None,
    end: Annotated[str | None, Query(alias="to", max_length=64)] = None,
    zone: Annotated[str | None, Query(max_length=64)] = None,
) -> Calendar:
    """Get the outcomes of a job by day, and how often it is still due."""
    return at.operations.calendar(job, start, end, zone)


@routes.serve(table.DURATIONS, Role.VIEWER)
def get_durations(at: At, job: JobId, limit: Annotated[int, Query(ge=1, le=1_000)] = 200) -> Durations:
    """Get the durations of the last runs of a job, with percentiles."""
    return at.operations.durations(job, limit)


@routes.serve(table.STEP_HISTORY, Role.VIEWER)
def get_step_history(at: At, job: JobId, limit: Annotated[int, Query(ge=1, le=100)] = 40) -> StepHistory:
    """Get the result of each step in the last runs of a job, and the results of the job by weekday."""
    return at.operations.step_history(job, limit)


@routes.serve(table.CATCHUP, Role.VIEWER)
def preview_catchup(at: At, job: JobId, keep: Annotated[str | None, Query(max_length=20)] = None) -> Catchup:
    """Preview what a start or a resume would catch up now."""
    return at.operations.catchup(job, enum_of("choice", keep, Missed) if keep else None)


@routes.get(
    "/jobs/{job}/definition",
    Role.OPERATOR,
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_definition(at: At, job: JobId) -> Response:
    """Get the text of the file that defines a job."""
    from evertick.api.definitions import text_of

    text = text_of(at.operations.definition_of(job))
    if text is None:
        raise NotFound(f"job '{job}' is not defined in a file.")
    return PlainTextResponse(text)


@routes.serve(table.TRIGGER, Role.OPERATOR)
def trigger_job(
    at: At,
    who: Who,
    request: Request,
    request_id: RequestId,
    job: JobId,
    body: Annotated[TriggerBody | None, InBody()] = None,
    wait: Wait = 0,
) -> RequestStatus:
    """Run a job now; its overlap rule applies."""
    params = body.params if body else {}
    request.state.noted = {"params": sorted(params)}
    trigger = Trigger.MANUAL if who.is_page or (body and body.trigger == "manual") else Trigger.API
    return at.operations.trigger(job, params, trigger, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.serve(table.CANCEL_JOB, Role.OPERATOR)
def cancel_job(at: At, who: Who, request_id: RequestId, job: JobId, wait: Wait = 0) -> RequestStatus:
    """Cancel every open run of a job."""
    at.operations.require(job)
    return at.operations.cancel(job, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.serve(table.PAUSE, Role.OPERATOR)
def pause_job(
    at: At, who: Who, request_id: RequestId, job: JobId, body: PauseBody | None = None, wait: Wait = 0
) -> RequestStatus:
    """Pause a job."""
    note = body.note if body else ""
    return at.operations.pause(job, note, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.serve(table.RESUME, Role.OPERATOR)
def resume_job(
    at: At, who: Who, request_id: RequestId, job: JobId, body: ResumeBody | None = None, wait: Wait = 0
) -> RequestStatus:
    """Resume a job; `catchup` says which missed occurrences run."""
    keep = enum_of("choice", body.catchup, Missed) if body and body.catchup else None
    return at.operations.resume(job, keep, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.serve(table.BACKFILL, Role.OPERATOR)
def backfill_job(
    at: At, who: Who, request: Request, request_id: RequestId, job: JobId, body: BackfillBody, wait: Wait = 0
) -> Backfill:
    """Run past occurrences of a job, or preview them."""
    request.state.noted = {"from": body.start, "to": body.end, "preview": body.preview}
    request.state.is_preview = body.preview
    return at.operations.backfill(
        job,
        body.start,
        body.end,
        body.only_missing,
        body.overlap,
        body.gap_seconds,
        body.preview,
        request_id=request_id,
        by=who.name,
        wait_seconds=wait,
    )


@routes.serve(table.BACKFILLS, Role.VIEWER)
def list_backfills(at: At, job: JobId, limit: Annotated[int, Query(ge=1, le=50)] = 10) -> Backfills:
    """List the backfills of a job: those in progress, then the newest."""
    return Backfills(tuple(at.operations.backfills(job, limit)))


@routes.serve(table.BACKFILL_PROGRESS, Role.VIEWER)
def get_backfill(at: At, job: JobId, request: str) -> BackfillProgress:
    """Get the progress of a backfill."""
    return at.operations.backfill_progress(job, request)


@routes.serve(table.CANCEL_BACKFILL, Role.OPERATOR)
def cancel_backfill(
    at: At, who: Who, request_id: RequestId, job: JobId, request: str, wait: Wait = 0
) -> CancelledBackfill:
    """Cancel the runs of a backfill that have not ended."""
    return at.operations.cancel_backfill(job, request, request_id=request_id, by=who.name, wait_seconds=wait)


_VERBS = {BulkAction.RUN: "trigger", BulkAction.RETRY_FAILED: "retry"}
"""Actions whose route has another name."""


@routes.serve(table.BULK, Role.OPERATOR)
def act_on_many(at: At, who: Who, request: Request, request_id: RequestId, body: BulkBody) -> Bulk:
    """Act on many jobs or runs at once, or preview what that does to each; the audit log has a line for each."""
    request.state.noted = {"action": body.action, "jobs": len(body.jobs), "runs": len(body.runs)}
    request.state.is_preview = body.preview
    address = request.client.host if request.client else "unknown"

    def audit(item: BulkItem) -> None:
        subject = ("runs", "run", item.run) if item.run else ("jobs", "job", item.job)
        verb = _VERBS.get(body.action, body.action)
        route = f"POST {table.PREFIX}/{subject[0]}/{{{subject[1]}}}/{verb}"
        target = f"{table.PREFIX}/{subject[0]}/{quote(str(subject[2]), safe='')}/{verb}"
        outcome = "409" if item.obstacle else "200"
        detail = {"bulk": request_id, **({"from_failed": True} if body.action is BulkAction.RETRY_FAILED else {})}
        at.audit.write(who.name, route, target, origin=address, outcome=outcome, detail=detail)

    return at.operations.bulk(
        body.action,
        body.jobs,
        body.runs,
        body.start,
        body.end,
        body.note,
        body.preview,
        request_id=request_id,
        by=who.name,
        audit=audit,
    )


@routes.serve(table.ANSWER, Role.VIEWER)
def get_request(at: At, request: str, wait: Wait = 0) -> RequestStatus:
    """Get the status of a request."""
    return at.operations.answer(request, wait)

"""The routes about jobs: look at them, and have them do something."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Body, Query, Request
from pydantic import Field
from starlette.responses import PlainTextResponse, Response

from evertick.api import models_asked, models_jobs, models_time
from evertick.api.models_base import Shape
from evertick.api.route_decorators import At, JobId, Moment, RequestId, Routes, Text, Wait, Who, Words, items
from evertick.errors import NotFound
from evertick.operations.tokens import Role

routes = Routes("jobs")

PARAMS_MAX = 100
NOTE_MAX = 1_000


class TriggerBody(Shape):
    params: dict[str, Annotated[str, Field(max_length=100_000)]] = Field(default_factory=dict, max_length=PARAMS_MAX)
    trigger: Literal["api", "manual"] = Field("api", description="Whether a program asks, or a person through one.")


class PauseBody(Shape):
    note: str = Field("", max_length=NOTE_MAX)


class ResumeBody(Shape):
    catchup: str | None = Field(None, max_length=20, description="`all`, `latest`, `first`, `none`; null: its policy.")


class BackfillBody(Shape):
    start: str = Field(alias="from", max_length=64)
    end: str = Field(alias="to", max_length=64, description="Not included.")
    preview: bool = False
    only_missing: bool = True
    overlap: str = Field("wait", max_length=30, description="`wait`, or `parallel(n)`.")
    gap_seconds: float = Field(0.0, ge=0, le=86_400, description="The least time between two starts.")


@routes.get("/jobs", Role.VIEWER, models_jobs.JobPage, response_model_exclude_unset=True)
def list_jobs(
    at: At,
    search: Text = "",
    tag: Words = [],  # noqa: B006
    state: Words = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    cursor: Annotated[str | None, Query(max_length=255)] = None,
    sparkline: Annotated[int, Query(ge=0, le=50, description="So many of the last runs of each.")] = 0,
    gone: Annotated[bool, Query(description="Also jobs whose definition is gone.")] = False,
) -> Any:
    """A page of jobs by their ids, and how many stand how."""
    return at.operations.list_jobs(search, tag, state, limit, cursor, with_gone=gone, recent=sparkline)


@routes.get("/jobs/{job}", Role.VIEWER, models_jobs.JobDetail)
def get_job(at: At, job: JobId) -> Any:
    """How one job stands, and what its definition says."""
    return at.operations.job(job)


@routes.get("/jobs/{job}/explain", Role.VIEWER, models_jobs.Rules)
def explain_job(at: At, job: JobId) -> Any:
    """Every rule the job runs under, and where each was written."""
    return items(at.operations.explain(job))


@routes.get("/jobs/{job}/graph", Role.VIEWER, models_jobs.Graph)
def get_graph(at: At, job: JobId) -> Any:
    """The steps of a job and what they wait for."""
    return at.operations.graph(job)


@routes.get("/jobs/{job}/upcoming", Role.VIEWER, models_time.JobUpcoming)
def list_job_upcoming(at: At, job: JobId, count: Annotated[int, Query(ge=1, le=1_000)] = 20, to: Moment = None) -> Any:
    """When a job is due next, and what changes of the clock do to it."""
    return at.operations.upcoming(job, count, to)


@routes.get("/jobs/{job}/why", Role.VIEWER, models_asked.Why)
def explain_occurrence(
    at: At,
    job: JobId,
    when: Annotated[str | None, Query(alias="at", max_length=64, description="Without it: the newest.")] = None,
) -> Any:
    """What became of an occurrence, and why."""
    return at.operations.why(job, when)


@routes.get("/jobs/{job}/calendar", Role.VIEWER, models_time.Calendar)
def get_job_calendar(
    at: At,
    job: JobId,
    start: Annotated[str | None, Query(alias="from", max_length=64)] = None,
    end: Annotated[str | None, Query(alias="to", max_length=64)] = None,
    zone: Annotated[str | None, Query(max_length=64)] = None,
) -> Any:
    """How each day of a job was, and how often it is still to come."""
    return at.operations.calendar(job, start, end, zone)


@routes.get("/jobs/{job}/durations", Role.VIEWER, models_jobs.Durations)
def get_durations(at: At, job: JobId, limit: Annotated[int, Query(ge=1, le=1_000)] = 200) -> Any:
    """How long its last runs took, and what is usual."""
    return at.operations.durations(job, limit)


@routes.get("/jobs/{job}/catchup", Role.VIEWER, models_asked.Catchup)
def preview_catchup(at: At, job: JobId, keep: Annotated[str | None, Query(max_length=20)] = None) -> Any:
    """What a start now, or a resume, would catch up."""
    return at.operations.catchup(job, keep)


@routes.get(
    "/jobs/{job}/definition",
    Role.OPERATOR,
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
def get_definition(at: At, job: JobId) -> Response:
    """The text of the file that defines a job."""
    from evertick.api.definitions import text_of

    text = text_of(at.operations.definition_of(job))
    if text is None:
        raise NotFound(f"job '{job}' is not defined in a file.")
    return PlainTextResponse(text)


@routes.post("/jobs/{job}/trigger", Role.OPERATOR, models_asked.Asked)
def trigger_job(
    at: At,
    who: Who,
    request: Request,
    request_id: RequestId,
    job: JobId,
    body: Annotated[TriggerBody | None, Body()] = None,
    wait: Wait = 0,
) -> Any:
    """Run a job now; the run meets the job's overlap rule like any other."""
    params = body.params if body else {}
    request.state.noted = {"params": sorted(params)}
    trigger = "manual" if who.is_page else body.trigger if body else "api"
    return at.operations.trigger(job, params, trigger, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.post("/jobs/{job}/cancel", Role.OPERATOR, models_asked.Asked)
def cancel_job(at: At, who: Who, request_id: RequestId, job: JobId, wait: Wait = 0) -> Any:
    """End every run of a job that has not ended."""
    at.operations.require(job)
    return at.operations.cancel(job, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.post("/jobs/{job}/pause", Role.OPERATOR, models_asked.Asked)
def pause_job(
    at: At, who: Who, request_id: RequestId, job: JobId, body: PauseBody | None = None, wait: Wait = 0
) -> Any:
    """Plan nothing more for a job until it is resumed."""
    note = body.note if body else ""
    return at.operations.pause(job, note, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.post("/jobs/{job}/resume", Role.OPERATOR, models_asked.Asked)
def resume_job(
    at: At, who: Who, request_id: RequestId, job: JobId, body: ResumeBody | None = None, wait: Wait = 0
) -> Any:
    """Plan a paused job again, and say what becomes of what was due meanwhile."""
    keep = body.catchup if body else None
    return at.operations.resume(job, keep, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.post("/jobs/{job}/backfill", Role.OPERATOR, models_asked.Backfill, response_model_exclude_unset=True)
def backfill_job(
    at: At, who: Who, request: Request, request_id: RequestId, job: JobId, body: BackfillBody, wait: Wait = 0
) -> Any:
    """Run past occurrences of a job, or show which they would be."""
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


@routes.get("/jobs/{job}/backfill", Role.VIEWER, models_asked.Backfills)
def list_backfills(at: At, job: JobId, limit: Annotated[int, Query(ge=1, le=50)] = 10) -> Any:
    """The backfills of a job: those that go on, then the newest."""
    return items(at.operations.backfills(job, limit))


@routes.get("/jobs/{job}/backfill/{request}", Role.VIEWER, models_asked.BackfillProgress)
def get_backfill(at: At, job: JobId, request: str) -> Any:
    """How far a backfill has come."""
    return at.operations.backfill_progress(job, request)


@routes.delete("/jobs/{job}/backfill/{request}", Role.OPERATOR, models_asked.CancelledBackfill)
def cancel_backfill(at: At, who: Who, request_id: RequestId, job: JobId, request: str, wait: Wait = 0) -> Any:
    """Cancel what is left of a backfill."""
    return at.operations.cancel_backfill(job, request, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.get("/requests/{request}", Role.VIEWER, models_asked.Asked)
def get_request(at: At, request: str, wait: Wait = 0) -> Any:
    """What became of something that was asked for."""
    return at.operations.answer(request, wait)

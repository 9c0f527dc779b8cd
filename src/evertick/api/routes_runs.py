"""The routes about runs and their logs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query, Request
from starlette.responses import Response, StreamingResponse

from evertick.api.route_decorators import At, Body, RequestId, Routes, RunId, Wait, Who, Words
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.operations import routes as table
from evertick.operations.protocol import RunQuery, enums_of
from evertick.operations.results.requests import RequestStatus, Why
from evertick.operations.results.runs import (
    GapPage,
    LogFiles,
    LogHits,
    LogText,
    LogTimes,
    RunDefinition,
    RunDetail,
    RunPage,
    RunSort,
)
from evertick.operations.tokens import Role

routes = Routes("runs")

Limit = Annotated[int, Query(ge=1, le=1_000)]
Cursor = Annotated[str | None, Query(max_length=600)]
JobName = Annotated[str | None, Query(max_length=255)]
Since = Annotated[str | None, Query(alias="from", max_length=64, description="Due at this time or later.")]
Until = Annotated[str | None, Query(alias="to", max_length=64, description="Due before this time.")]
StepName = Annotated[str, Path(max_length=300)]
Here = Annotated[bool, Query(description="Only logs on this node; other nodes are not asked.")]
LOG_MAX = 1 << 20
PIECE_BYTES = 128 * 1024
"""Bytes of a download read and sent at a time: the cost of a caller who does not read."""
_RANGE = re.compile(r"bytes=(\d{1,15})-(\d{1,15})?", re.ASCII)


class RetryBody(Body):
    from_failed: bool = False


@routes.serve(table.LIST_RUNS, Role.VIEWER)
def list_runs(
    at: At,
    job: JobName = None,
    state: Words = [],  # noqa: B006
    trigger: Words = [],  # noqa: B006
    trigger_type: Annotated[list[str], Query(alias="triggerType", max_length=50)] = [],  # noqa: B006
    reason: Words = [],  # noqa: B006
    tag: Words = [],  # noqa: B006
    since: Since = None,
    until: Until = None,
    executor: Annotated[str | None, Query(max_length=255)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
    sort: Annotated[
        RunSort, Query(description="`duration` and `lateness` compare the newest 5,000 entries that match.")
    ] = RunSort.DUE,
    reverse: Annotated[bool, Query(description="Use the opposite order.")] = False,
) -> RunPage:
    """List runs, skips and gaps, newest first unless `sort` is given. `triggerType` is an alias of `trigger`."""
    query = RunQuery(
        job=job,
        states=enums_of("state", state, RunState),
        triggers=enums_of("trigger", [*trigger, *trigger_type], Trigger),
        reasons=enums_of("reason", reason, SkipReason),
        tags=tag,
        since=since,
        until=until,
        executor=executor,
        sort=sort,
        is_reversed=reverse,
    )
    return at.operations.list_runs(query, limit, cursor)


@routes.serve(table.GAPS, Role.VIEWER)
def list_gaps(
    at: At, job: JobName = None, since: Since = None, until: Until = None, limit: Limit = 100, cursor: Cursor = None
) -> GapPage:
    """List gaps, newest first: consecutive occurrences that were skipped together."""
    return at.operations.gaps(job, since, until, limit, cursor)


@routes.serve(table.RUN, Role.VIEWER)
def get_run(at: At, run: RunId) -> RunDetail:
    """Get a run with its attempts, steps and logs."""
    return at.operations.run(run)


@routes.serve(table.RUN_DEFINITION, Role.VIEWER)
def get_run_definition(
    at: At,
    run: RunId,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000, description="Default: the newest.")] = None,
) -> RunDefinition:
    """Get the job's definition when the run was launched, compared with the current one."""
    return at.operations.run_definition(run, attempt)


@routes.serve(table.WHY_RUN, Role.VIEWER)
def explain_run(at: At, run: RunId) -> Why:
    """Explain why a run has its outcome."""
    return at.operations.why_run(run)


@routes.serve(table.LIST_LOGS, Role.VIEWER)
def list_logs(at: At, run: RunId, here: Here = False) -> LogFiles:
    """List the logs of a run, by attempt and step."""
    return LogFiles(tuple(at.operations.list_logs(run, here_only=here)))


@routes.serve(table.READ_LOG, Role.VIEWER)
def read_log(
    at: At,
    request: Request,
    run: RunId,
    attempt: Annotated[int, Path(ge=0, le=1_000_000)],
    step: StepName,
    offset: Annotated[int, Query(ge=0, le=1 << 50)] = 0,
    limit: Annotated[int, Query(ge=1, le=LOG_MAX)] = 65_536,
    download: Annotated[
        bool, Query(description="The whole log as a file; a part of it with the header `Range`.")
    ] = False,
    lines: Annotated[bool, Query(description="Begin with a whole line, and return its number.")] = False,
    here: Here = False,
) -> LogText | Response:
    """Read a part of a log as text."""
    if download:
        return _download(at, run, attempt, step, request.headers.get("range", ""), here_only=here)
    return at.operations.read_log(run, attempt, step, offset, limit, lines=lines, here_only=here)


@routes.serve(table.LOG_TIMES, Role.VIEWER)
def log_times(
    at: At,
    run: RunId,
    attempt: Annotated[int, Path(ge=0, le=1_000_000)],
    step: StepName,
    offset: Annotated[int, Query(ge=0, le=1 << 50)] = 0,
    here: Here = False,
) -> LogTimes:
    """When a log was written, from an offset on."""
    return LogTimes(tuple(at.operations.log_times(run, attempt, step, offset, here_only=here)))


@routes.serve(table.SEARCH_LOG, Role.VIEWER)
def search_log(
    at: At,
    run: RunId,
    attempt: Annotated[int, Path(ge=0, le=1_000_000)],
    step: StepName,
    text: Annotated[str, Query(max_length=200)] = "",
    errors: Annotated[bool, Query(description="Find lines that look like errors, instead of a text.")] = False,
    line: Annotated[int | None, Query(ge=1, le=1 << 40, description="Find a line by its number.")] = None,
    here: Here = False,
) -> LogHits:
    """Find the lines of a log that contain a text, ignoring case and colours."""
    return at.operations.search_log(run, attempt, step, text, errors=errors, line=line, here_only=here)


@routes.serve(table.CANCEL_RUN, Role.OPERATOR)
def cancel_run(at: At, who: Who, request_id: RequestId, run: RunId, wait: Wait = 0) -> RequestStatus:
    """Cancel a run: one that has started gets SIGTERM, then SIGKILL."""
    return at.operations.cancel_run(run, request_id=request_id, by=who.name, wait_seconds=wait)


@routes.serve(table.RETRY, Role.OPERATOR)
def retry_run(
    at: At, who: Who, request_id: RequestId, run: RunId, body: RetryBody | None = None, wait: Wait = 0
) -> RequestStatus:
    """Re-run a past run with its parameters, completely or from the failed step on."""
    from_failed = body.from_failed if body else False
    return at.operations.retry(run, from_failed, request_id=request_id, by=who.name, wait_seconds=wait)


def _download(at: At, run: str, attempt: int, step: str, wanted: str, *, here_only: bool) -> Response:
    """The whole log as it is now, or the part that a `Range` names; other forms of `Range` return all of it."""
    run = at.operations.find_run(run).key.run_id  # once: the job's latest run may change at any moment
    size = at.operations.read_log(run, attempt, step, 0, 1, here_only=here_only).size
    part = _RANGE.fullmatch(wanted)
    begin, end = (int(part[1]), min(int(part[2] or size), size - 1) + 1) if part else (0, size)
    # Before anything is sent: the log may not exist.
    first = at.operations.log_bytes(run, attempt, step, min(begin, size), PIECE_BYTES, here_only=here_only)
    if part and begin >= end:
        return Response(status_code=416, headers={"content-range": f"bytes */{size}"})

    def pieces() -> Iterator[bytes]:
        data, offset, _ = first
        while data:
            yield data[: end - (offset - len(data))]
            if offset >= end:
                return
            data, offset, _ = at.operations.log_bytes(run, attempt, step, offset, PIECE_BYTES, here_only=here_only)

    name = quote(f"{run}.{attempt}.{step}.log", safe="")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}", "accept-ranges": "bytes"}
    if part:
        headers["content-range"] = f"bytes {begin}-{end - 1}/{size}"
    return StreamingResponse(pieces(), 206 if part else 200, headers, media_type="text/plain; charset=utf-8")

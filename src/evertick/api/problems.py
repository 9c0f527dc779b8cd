"""Errors over HTTP: problem+json, with the same texts as everywhere."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import Response

from evertick.errors import (
    AuditUnavailable,
    Conflict,
    DefinitionError,
    EvertickError,
    ExecutorUnavailable,
    InvalidArgument,
    NotFound,
    SchedulerLockError,
    SettingsError,
    StoreError,
    StoreUnavailable,
)
from evertick.operations.codec import to_data
from evertick.operations.log_files import LogUnavailable
from evertick.operations.log_queries import absent_log

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An error as defined by RFC 9457; further members have its fields."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str


# The first match counts.
STATUSES: tuple[tuple[type[EvertickError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (SchedulerLockError, 409),
    (DefinitionError, 422),
    (InvalidArgument, 422),
    (ExecutorUnavailable, 503),
    (AuditUnavailable, 503),
    (StoreUnavailable, 503),
    (StoreError, 500),
    (SettingsError, 500),
)


def problem(status: int, detail: str, *, headers: dict[str, str] | None = None, **more: object) -> Response:
    """A response that says what is wrong; `more` are members for programs."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, status, headers=headers, media_type=MEDIA_TYPE)


def status_of(error: EvertickError) -> int:
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def of_error(error: EvertickError) -> Response:
    """One of our own errors, with the fields it carries."""
    more: dict[str, object] = {}
    if isinstance(error, (DefinitionError, InvalidArgument)):
        more = {
            name: value
            for name in ("reason", "field", "hint", "file", "line", "column")
            if (value := getattr(error, name, None)) is not None
        }
    elif isinstance(error, NotFound) and error.suggestions:
        more = {"reason": error.reason, "suggestions": list(error.suggestions)}
    elif isinstance(error, LogUnavailable):
        more = {"absent_log": to_data(absent_log(error.absent))}
    headers = {"retry-after": "5"} if isinstance(error, StoreUnavailable) else None
    return problem(status_of(error), str(error), headers=headers, **more)


def _fault(found: ErrorDetails) -> dict[str, str]:
    """What is wrong with one part of a request, and which part."""
    place, *rest = map(str, found["loc"])
    if found["type"] == "json_invalid":
        # Its position is a number of characters, not a field.
        return {"field": "", "in": place, "reason": f"it is not JSON ({found['ctx']['error']})"}
    if found["type"] == "extra_forbidden":
        return {"field": ".".join(rest), "in": place, "reason": "unknown field"}
    return {"field": ".".join(rest), "in": place, "reason": str(found["msg"])}


def _methods_of(request: Request) -> list[str]:
    """The methods of all routes of a path: the router reports only those of the first."""
    routes = [route for route in request.app.routes if isinstance(route, APIRoute)]
    found = {method for route in routes if route.path_regex.match(request.url.path) for method in route.methods or ()}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def install(app: FastAPI) -> None:
    """Return all errors that handlers raise in this form."""

    async def on_ours(_: Request, error: Exception) -> Response:
        assert isinstance(error, EvertickError)
        return of_error(error)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        told = str(error.detail)
        if error.status_code == 405:
            allowed = headers["Allow"] = ", ".join(_methods_of(request))
            told = f"{request.method} is not allowed for {request.url.path}. Allowed: {allowed}."
        return problem(error.status_code, told, headers=headers)

    async def on_invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        wrong = [_fault(one) for one in error.errors()]
        told = "; ".join(f"{one['field'] or one['in']}: {one['reason']}" for one in wrong)
        return problem(422, f"invalid request: {told}.", errors=wrong)

    async def on_fault(_: Request, error: Exception) -> Response:
        """A bug of ours: the log has the details, the response does not."""
        return problem(500, f"internal error ({type(error).__name__}). See the server's log, and report it as a bug.")

    app.add_exception_handler(Exception, on_fault)
    app.add_exception_handler(EvertickError, on_ours)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)

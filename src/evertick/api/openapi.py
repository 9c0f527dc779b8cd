"""The description of the API, as it is served and committed: OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from evertick.api.problems import MEDIA_TYPE, Problem

ABOUT = """Read and control the scheduler. Names are the same as in `evertick -o json` and in the library.

Times are RFC 3339 in UTC. A list is in `items`; long lists have pages: pass `next` of a page as `cursor`.
Errors are problem+json. A POST that is repeated with the same `Idempotency-Key` takes effect once. `x-role` of an
operation is the lowest role that may use it (viewer < operator < editor < admin)."""

ERRORS = {
    "400": "The request is malformed.",
    "401": "The token is missing or invalid.",
    "403": "The role does not permit this.",
    "404": "The job, run or other resource does not exist.",
    "405": "The method is not allowed.",
    "409": "The current state does not allow this.",
    "413": "The request is too large.",
    "421": "The host name is not in the setting `api.allowed_hosts`.",
    "422": "The request is invalid; the response says why.",
    "429": "Too many failed attempts.",
    "500": "An internal error.",
    "503": "The ledger is unavailable, or the server is busy.",
}

PARAMETERS = {
    "attempt": "The number of the attempt, from 1.",
    "count": "Maximum number of occurrences.",
    "cursor": "`next` of the previous page.",
    "executor": "The name of an executor, such as `local` or `fleet`.",
    "expression": "A cron expression with five or six fields.",
    "from": "Start of the period, inclusive. RFC 3339, or relative.",
    "job": "The id of a job.",
    "keep": "`all`, `latest`, `first` or `none`; default: the job's catch-up rule.",
    "kind": "The format of the text.",
    "limit": "Maximum number of items; for a log, of bytes.",
    "member": "The name of a member of the fleet.",
    "node": "The name of a node.",
    "offset": "How many items to leave out; for a log, bytes.",
    "reason": "Only occurrences skipped for this reason; repeatable.",
    "request": "The id of a request.",
    "search": "Only jobs whose name, description or tags contain this text.",
    "state": "Only in this state; repeatable.",
    "step": "The name of a step.",
    "tag": "Only jobs with this tag; repeatable.",
    "text": "The text to find.",
    "timezone": "IANA name of a time zone; default: that of the settings.",
    "to": "End of the period. RFC 3339, or relative.",
    "token": "The secret in the URL of the badge.",
    "trigger": "Only runs with this trigger; repeatable.",
    "triggerType": "Alias of `trigger`.",
    "zone": "IANA name of the time zone in which days begin; default: that of the job or of the settings.",
}
"""What a parameter means where its route does not say more."""


def describe(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = _described(app)
    return app.openapi_schema


def _described(app: FastAPI) -> dict[str, object]:
    found = get_openapi(
        title="Evertick",
        version="1",
        openapi_version="3.1.0",
        description=ABOUT,
        routes=app.routes,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    parts = found.setdefault("components", {})
    schemas = parts.setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "Create one with `evertick token create`."},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": "evertick_session",
            "description": "The session of the web interface.",
        },
    }
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    parts["responses"] = {
        f"Problem{status}": {"description": about, "content": content} for status, about in ERRORS.items()
    }
    for path in found["paths"].values():
        for operation in path.values():
            _complete(operation)
    found["paths"] = dict(sorted(found["paths"].items()))
    parts["schemas"] = dict(sorted(schemas.items()))
    return found


def _complete(operation: dict[str, Any]) -> None:
    if operation.get("description") == operation["summary"]:
        del operation["description"]
    for parameter in operation.get("parameters", ()):
        if "description" not in parameter and parameter["name"] in PARAMETERS:
            parameter["description"] = PARAMETERS[parameter["name"]]
    for status in ERRORS:
        operation["responses"][status] = {"$ref": f"#/components/responses/Problem{status}"}
    if operation.get("x-role") != "open":
        operation["security"] = [{"token": []}, {"session": []}]

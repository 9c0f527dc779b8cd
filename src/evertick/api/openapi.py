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
    for status in ERRORS:
        operation["responses"][status] = {"$ref": f"#/components/responses/Problem{status}"}
    if operation.get("x-role") != "open":
        operation["security"] = [{"token": []}, {"session": []}]

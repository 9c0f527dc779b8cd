"""The description of the API, as it is served and committed: OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from evertick.api.problems import MEDIA_TYPE, Problem

ABOUT = """Everything that people can ask and do, as plain data: the same names as `evertick -o json` and the library.

Times are RFC 3339 in UTC. Lists are `items`; long ones come in pages with `next`, to be handed back as `cursor`.
Errors are problem+json. `Idempotency-Key` on a POST makes asking twice asking once. Each operation has an `x-role`:
the least role that may use it (viewer < operator < editor < admin)."""

ERRORS = {
    "400": "The request cannot be read.",
    "401": "No token, or an invalid one.",
    "403": "The role may not do this.",
    "404": "There is no such thing.",
    "405": "Not with this method.",
    "409": "It cannot be done in the present state.",
    "413": "The request is too large.",
    "421": "The server does not answer to that name.",
    "422": "Something in the request is wrong; it says what.",
    "429": "Too many failed attempts.",
    "500": "A fault of Evertick.",
    "503": "The ledger is away, or the server is busy.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        app.openapi_schema = _described(app)
    return app.openapi_schema


def _described(app: FastAPI) -> dict[str, Any]:
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
        "token": {"type": "http", "scheme": "bearer", "description": "evertick token create"},
        "session": {"type": "apiKey", "in": "cookie", "name": "evertick_session", "description": "The page's own."},
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

"""Declares a route: a function with its role, whose return type is what OpenAPI describes.

A route without a role cannot be declared.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from fastapi import Depends, FastAPI, Header, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from evertick.api.app_state import AppState, Caller
from evertick.api.auth import OPEN, PART
from evertick.errors import InvalidArgument
from evertick.model.ids import digest
from evertick.operations.codec import to_json
from evertick.operations.results.base import Result
from evertick.operations.routes import PREFIX, WAIT_SECONDS_MAX, Route
from evertick.operations.tokens import Role

_NAMES = re.compile(r"\{(\w+)\}")

Handler = TypeVar("Handler", bound=Callable[..., object])


async def app_state_of(request: Request) -> AppState:
    app_state: AppState = request.state.app_state
    return app_state


async def caller_of(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


async def request_id_of(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            max_length=200,
            description="A request that is repeated with the same key by the same caller takes effect once.",
        ),
    ] = None,
) -> str:
    """The id of the request in the ledger; empty, and then made when it is submitted, without a key."""
    if not idempotency_key:
        return ""
    caller: Caller | None = request.state.caller
    whose = caller.token_id if caller else ""
    text = "\n".join((whose, request.method, request.url.path, idempotency_key))
    return f"api-{digest(text)}"


async def no_strangers(request: Request) -> None:
    """Reject unknown query parameters; a misspelled filter would match everything."""
    route: APIRoute = request.scope["route"]
    known = {field.alias for field in route.dependant.query_params}
    strangers = sorted(set(request.query_params) - known)
    if strangers:
        raise InvalidArgument(
            f"unknown parameter {strangers[0]!r}.",
            hint=f"Known parameters: {', '.join(sorted(known))}." if known else "This operation has no parameters.",
            field=strangers[0],
        )


At = Annotated[AppState, Depends(app_state_of)]
Who = Annotated[Caller, Depends(caller_of)]
RequestId = Annotated[str, Depends(request_id_of)]
JobId = Annotated[str, Path(max_length=255, description="The id of a job.")]
RunId = Annotated[
    str,
    Path(
        max_length=600,
        description="The id of a run (`job@time`, or `job@time~request`), a unique prefix of it, or the id of a job "
        "for its latest run.",
    ),
]
Wait = Annotated[
    float, Query(ge=0, le=WAIT_SECONDS_MAX, description="Seconds to wait for the scheduler's answer; 0: do not wait.")
]
Words = Annotated[list[str], Query(max_length=50)]
Text = Annotated[str, Query(max_length=200)]
Moment = Annotated[
    str | None,
    Query(
        max_length=64,
        description="RFC 3339; without an offset, in the job's time zone. Or relative: `yesterday`, `-2d`, `1h`.",
    ),
]


class Body(BaseModel):
    """The base of every request body."""

    model_config = ConfigDict(extra="forbid")


class Routes:
    """The routes of one subject."""

    def __init__(self, tag: str, prefix: str = PREFIX) -> None:
        self._tag = tag
        self._prefix = prefix
        self._routes: list[tuple[Callable[..., object], dict[str, Any]]] = []

    def serve(self, route: Route[Result], role: Role, **options: object) -> Callable[[Handler], Handler]:
        """Serve a route of the table that `evertick.Client` calls."""
        return self._add(route.method, route.path, role, options)

    def get(self, path: str, role: Role | None, **options: object) -> Callable[[Handler], Handler]:
        return self._add("GET", path, role, options)

    def post(self, path: str, role: Role | None, **options: object) -> Callable[[Handler], Handler]:
        return self._add("POST", path, role, options)

    def put(self, path: str, role: Role | None, **options: object) -> Callable[[Handler], Handler]:
        return self._add("PUT", path, role, options)

    def delete(self, path: str, role: Role | None, **options: object) -> Callable[[Handler], Handler]:
        return self._add("DELETE", path, role, options)

    def install(self, app: FastAPI, *, is_described: bool) -> None:
        for handler, one in self._routes:
            app.add_api_route(**one, response_model=_result_type(handler) if is_described else None)

    def _add(
        self, method: str, path: str, role: Role | None, options: dict[str, object]
    ) -> Callable[[Handler], Handler]:
        def add(handler: Handler) -> Handler:
            declared = {
                "path": _NAMES.sub(rf"{{\1:{PART}}}", self._prefix + path),
                "endpoint": _answering(handler, is_quick=method == "GET"),
                "methods": [method],
                "tags": [self._tag],
                "operation_id": handler.__name__,
                "summary": (inspect.getdoc(handler) or "").partition("\n")[0],
                "description": inspect.getdoc(handler) or "",
                "openapi_extra": {"x-role": OPEN if role is None else str(role)},
                # A caller without a token uses an address from elsewhere, perhaps with parameters added to it.
                "dependencies": [] if role is None else [Depends(no_strangers)],
                **options,
            }
            self._routes.append((handler, declared))
            return handler

        return add


def _result_type(handler: Callable[..., object]) -> type[Result] | None:
    """The result type of a handler, alone or beside a response."""
    returned = get_type_hints(handler)["return"]
    kinds = [one for one in (returned, *get_args(returned)) if isinstance(one, type) and issubclass(one, Result)]
    return kinds[0] if kinds else None


def _answering(handler: Callable[..., Any], *, is_quick: bool) -> Callable[..., object]:
    """The handler with its result encoded by `codec`, which is faster than validating it again on the way out."""
    names = inspect.signature(handler).parameters
    # A caller that waits for the scheduler must not occupy the place of one that could continue.
    is_limited = is_quick and "at" in names and "wait" not in names
    if asyncio.iscoroutinefunction(handler):

        @functools.wraps(handler)
        async def answer_async(*args: object, **known: object) -> Response:
            return respond(await handler(*args, **known))

        return answer_async

    @functools.wraps(handler)
    def answer(*args: object, **known: object) -> Response:
        if not is_limited:
            return respond(handler(*args, **known))
        app_state = known["at"]
        assert isinstance(app_state, AppState)
        with app_state.loop_priority:
            return respond(handler(*args, **known))

    return answer


def respond(result: Result | Response) -> Response:
    return result if isinstance(result, Response) else Response(to_json(result), media_type="application/json")

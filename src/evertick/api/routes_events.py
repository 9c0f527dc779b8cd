"""The route that streams events: server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header, Request
from starlette.responses import Response, StreamingResponse

from evertick.api.feed import LISTENERS_MAX, Feed
from evertick.api.problems import problem
from evertick.api.route_decorators import At, Routes
from evertick.operations.tokens import Role

routes = Routes("events")


@routes.get(
    "/events",
    Role.VIEWER,
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_events(
    at: At,
    request: Request,
    last_event_id: Annotated[
        str | None,
        Header(max_length=40, description="The id of the last event received; the stream continues after it."),
    ] = None,
) -> Response:
    """Stream events: `run`, `gap`, `job`, `node`, `time`, `alarm`.

    `reset` means that events were lost: reload what you show. Without events, a `beat` is sent every 15 seconds.
    """
    if at.feed.listeners >= LISTENERS_MAX:
        return problem(503, f"the limit of {LISTENERS_MAX} listeners is reached.", headers={"retry-after": "30"})
    headers = {"x-accel-buffering": "no", "cache-control": "no-store"}
    if request.state.is_head:
        return Response(media_type="text/event-stream", headers=headers)
    return StreamingResponse(_lines(at.feed, last_event_id), media_type="text/event-stream", headers=headers)


async def _lines(feed: Feed, last_event_id: str | None) -> AsyncIterator[bytes]:
    start, _, number = (last_event_id or "").partition("-")
    is_ours = start == feed.name and number.isascii() and number.isdigit() and len(number) < 20
    # A number from another start of this server is unknown here.
    after = int(number) if is_ours else -1 if last_event_id else None
    yield b"retry: 3000\n\n"
    async for some in feed.gather(after):
        yield b"".join(map(feed.written, some)) or b"event: beat\ndata: {}\n\n"

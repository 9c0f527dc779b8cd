"""Which answers are compressed.

The length of a compressed answer tells what it repeats: a secret beside text that a stranger chose can be guessed
letter by letter. So only what is read is compressed, and never an answer that holds a secret.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from functools import lru_cache
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST: Final = 1_024
"""Bytes; a smaller answer fits into a packet as it is."""
LEVEL: Final = 5
BESIDE: Final = 32 * 1_024
"""Bytes from which on a thread compresses: the event loop must not stand still for a month of the timeline."""
TYPES: Final = ("application/json", "application/javascript", "application/manifest+json", "image/svg+xml", "text/")
SECRET: Final = re.compile(r"^/api/v1/(session|tokens|jobs/[^/]+/badge)(/|$)")
"""Paths whose answers hold a secret: the key of a session's forms, a new token, the signed address of a badge."""


class Compressing:
    """Compresses answers that come in one piece. Streams pass as they are: an event must not wait for the next."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or SECRET.match(scope["path"]):
            await self._app(scope, receive, send)
            return
        is_wanted = accepts_gzip(Headers(scope=scope).get("accept-encoding", ""))
        start: Message | None = None

        async def sending(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message  # held back until it is known how long the answer is
                return
            if start is not None:
                head, start = start, None
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    message = await _packed(head, message, is_wanted=is_wanted)
                await send(head)
            await send(message)

        await self._app(scope, receive, sending)


def accepts_gzip(written: str) -> bool:
    """Whether an Accept-Encoding header names gzip, and not as unwanted."""
    for part in written.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def _packed(head: Message, message: Message, *, is_wanted: bool) -> Message:
    """The body compressed where that is worth it, and the headers changed with it."""
    headers, body = MutableHeaders(raw=head.setdefault("headers", [])), message.get("body", b"")
    if not headers.get("content-type", "").startswith(TYPES) or "content-encoding" in headers:
        return message
    headers.add_vary_header("Accept-Encoding")
    if not is_wanted or len(body) < LEAST or head["status"] != 200:
        return message
    etag = headers.get("etag")
    if etag is not None:  # a file of the page, which is the same for every user
        headers["etag"] = etag if etag.startswith("W/") else f"W/{etag}"
        packed = _packed_file(body)
    else:
        packed = gzipped(body) if len(body) < BESIDE else await asyncio.to_thread(gzipped, body)
    headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(packed))
    return {**message, "body": packed}


@lru_cache(maxsize=64)
def _packed_file(body: bytes) -> bytes:
    return gzipped(body)


def gzipped(body: bytes) -> bytes:
    packer = zlib.compressobj(LEVEL, wbits=31)
    return packer.compress(body) + packer.flush()

"""Which responses are compressed.

The length of a compressed response reveals what it repeats: a secret beside text that an attacker chooses can be
guessed letter by letter. So only reads are compressed, and never a response that contains a secret.
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
"""Bytes; a smaller response fits into a packet uncompressed."""
LEVEL: Final = 5
BESIDE: Final = 32 * 1_024
"""Bytes from which on a thread compresses: a month of the timeline must not block the event loop."""
TYPES: Final = ("application/json", "application/javascript", "application/manifest+json", "image/svg+xml", "text/")
SECRET: Final = re.compile(r"^/api/v1/(session|tokens|jobs/[^/]+/badge)(/|$)")
"""Paths whose responses contain a secret: the key of a session's forms, a new token, the signed URL of a badge."""


class Compressing:
    """Compresses responses that are sent in one piece.

    Streams are not compressed: an event must not wait for the next.
    """

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
                start = message  # held back until the length of the response is known
                return
            if start is not None:
                head, start = start, None
                if message["type"] == "http.response.body" and not message.get("more_body"):
                    message = await _packed(head, message, is_wanted=is_wanted)
                await send(head)
            await send(message)

        await self._app(scope, receive, sending)


def accepts_gzip(written: str) -> bool:
    """Whether an Accept-Encoding header accepts gzip."""
    for part in written.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def _packed(head: Message, message: Message, *, is_wanted: bool) -> Message:
    """The body, compressed if that is worth it, and the headers to match."""
    headers, body = MutableHeaders(raw=head.setdefault("headers", [])), message.get("body", b"")
    if not headers.get("content-type", "").startswith(TYPES) or "content-encoding" in headers:
        return message
    headers.add_vary_header("Accept-Encoding")
    if not is_wanted or len(body) < LEAST or head["status"] not in (200, 226):
        return message
    etag = headers.get("etag", "W/")
    if not etag.startswith("W/"):  # a file of the page, which is the same for every user
        headers["etag"] = f"W/{etag}"
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

"""Sends a client that has an answer already only what has changed, or that nothing has.

Each JSON answer has an entity tag: a digest of all that it says but the current time, which is its first field. A
request that names the tag (`If-None-Match`) gets 304 while the answer is the same. The question is always asked, so a
304 is as true as the answer would be.

A client that also sends `A-IM: evertick-delta` gets, where that is shorter, 226 with the changes since the answer that
it has (RFC 3229; `delta.py` has the form). For this the last answers are kept, within `KEPT_BYTES`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evertick.api.compression import SECRET
from evertick.api.delta import delta_of

MANIPULATION: Final = "evertick-delta"
NOW: Final = "now"
TIMED: Final = b'{"now":'
"""How an answer begins that holds the current time."""
KEPT_BYTES: Final = 8 << 20
KEPT_EACH_BYTES: Final = 512 << 10
"""Comparing a larger answer would take longer than sending it."""
DELTA_LEAST: Final = 1_024
"""Bytes of an answer from which on changes are looked for."""

_TAG = re.compile(r'(?:W/)?("[^"]*")')


class Revalidating:
    """Adds entity tags to the JSON answers of the API, and shortens those that the client has."""

    def __init__(self, app: ASGIApp, key: bytes) -> None:
        self._app = app
        self._key = key[:64]
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope["path"])
        if scope["type"] != "http" or scope["method"] != "GET" or not path.startswith("/api/") or SECRET.match(path):
            await self._app(scope, receive, send)
            return
        headers, start = Headers(scope=scope), None

        async def sending(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_tagged(message):
                start = message
                return
            if start is not None:
                head, start = start, None
                if not message.get("more_body"):
                    message = await self._shortened(headers, head, message)
                await send(head)
            await send(message)

        await self._app(scope, receive, sending)

    async def _shortened(self, asked: Headers, head: Message, message: Message) -> Message:
        """What the client lacks of an answer; changes its head to match."""
        body: bytes = message.get("body", b"")
        tag, known = self._tag_of(body), list(tags_in(asked.get("if-none-match", "")))
        headers = MutableHeaders(raw=head["headers"])
        headers["etag"] = f"W/{tag}"
        headers.add_vary_header("Authorization, Cookie")
        if tag in known:
            head["status"] = 304
            del headers["content-length"], headers["content-type"]
            return {**message, "body": b""}
        if not _accepts_delta(asked):
            return message
        base = next((tag for tag in known if tag in self._kept), None)
        if base is not None and DELTA_LEAST <= len(body) <= KEPT_EACH_BYTES:
            before = self._kept[base]
            self._kept.move_to_end(base)
            changes = await asyncio.to_thread(changes_between, before, body)
            if len(changes) < len(body) // 2:
                head["status"] = 226
                headers["im"], headers["delta-base"] = MANIPULATION, base
                headers["content-length"] = str(len(changes))
                message = {**message, "body": changes}
        self._keep(tag, body)
        return message

    def _tag_of(self, body: bytes) -> str:
        # With the server's key: who was not sent an answer cannot find out what it said.
        said = body.partition(b",")[2] if body.startswith(TIMED) else body
        return f'"{blake2b(said, digest_size=12, key=self._key).hexdigest()}"'

    def _keep(self, tag: str, body: bytes) -> None:
        if len(body) > KEPT_EACH_BYTES:
            return
        self._kept_bytes += len(body) - len(self._kept.pop(tag, b""))
        self._kept[tag] = body
        while self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])


def changes_between(before: bytes, after: bytes) -> bytes:
    """The delta from one answer to the next. It always has the time, which the tag says nothing about."""
    old, new = json.loads(before), json.loads(after)
    if isinstance(old, dict):
        old.pop(NOW, None)
    changes = delta_of(old, new) or {"fields": {}}
    return json.dumps(changes, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def tags_in(written: str) -> Iterator[str]:
    """The tags of an `If-None-Match` header, without the mark of weak ones."""
    return (found[1] for found in _TAG.finditer(written))


def _accepts_delta(asked: Headers) -> bool:
    return any(word.partition(";")[0].strip() == MANIPULATION for word in asked.get("a-im", "").split(","))


def _is_tagged(head: Message) -> bool:
    return head["status"] == 200 and Headers(raw=head["headers"]).get("content-type", "") == "application/json"

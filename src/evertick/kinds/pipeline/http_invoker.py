"""An invoker that calls a chat-completions service."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from typing import Final
from urllib.parse import urlsplit

from evertick.kinds.http import shown
from evertick.kinds.pipeline.invoker import Answer, Call

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
LINGER_SECONDS: Final = 5.0
ERROR_MAX: Final = 300
"""Characters of a service's error message."""


class HttpInvoker:
    """One request for each call; redirects are not followed, because they would send the key elsewhere."""

    def __init__(self, url: str, model: str | None = None, key: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or any(c <= " " for c in url):
            raise ValueError(f"is {shown(url)!r}, which is not a valid URL")
        _ = parts.port
        self._parts = parts
        self._model = model
        self._key = key

    def __repr__(self) -> str:
        return f"HttpInvoker({shown(self._parts.geturl())!r}, {self._model!r})"

    def __call__(self, call: Call) -> Answer:
        model = call.question.model or self._model
        if model is None:
            return Answer(False, error="no model is set. Add 'model' to the invoker or to the map.")
        body = json.dumps({"model": model, "messages": [{"role": "user", "content": call.question.prompt}]})
        # The caller times out first and retries; this only ends a connection attempt.
        connection = self._connection(call.timeout_seconds + LINGER_SECONDS)
        call.on_abort(lambda: _shut(connection))
        try:
            return self._ask(connection, body.encode())
        except (OSError, http.client.HTTPException, ValueError) as error:
            if call.aborted.is_set():
                return Answer(False, error="the call was cancelled")
            return Answer(False, error=self._masked(f"{shown(self._parts.geturl())}: {error or type(error).__name__}"))
        finally:
            connection.close()

    def _connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None
        if self._parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=context)
        return http.client.HTTPConnection(host, port, timeout=timeout_seconds)

    def _ask(self, connection: http.client.HTTPConnection, body: bytes) -> Answer:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "evertick"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        query = f"?{self._parts.query}" if self._parts.query else ""
        connection.request("POST", (self._parts.path or "/") + query, body, headers)
        response = connection.getresponse()
        data = response.read(ANSWER_BYTES_MAX + 1)
        if len(data) > ANSWER_BYTES_MAX:
            return Answer(False, error=f"the service answered with more than {ANSWER_BYTES_MAX:,} bytes")
        text = data.decode("utf-8", "replace")
        if not 200 <= response.status <= 299:
            said = self._masked(" ".join(text.split()))[:ERROR_MAX]
            return Answer(False, error=f"the service answered {response.status} {response.reason}: {said}")
        content = _content(json.loads(text))
        if content is None:
            return Answer(False, error="the service's answer has no choices[0].message.content")
        return Answer(True, content)

    def _masked(self, text: str) -> str:
        """Some services repeat the key that they reject."""
        return text.replace(self._key, "***") if self._key else text


def _content(answer: object) -> str | None:
    match answer:
        case {"choices": [{"message": {"content": content}}, *_]}:
            pass
        case _:
            return None
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else None


def _shut(connection: http.client.HTTPConnection) -> None:
    sock: socket.socket | None = connection.sock
    if sock is not None:
        # Only shutdown wakes a thread that reads; close does not.
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

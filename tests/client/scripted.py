"""A server that gives the responses that a test has written."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Scripted:
    """A server that gives the answers it was told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, bytes]] = []
        self.asked: list[Asked] = []
        self.closes_after_each = False
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                return

            def answer(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                script.asked.append(Asked(self.command, self.path, headers, body))
                status, kind, content = script.answers.pop(0) if script.answers else (200, "application/json", b"{}")
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(content)))
                if status == 302:
                    self.send_header("location", "http://127.0.0.1:1/")
                self.end_headers()
                self.wfile.write(content)
                # Without a word to the other side, as a proxy that has waited long enough does.
                self.close_connection = script.closes_after_each

            do_GET = do_POST = do_DELETE = answer  # noqa: N815

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def will(self, status: int, body: object, kind: str = "application/json") -> None:
        self.answers.append((status, kind, json.dumps(body).encode() if not isinstance(body, bytes) else body))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()

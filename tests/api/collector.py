"""Where traces are sent to: a collector over HTTP that understands them, and can be out of order for a while."""

from __future__ import annotations

import gzip
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PATIENCE_SECONDS = 180.0


class Collector:
    """Spans as they came over the wire, each with the name of the service that sent it."""

    def __init__(self, *, refusals: int = 0) -> None:
        self.refusals = refusals
        """How many requests are answered with 503 before the first is taken."""
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.spans: queue.Queue[tuple[str, Any]] = queue.Queue()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                collector._receive(self)

            def log_message(self, *_: object) -> None:
                """Tests are quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_SECONDS)

    def wait_for(self, *names: str) -> dict[str, Any]:
        """The spans of these names, as soon as all of them have come."""
        found: dict[str, Any] = {}
        while not set(names) <= found.keys():
            service, span = self.spans.get(timeout=PATIENCE_SECONDS)
            assert service == "evertick"
            found[span.name] = span
        return found

    def _receive(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["content-length"]))
        if handler.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.requests.append((handler.path, dict(handler.headers)))
        is_refused = len(self.requests) <= self.refusals
        handler.send_response(503 if is_refused else 200)
        answer = ExportTraceServiceResponse().SerializeToString()
        handler.send_header("content-type", "application/x-protobuf")
        handler.send_header("content-length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)
        if is_refused:
            return
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.put((named.get("service.name", ""), span))

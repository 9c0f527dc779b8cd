"""The fake cluster for other processes: over HTTP, with a kubeconfig."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import yaml

from evertick.kinds.kubernetes.cluster import ApiError
from tests.executors.kubernetes.fake import FakeCluster, FakeStream, Json


@contextlib.contextmanager
def served(cluster: FakeCluster, kubeconfig: Path) -> Iterator[Path]:
    """Answer for the cluster while the context lasts; the file says where."""
    handler = type("Answering", (_Answering,), {"cluster": cluster})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "current-context": "fake",
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
                "clusters": [{"name": "fake", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "fake", "user": {}}],
            }
        )
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield kubeconfig
    finally:
        cluster.cut_connections()
        cluster.end_all()
        server.shutdown()
        server.server_close()
        thread.join()


class _Answering(BaseHTTPRequestHandler):
    cluster: FakeCluster
    protocol_version = "HTTP/1.1"

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        url = urlsplit(self.path)
        try:
            found = self._asked(self.command, url.path, dict(parse_qsl(url.query)), body)
        except ApiError as error:
            self._send(error.status, {"reason": error.reason, "message": error.message})
            return
        if isinstance(found, FakeStream):
            self._stream(found)
        elif found is None:
            self._send(404, {"reason": "NotFound", "message": f"{url.path} not found"})
        else:
            self._send(200, found)

    def _asked(self, method: str, path: str, params: dict[str, str], body: Json) -> Json | FakeStream | None:
        cluster = self.cluster
        kind, _, rest = path.partition("/namespaces/default/")[2].partition("/")
        name = rest.partition("/")[0]
        selector = params.get("labelSelector", "")
        match method, kind:
            case "GET", "events":
                return {"items": [{"message": text} for text in cluster.warnings]}
            case "GET", "pods" if rest.endswith("/log"):
                return cluster.follow_log("default", name, "main", None)
            case "GET", _ if "watch" in params:
                return cluster.watch(path, selector, params["resourceVersion"], 0)
            case "GET", _ if not name:
                items, version = cluster.list_all(path, selector)
                return {"items": items, "metadata": {"resourceVersion": version}}
            case "GET", "jobs":
                return cluster.read_job("default", name)
            case "POST", "jobs":
                return cluster.create_job(body)
            case "PATCH", "jobs":
                return cluster.patch_job("default", name, body)
            case "DELETE", "jobs":
                cluster.delete_job("default", name)
                return {}
            case "DELETE", "pods":
                cluster.delete_pod("default", name, body["gracePeriodSeconds"])
                return {}
        raise AssertionError(f"nobody answers {method} {path}")

    def _send(self, status: int, found: Json) -> None:
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, stream: FakeStream) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(OSError):  # whoever listened has gone
            for chunk in stream.chunks():
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        pass

"""The server itself: a process beside the scheduler, or a thread where only one process may open the ledger."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from evertick.api.app import make_app
from evertick.api.office import Office
from evertick.api.tracing import traces_of
from evertick.errors import SettingsError
from evertick.operations.private_file import write_private

log = logging.getLogger("evertick.api")

PLACE_FILE = "server.json"
"""Where the server of a folder is, for commands on the same machine."""
CONNECTIONS_MAX = 1_000
HEADERS_MAX = 64 * 1024


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: uvicorn would raise them again at its end, before anything is put away."""
        yield


class ApiServer:
    """Listens from the moment it is made; serves while `run` runs, in whichever thread that is."""

    def __init__(self, office: Office) -> None:
        settings = office.settings
        self._office = office
        self._config = uvicorn.Config(
            make_app(office),
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=settings.api.behind_proxy,
            forwarded_allow_ips="127.0.0.1,::1",
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=3,
            h11_max_incomplete_event_size=HEADERS_MAX,
            ssl_certfile=settings.api.tls_cert,
            ssl_keyfile=None if settings.api.tls_key is None else str(settings.api.tls_key),
        )
        self._socket = _listen(settings.host, settings.port)
        self._server = _Server(self._config)
        self._thread: threading.Thread | None = None
        port = self._socket.getsockname()[1]
        scheme = "https" if settings.api.tls_cert else "http"
        host = settings.host if ":" not in settings.host else f"[{settings.host}]"
        self.url = f"{scheme}://{host}:{port}"

    def run(self, tell: Callable[[str], None]) -> None:
        """Serve until it is stopped; `tell` says where to look, and at the first start with which token."""
        first = self._office.tokens.ensure_first()
        place = self._office.state_folder / PLACE_FILE
        write_private(place, json.dumps({"url": self.url, "pid": os.getpid(), "node": self._office.node}).encode())
        if first is None:
            tell(f"The page: {self.url}/")
        else:
            tell(f"The page, with a token that is shown this once: {self.url}/#token={first}")
        if threading.current_thread() is threading.main_thread():
            for wanted in (signal.SIGTERM, signal.SIGINT):
                signal.signal(wanted, lambda *_: self.stop())
        traces = traces_of(self._office.desk.run, self._office.node)
        if traces is not None:
            self._office.feed.watchers.append(traces.heard)
            traces.start()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            if traces is not None:
                traces.stop()
            self._socket.close()
            _forget(place)

    def start(self, tell: Callable[[str], None]) -> None:
        """Serve in a thread of this process."""
        self._thread = threading.Thread(target=self.run, args=(tell,), name="evertick-api", daemon=True)
        self._thread.start()

    def stop(self, patience: float = 10.0) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(patience)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise SettingsError(
            f"nothing can listen on {host}:{port}: {getattr(error, 'strerror', None) or error}. "
            "Next: --port takes another one, and 0 a free one."
        ) from error


def _forget(place: Path) -> None:
    """Take the note back, unless another server has left its own by now."""
    try:
        if json.loads(place.read_bytes()).get("pid") == os.getpid():
            place.unlink()
    except (OSError, ValueError):
        return

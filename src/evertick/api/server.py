"""The server: a process beside the scheduler, or a thread if only one process may open the ledger."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import uvicorn

from evertick.api.app import make_app
from evertick.api.app_state import AppState
from evertick.api.connections import ConnectionLimits, Connections, bounded
from evertick.api.log_endpoint import LogEndpoint
from evertick.api.site import how_to_build
from evertick.api.tls_door import TlsDoor, tls_context
from evertick.api.tracing import traces_of
from evertick.errors import SettingsError
from evertick.private_file import write_private
from evertick.settings.exposure import callers_of

log = logging.getLogger("evertick.api")

PLACE_FILE = "server.json"
"""Where the server of a folder is, for commands on the same machine."""
HEADERS_MAX = 64 * 1024
DESCRIPTORS_WANTED = 4_096
TICKS_PER_SECOND = 10
"""In uvicorn's ticks: it renews the date of responses with each tenth."""
TICKS_PER_SIGN = 20


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: uvicorn would raise them again at its end, before anything is closed."""
        yield

    shows_life = False
    _loop: asyncio.AbstractEventLoop | None = None
    _told: asyncio.Event | None = None
    door: TlsDoor | None = None
    """Accepts connections, if they must be protected."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.door is None or not sockets:
            await super().startup(sockets)
            return
        await super().startup([])
        (listener,) = sockets
        self.door.open(listener, self._make_protocol)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.door is not None:
            await self.door.close()
        await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        """As uvicorn does for connections that it accepts itself."""
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def main_loop(self) -> None:
        """Like uvicorn's, which wakes ten times a second to check for a stop: this one waits for the stop itself."""
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        counter = 0
        while not await self.on_tick(counter):
            counter += TICKS_PER_SECOND
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), 1.0)

    def stop(self) -> None:
        """From any thread, or from a signal handler."""
        self.should_exit = True
        if self._loop is not None and self._told is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                self._loop.call_soon_threadsafe(self._told.set)

    async def on_tick(self, counter: int) -> bool:
        """Once a second, by the event loop: one that hangs in a computation does not get here."""
        if self.shows_life and counter % TICKS_PER_SIGN == 0:
            with contextlib.suppress(OSError):  # the scheduler is gone, or is not listening now
                os.write(1, b".")
        return await super().on_tick(counter)


class ApiServer:
    """Listens as soon as it is created; serves while `run` runs, in any thread."""

    def __init__(self, app_state: AppState, limits: ConnectionLimits | None = None) -> None:
        settings = app_state.settings
        self._app_state = app_state
        connections = Connections(limits or fitting_limits(), callers_of(settings))
        cert, key = settings.api.tls_cert, settings.api.tls_key
        door = None if cert is None else TlsDoor(connections, tls_context(cert, key))
        self._config = uvicorn.Config(
            connections.admit(make_app(app_state)),
            host=settings.host,
            port=settings.port,
            loop="uvloop",
            http=bounded(connections),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.api.proxies),
            forwarded_allow_ips=list(settings.api.proxies),
            timeout_keep_alive=30,
            timeout_graceful_shutdown=3,
            h11_max_incomplete_event_size=HEADERS_MAX,
        )
        self._socket = _listen(settings.host, settings.port)
        self._server = _Server(self._config)
        self._server.door = door
        self._thread: threading.Thread | None = None
        port = self._socket.getsockname()[1]
        scheme = "https" if settings.api.tls_cert else "http"
        host = settings.host if ":" not in settings.host else f"[{settings.host}]"
        self.url = f"{scheme}://{host}:{port}"

    def run(self, tell: Callable[[str], None], *, shows_life: bool = False) -> None:
        """Serve until it is stopped; `tell` prints the URL, and at the first start the token.

        With `shows_life` the event loop writes to standard output every other second, as a sign of life for the
        scheduler.
        """
        if shows_life:
            os.set_blocking(1, False)
        self._server.shows_life = shows_life
        first = self._app_state.tokens.ensure_first()
        place = self._app_state.state_folder / PLACE_FILE
        write_private(place, json.dumps({"url": self.url, "pid": os.getpid(), "node": self._app_state.node}).encode())
        for line in greeting(self.url, first, has_page=self._app_state.site is not None):
            tell(line)
        if threading.current_thread() is threading.main_thread():
            for wanted in (signal.SIGTERM, signal.SIGINT):
                signal.signal(wanted, lambda *_: self.stop())
        traces = traces_of(self._app_state.operations.run, self._app_state.node)
        if traces is not None:
            self._app_state.feed.watchers.append(traces.receive)
            traces.start()
        address = self._app_state.address(self.url)
        announcer = address and LogEndpoint(self._app_state.operations.store, address, self._app_state.now)
        if announcer is not None:
            announcer.start()
        try:
            self._server.run(sockets=[self._socket])
        finally:
            if announcer is not None:
                announcer.stop()
            if traces is not None:
                traces.stop()
            self._socket.close()
            _forget(place)

    def start(self, tell: Callable[[str], None]) -> None:
        """Serve in a thread of this process."""
        self._thread = threading.Thread(target=self.run, args=(tell,), name="evertick-api", daemon=True)
        self._thread.start()

    def stop(self, patience: float = 10.0) -> None:
        self._server.stop()
        if self._thread is not None:
            self._thread.join(patience)


def fitting_limits() -> ConnectionLimits:
    """As many connections as leave half of this process's descriptors for everything else."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(DESCRIPTORS_WANTED, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    usual = ConnectionLimits()
    return replace(usual, total=max(min(usual.total, soft // 2), 8))


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host.strip("[]"), port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise SettingsError(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}. "
            "Next: choose another --port; 0 uses a free one."
        ) from error


def _forget(place: Path) -> None:
    """Remove the note, unless another server has written its own since."""
    try:
        if json.loads(place.read_bytes()).get("pid") == os.getpid():
            place.unlink()
    except (OSError, ValueError):
        return


def greeting(url: str, token: str | None, *, has_page: bool) -> list[str]:
    """What a start prints: the URL of the web interface or the API; `token` only at the first start."""
    if has_page:
        return [
            f"Web interface: {url}/"
            if token is None
            else f"Web interface, with an admin token that is shown only once: {url}/#token={token}"
        ]
    about_token = [] if token is None else [f"Admin token for the API, shown only once: {token}"]
    return [f"{how_to_build()} API: {url}/api/v1", *about_token]

"""Can connections that are silent, slow or do not read keep others out?"""

from __future__ import annotations

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import evertick.web
from evertick.api.connections import ConnectionLimits
from evertick.api.server import ApiServer

pytestmark = pytest.mark.slow

LIMITS = ConnectionLimits(
    total=40, quiet_per_address=30, requests=5, head_seconds=0.5, body_seconds=0.5, stall_seconds=0.5
)
LONG = replace(LIMITS, head_seconds=600.0, body_seconds=600.0, stall_seconds=600.0)
WAIT_SECONDS = 180.0


@pytest.fixture
def serve(make_app_state):
    started: list[ApiServer] = []

    def serve(limits: ConnectionLimits) -> tuple[str, int]:
        server = ApiServer(make_app_state(port=0), limits)
        server.start(lambda _: None)
        started.append(server)
        host, _, port = server.url.removeprefix("http://").partition(":")
        return host, int(port)

    yield serve
    for server in started:
        server.stop()


def status_of(place: tuple[str, int], path: str = "/healthz") -> int:
    connection = http.client.HTTPConnection(*place, timeout=WAIT_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().status


@contextlib.contextmanager
def connected(place: tuple[str, int], count: int, sends: bytes = b"") -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection(place, timeout=WAIT_SECONDS)) for _ in range(count)]
        for one in opened:
            with contextlib.suppress(OSError):
                one.sendall(sends)
        yield opened


def is_closed(connection: socket.socket) -> bool:
    """Whether the server ends it; waits for that."""
    connection.settimeout(WAIT_SECONDS)
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(65_536):
            pass
    return True


def is_dropped(connection: socket.socket) -> bool:
    """Whether the server lets go of it, although nothing of what it sends is read; waits for that.

    The caller itself would see it only by reading.
    """
    deadline, own = time.monotonic() + WAIT_SECONDS, connection.getsockname()
    while any(tuple(one.raddr) == own for one in psutil.Process().net_connections("tcp4") if one.raddr):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(
    "sends",
    [b"", b"GET /healthz HTTP/1.1\r\nHost: local", b"POST /api/v1/session HTTP/1.1\r\n"],
    ids=["idle", "half", "slow"],
)
def test_quiet_connections_make_room(serve, sends):
    """Three times as many as there is room for, from one address, and nobody is turned away."""
    place = serve(LONG)
    with connected(place, 3 * LONG.total, sends):
        for _ in range(5):
            assert status_of(place) == 200


@pytest.mark.parametrize(
    "sends",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: local", id="half of the headers"),
        pytest.param(
            b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            b"Content-Type: application/json\r\n\r\n{",
            id="half of the body",
        ),
    ],
)
def test_a_request_that_is_not_sent_to_its_end_is_not_waited_for(serve, sends):
    with connected(serve(LIMITS), 1, sends) as (one,):
        assert is_closed(one)


def test_a_byte_now_and_then_does_not_prolong_the_deadline(serve):
    with connected(serve(LIMITS), 1, b"GET / HTTP/1.1\r\n") as (one,):
        one.settimeout(0.05)
        for _ in range(int(WAIT_SECONDS / 0.05)):
            try:
                one.sendall(b"x")
                if one.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    raise AssertionError("the connection was kept")


def test_a_second_request_on_a_connection_has_the_same_deadline(serve):
    host, port = serve(LIMITS)
    connection = http.client.HTTPConnection(host, port, timeout=WAIT_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        connection.sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        assert is_closed(connection.sock)


def test_probes_are_answered_when_everything_else_is_full(serve):
    """Requests whose bodies never come are being answered, as many as are allowed at once."""
    place = serve(LONG)
    body = (
        b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
        b"Content-Type: application/json\r\n\r\n{"
    )
    with connected(place, LONG.requests, body):
        statuses = [503]
        while 503 not in (last := [status_of(place, "/api/v1/jobs")]) and len(statuses) < 200:
            statuses += last
        assert last == [503]
        assert status_of(place) == 200


@pytest.mark.parametrize(
    ("size", "count"),
    [
        pytest.param(70_000, 200, id="more than fits on the way"),
        pytest.param(30_000, 1, id="less than is waited for"),
    ],
)
def test_a_client_that_never_reads_is_dropped_and_the_others_are_served(serve, monkeypatch, size, count):
    monkeypatch.setattr("evertick.api.server._listen", listen_with_small_buffers)
    place = serve(LIMITS)
    path = asset_of(size)
    with contextlib.ExitStack() as stack:
        deaf = [stack.enter_context(socket.socket()) for _ in range(3)]
        for one in deaf:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            one.connect(place)
            one.settimeout(WAIT_SECONDS)
            with contextlib.suppress(OSError):
                one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * count)
        assert status_of(place) == 200
        for one in deaf:
            assert is_dropped(one)
        assert status_of(place) == 200


def listen_with_small_buffers(host: str, port: int) -> socket.socket:
    """So that the kernel takes little of an answer that nobody reads."""
    listener = socket.create_server((host, port))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    return listener


def asset_of(size: int) -> str:
    """The smallest file of the page that is larger than this."""
    files = Path(evertick.web.__file__).parent.joinpath("static", "assets").iterdir()
    sizes = sorted((file.stat().st_size, file.name) for file in files if file.stat().st_size > size)
    return f"/assets/{sizes[0][1]}"

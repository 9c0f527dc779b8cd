"""Receivers with TLS, and a certificate that only these tests trust."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

CERTIFICATE = Path(__file__).with_name("receiver_test_only.pem")


@pytest.fixture
def server_context(monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def _read_request(connection: ssl.SSLSocket) -> bool:
    """The whole request: closing with a part of it unread would reset the connection under the answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65_536)
        if not more:
            return False
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length")), 0
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return True


@pytest.fixture
def tls_receiver(server_context: ssl.SSLContext) -> Iterator[int]:
    """The port of a server that shakes hands and answers every request with 204."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            with plain, contextlib.suppress(OSError), server_context.wrap_socket(plain, server_side=True) as secure:
                if _read_request(secure):
                    secure.sendall(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)

"""Reads logs that only another node has: over its API, with the token that it announced."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ipaddress
import json
import ssl
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from evertick.errors import ExecutorUnavailable
from evertick.model.instant import Instant, from_text
from evertick.model.node_address import NodeAddress, read_address
from evertick.store import Store

TIMEOUT_SECONDS: Final = 3.0
LISTED_SECONDS: Final = 1.0
"""How old a list of logs may be: a reader that follows a run asks often."""
AWAY_SECONDS: Final = 5.0
"""A node that did not answer is not asked again for this long, so that readers do not wait for it."""
KEPT_MAX: Final = 500
ANSWER_MAX: Final = 4 * 1024 * 1024


class NodeUnavailable(ExecutorUnavailable):
    """Another node did not answer, or its answer was invalid."""


class RemoteLog(NamedTuple):
    attempt: int
    step: str
    size: int
    is_complete: bool


class RemoteChunk(NamedTuple):
    data: bytes
    next_offset: int
    is_complete: bool


class NodeLogs:
    """The logs of other nodes. Any thread may use it."""

    def __init__(self, store: Store, now: Callable[[], Instant], machine: str | None = None) -> None:
        self._store, self._now = store, now
        self._machine = machine_name() if machine is None else machine
        self._lock = threading.Lock()
        self._known: tuple[float, dict[str, NodeAddress]] | None = None
        self._listed: dict[tuple[str, str], tuple[float, Sequence[RemoteLog]]] = {}
        self._away: dict[str, tuple[float, NodeUnavailable]] = {}

    def nodes(self) -> list[str]:
        """The nodes that announce their address."""
        return sorted(self._addresses())

    def list_logs(self, node: str, run_id: str) -> Sequence[RemoteLog]:
        key = (node, run_id)
        with self._lock:
            known = self._listed.get(key)
            if known is not None and time.monotonic() - known[0] < LISTED_SECONDS:
                return known[1]
        found = self._list(node, run_id)
        with self._lock:
            while len(self._listed) >= KEPT_MAX:
                del self._listed[next(iter(self._listed))]
            self._listed[key] = (time.monotonic(), found)
        return found

    def _list(self, node: str, run_id: str) -> Sequence[RemoteLog]:
        status, body = self._ask(node, f"/runs/{quote(run_id, safe='')}/logs", {})
        try:
            if status != 200:
                raise ValueError(f"status {status}")
            return [RemoteLog(*(one[name] for name in RemoteLog._fields)) for one in json.loads(body)["items"]]
        except (ValueError, KeyError, TypeError) as error:
            raise NodeUnavailable(f"the node {node} gave an invalid answer: {error}") from error

    def read_log(
        self, node: str, run_id: str, attempt: int, step: str, offset: int, limit: int, *, is_closed: bool
    ) -> RemoteChunk:
        """At most `limit` bytes from `offset` on; `is_closed`: nothing will be added to it."""
        path = f"/runs/{quote(run_id, safe='')}/logs/{attempt}/{quote(step, safe='', errors='surrogateescape')}"
        headers = {"range": f"bytes={offset}-{offset + limit - 1}"}
        status, data = self._ask(node, path, {"download": "true"}, headers)
        if status == 416:
            data = b""
        elif status != 206:
            raise NodeUnavailable(f"the node {node} gave an invalid answer: status {status}")
        return RemoteChunk(data, offset + len(data), is_closed and len(data) < limit)

    def read_times(self, node: str, run_id: str, attempt: int, step: str) -> Sequence[tuple[int, Instant]]:
        """When the bytes of a log were written; empty from a node that does not know the question."""
        path = f"/runs/{quote(run_id, safe='')}/logs/{attempt}/{quote(step, safe='', errors='surrogateescape')}/times"
        status, body = self._ask(node, path, {})
        try:
            items = json.loads(body)["items"] if status == 200 else ()
            return [(int(one["offset"]), from_text(one["at"])) for one in items]
        except (ValueError, KeyError, TypeError) as error:
            raise NodeUnavailable(f"the node {node} gave an invalid answer: {error}") from error

    def _addresses(self) -> dict[str, NodeAddress]:
        with self._lock:
            known = self._known
        if known is not None and time.monotonic() - known[0] < LISTED_SECONDS:
            return known[1]
        found = map(read_address, self._store.lease((), "", 0, self._now()))
        addresses = {address.node: address for address in found if address is not None}
        with self._lock:
            self._known = (time.monotonic(), addresses)
        return addresses

    def _ask(
        self, node: str, path: str, query: dict[str, str], headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        address = self._addresses().get(node)
        if address is None:
            raise NodeUnavailable(f"the node {node} does not announce its address")
        if is_loopback(address.url) and address.machine != self._machine:
            raise NodeUnavailable(f"the node {node} listens on its own machine only (setting `host`)")
        away = self._away.get(node)
        if away is not None and time.monotonic() - away[0] < AWAY_SECONDS:
            raise away[1]
        try:
            answer = _get(address, f"/api/v1{path}?{urlencode({**query, 'here': 'true'})}", headers or {})
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            unavailable = NodeUnavailable(f"the node {node} cannot be reached at {address.url}: {reason}")
            self._away[node] = (time.monotonic(), unavailable)
            raise unavailable from error
        self._away.pop(node, None)
        return answer


def _get(address: NodeAddress, target: str, headers: dict[str, str]) -> tuple[int, bytes]:
    connection = _connect(address)
    try:
        connection.request("GET", target, headers={**headers, "authorization": f"Bearer {address.token}"})
        answer = connection.getresponse()
        body = answer.read(ANSWER_MAX + 1)
        if len(body) > ANSWER_MAX:
            raise ValueError("the answer is too long")
        return answer.status, body
    finally:
        connection.close()


def _connect(address: NodeAddress) -> http.client.HTTPConnection:
    """A connection to the node that announced the token, on which it may be sent."""
    parts = urlsplit(address.url)
    host, port = parts.hostname or "", parts.port
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    context = ssl.create_default_context()
    if not address.certificate:
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)
    # The ledger has the certificate itself, so that nodes need no common authority.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=context)
    connection.connect()
    assert isinstance(connection.sock, ssl.SSLSocket)
    shown = connection.sock.getpeercert(binary_form=True)
    if not hmac.compare_digest(fingerprint(shown or b""), address.certificate):
        connection.close()
        raise ValueError("its certificate is not the one it announced")
    return connection


def fingerprint(certificate: bytes) -> str:
    """Of a certificate in its binary form."""
    return urlsafe_b64encode(hashlib.sha256(certificate).digest()).decode().rstrip("=")


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def machine_name() -> str:
    """The same for all processes with this machine's network addresses, and for no others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/net").readlink().name  # a container has addresses of its own
    except OSError:
        import socket

        boot, space = socket.gethostname(), ""
    return hashlib.sha256(f"{boot} {space}".encode()).hexdigest()[:16]

"""Makes an HTTP call, and checks its status."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

from evertick.kinds import StepError

BODY_MAX: Final = 1024 * 1024
"""Bytes of a response that are read."""
REDIRECTS_MAX: Final = 5
SILENCE_SECONDS: Final = 60.0
"""The call fails when the server sends nothing for this long, whatever the step's timeout."""
_SEE_OTHER: Final = frozenset({301, 302, 303})
_REDIRECTS: Final = _SEE_OTHER | {307, 308}
_KEPT_ELSEWHERE: Final = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers kept on a redirect to another host; any other could hold a credential."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A call with its secrets resolved."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    expected_statuses: tuple[int, ...] = ()

    def accepts(self, status: int) -> bool:
        return status in self.expected_statuses if self.expected_statuses else 200 <= status <= 299


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    is_good: bool
    detail: str
    status: int | None = None
    body: bytes = b""
    is_cut: bool = False


class HttpExchange:
    """One call; `run` blocks its thread, `abort` ends it from another."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self._connection: http.client.HTTPConnection | None = None
        self._is_aborted = threading.Event()

    def run(self) -> HttpAnswer:
        """Never raises for a failed call: the answer says why."""
        try:
            return self._follow()
        except (OSError, http.client.HTTPException, ValueError) as error:
            if self._is_aborted.is_set():
                return HttpAnswer(False, "the call was cancelled")
            text = str(error) or type(error).__name__
            return HttpAnswer(False, f"{self._request.method} {shown(self._request.url)}: {text}")
        finally:
            self._close()

    def abort(self) -> None:
        self._is_aborted.set()
        connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            # Only shutdown wakes a thread that reads; close does not.
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _follow(self) -> HttpAnswer:
        request = self._request
        url, method, body, headers = request.url, request.method.upper(), request.body, dict(request.headers)
        for _ in range(REDIRECTS_MAX + 1):
            response = self._ask(url, method, headers, body)
            location = response.getheader("Location")
            if response.status not in _REDIRECTS or location is None or request.accepts(response.status):
                return self._judge(response)
            target = urljoin(url, location)
            here, there = parse_url(url), urlsplit(target)
            if there.scheme != here.scheme and (here.scheme, there.scheme) != ("http", "https"):
                return HttpAnswer(False, f"{shown(url)} redirects to {there.scheme}:, which is not followed")
            if there.netloc != here.netloc:
                headers = {name: value for name, value in headers.items() if name.lower() in _KEPT_ELSEWHERE}
            if response.status in _SEE_OTHER and method != "HEAD":
                method, body = "GET", None
            self._close()
            url = target
        return HttpAnswer(False, f"{shown(request.url)} redirects more than {REDIRECTS_MAX} times")

    def _ask(self, url: str, method: str, headers: dict[str, str], body: bytes | None) -> http.client.HTTPResponse:
        parts = parse_url(url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=SILENCE_SECONDS, context=ssl.create_default_context()
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SILENCE_SECONDS)
        self._connection = connection
        connection.connect()
        if self._is_aborted.is_set():
            raise OSError("ended")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        named = {name.lower() for name in headers}
        if "user-agent" not in named:
            headers = {**headers, "User-Agent": "evertick"}
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def _judge(self, response: http.client.HTTPResponse) -> HttpAnswer:
        body = response.read(BODY_MAX + 1)
        is_good = self._request.accepts(response.status)
        detail = f"{response.status} {response.reason}".strip()
        if not is_good:
            wanted = ", ".join(map(str, self._request.expected_statuses)) or "200 to 299"
            detail = f"{self._request.method} {shown(self._request.url)} answered {detail}; expected {wanted}"
        return HttpAnswer(is_good, detail, response.status, body[:BODY_MAX], len(body) > BODY_MAX)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def parse_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise StepError(f"{shown(url)!r} is not a valid URL: {error}.") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise StepError(f"{shown(url)!r} is not a valid URL. Use the form https://host/path.")
    if any(character <= " " for character in url):
        raise StepError(f"{shown(url)!r} contains a blank. Use %20.")
    return parts


def shown(url: str) -> str:
    """A URL without its user, password and query, which may be secret."""
    # Cut the query first: it may follow the host directly.
    known = url.partition("#")[0].partition("?")[0]
    scheme, separator, rest = known.partition("://")
    if not separator:
        return known[:200]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"[:200]

"""HTTP to an Evertick server: verified TLS, a token that goes nowhere else, problems raised as our exceptions."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from evertick.errors import (
    AccessDenied,
    Conflict,
    DefinitionError,
    EvertickError,
    InvalidArgument,
    NotFound,
    ServerUnavailable,
    SettingsError,
)
from evertick.model.plain_json import Json, text_in, whole_in

TIMEOUT_SECONDS: Final = 30.0
TOKEN_VARIABLE: Final = "EVERTICK_TOKEN"
TOKEN_FILE_VARIABLE: Final = "EVERTICK_TOKEN_FILE"
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/=-]{1,500}")

# Every other status is the server's fault.
_ERRORS: Final[Mapping[int, type[EvertickError]]] = {
    400: InvalidArgument,
    404: NotFound,
    409: Conflict,
    413: InvalidArgument,
    421: SettingsError,
    422: InvalidArgument,
}


class Response(NamedTuple):
    status: int
    media_type: str
    body: bytes


class HttpConnection:
    """Sends requests over one connection, which is kept open; calls from several threads take turns."""

    def __init__(self, url: str, token: str | None, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        try:
            parts = urlsplit(url if "//" in url else f"//{url}", "https")
            host, port = (parts.hostname or "").encode("idna").decode(), parts.port
        except ValueError:
            host, port = "", None
        if not host or parts.scheme not in ("http", "https"):
            raise SettingsError(f"'{url}' is not a server URL. Write for example https://evertick.example.")
        if token and not _TOKEN.fullmatch(token):
            raise SettingsError("the token contains invalid characters. Copy it again, exactly as it was shown.")
        if parts.username or parts.password:
            raise SettingsError("a server URL must not contain a password. Put the token into EVERTICK_TOKEN.")
        if parts.scheme == "http" and token and not _is_loopback(host):
            raise SettingsError(
                f"the token would travel to {host} unencrypted. Use https://, or a tunnel to http://127.0.0.1:PORT."
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._base = parts.path.rstrip("/")
        self._token = token
        self._timeout_seconds = timeout_seconds
        self._connection = _connect(parts.scheme, host, port, timeout_seconds)
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        target: str,
        body: Mapping[str, object] | None = None,
        *,
        idempotency_key: str = "",
        wait_seconds: float = 0.0,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send a request; redirects are not followed. A GET and a request with a key are sent again if need be."""
        sent = {"accept": "application/json", **(headers or {})}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        if idempotency_key:
            sent["idempotency-key"] = idempotency_key
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            sent["content-type"] = "application/json"
        with self._lock:
            return self._send(method, self._base + target, content, sent, wait_seconds)

    def download(self, target: str, offset: int, limit: int) -> bytes:
        """A byte range of a file; empty at its end."""
        part = {"range": f"bytes={offset}-{offset + limit - 1}"}
        response = self.request("GET", target, headers=part)
        if response.status == 416:
            return b""
        if response.media_type == "text/plain" and response.status in (200, 206):
            # A proxy that does not know ranges sends the whole file.
            return response.body if response.status == 206 else response.body[offset : offset + limit]
        # JSON with status 200 is not a file either.
        self.data_of(response._replace(media_type=response.media_type if response.status != 200 else ""))
        raise AssertionError("a response is a file or raises")

    def close(self) -> None:
        self._connection.close()

    def _send(
        self, method: str, target: str, content: bytes | None, headers: dict[str, str], wait_seconds: float
    ) -> Response:
        can_repeat = method == "GET" or "idempotency-key" in headers
        if not can_repeat:
            self._connection.close()  # the server may have closed an idle connection, and there is no second try
        for is_last in (False, True) if can_repeat else (True,):
            try:
                return self._exchange(method, target, content, headers, wait_seconds)
            except ssl.SSLCertVerificationError as error:
                raise ServerUnavailable(
                    f"the certificate of {self.url} is not trusted: {error.verify_message}. "
                    "Set SSL_CERT_FILE to the file of the authority that signed it."
                ) from error
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if is_last:
                    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                    raise ServerUnavailable(
                        f"the server {self.url} does not answer: {reason}. Check the URL and whether it is running."
                    ) from error
        raise AssertionError("the last try returns or raises")

    def _exchange(
        self, method: str, target: str, content: bytes | None, headers: dict[str, str], wait_seconds: float
    ) -> Response:
        timeout = self._timeout_seconds + wait_seconds
        self._connection.timeout = timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        self._connection.request(method, target, content, headers)
        response = self._connection.getresponse()
        body = response.read(RESPONSE_BYTES_MAX)
        if not response.isclosed():
            self._connection.close()
            raise ServerUnavailable(f"the response of {self.url} is too large. Request fewer items.")
        return Response(response.status, response.headers.get_content_type(), body)

    def data_of(self, response: Response) -> object:
        """The JSON of a response with status 200; every other response raises."""
        is_json = response.media_type in ("application/json", "application/problem+json")
        try:
            data = json.loads(response.body) if is_json else None
        except ValueError:
            data, is_json = None, False
        if response.status == 200 and is_json:
            return data
        raise self._error_of(response.status, data, is_json=is_json)

    def _error_of(self, status: int, data: object, *, is_json: bool) -> EvertickError:
        problem = data if isinstance(data, dict) else {}
        detail = str(problem.get("detail", ""))
        if status in (401, 403):
            return AccessDenied(detail or f"The server {self.url} denies access.", is_known=status == 403)
        # A 404 without our problem document comes from another server: the URL is wrong, not the job.
        if problem and status in _ERRORS:
            return _user_error(_ERRORS[status], detail or f"The server {self.url} answers with {status}.", problem)
        if 300 <= status < 400 or not is_json:
            return ServerUnavailable(f"{self.url} is not an Evertick server (status {status}). Check the URL.")
        return ServerUnavailable(f"the server {self.url} failed: {detail or f'status {status}'}")


class ReadAhead:
    """Requests for what the caller will want next, each sent by a thread of its own."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self._asked: _Asked | None = None

    def ask(self, target: str) -> None:
        self._asked = asked = _Asked(target)
        asked.thread = threading.Thread(target=self._run, args=(asked,), name="evertick-read-ahead", daemon=True)
        asked.thread.start()

    def take(self, target: str) -> Response | None:
        """Wait for the response to what was asked last, and raise what it raised; None: it was something else."""
        asked, self._asked = self._asked, None
        if asked is None or asked.target != target or asked.thread is None:
            return None
        asked.thread.join()
        if asked.error is not None:
            raise asked.error
        return asked.response

    def _run(self, asked: _Asked) -> None:
        try:
            asked.response = self._connection.request("GET", asked.target)
        except Exception as error:
            asked.error = error


@dataclass(slots=True)
class _Asked:
    target: str
    thread: threading.Thread | None = None
    response: Response | None = None
    error: Exception | None = None


def _is_loopback(host: str) -> bool:
    from evertick.settings.exposure import is_loopback

    return is_loopback(host)


def _connect(scheme: str, host: str, port: int | None, timeout_seconds: float) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        return http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=context)
    return http.client.HTTPConnection(host, port, timeout=timeout_seconds)


def _user_error(kind: type[EvertickError], detail: str, problem: Mapping[str, Json]) -> EvertickError:
    """The error with its fields. `detail` is its whole text; a server that sends no `reason` has sent nothing else."""
    reason = text_in(problem, "reason")
    if reason is None:
        return kind(detail)
    if kind is NotFound:
        suggestions = problem.get("suggestions")
        return NotFound(reason, tuple(map(str, suggestions)) if isinstance(suggestions, list) else ())
    if kind is not InvalidArgument:
        return kind(detail)
    field, hint, file = (text_in(problem, name) for name in ("field", "hint", "file"))
    if file is None:
        return InvalidArgument(reason, hint=hint, field=field)
    line, column = (whole_in(problem, name) for name in ("line", "column"))
    return DefinitionError(reason, hint=hint, field=field, file=file, line=line, column=column)


def find_token(file: str | Path | None = None) -> str | None:
    """The token from a file, else from the environment; never from an option, which every user can list."""
    chosen = file or os.environ.get(TOKEN_FILE_VARIABLE)
    if not chosen:
        return os.environ.get(TOKEN_VARIABLE, "").strip() or None
    path = Path(chosen)
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise SettingsError(f"cannot read the token file '{path}': {reason}.") from error
    if mode & 0o077:
        raise SettingsError(f"other users can read the token file '{path}'. Run: chmod 600 {path}")
    return text or None

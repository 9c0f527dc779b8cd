"""HTTP to a server: verified TLS, a token that is sent nowhere else, problems raised as our exceptions."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

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
from evertick.settings.exposure import is_loopback

PREFIX: Final = "/api/v1"
TIMEOUT_SECONDS: Final = 30.0
ANSWER_MAX: Final = 256 * 1024 * 1024
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


class _Answer(NamedTuple):
    status: int
    kind: str
    """Its media type."""
    body: bytes


class Http:
    """Sends requests to a server; a refusal raises the exception that a local ledger would have raised."""

    def __init__(self, url: str, token: str | None) -> None:
        try:
            parts = urlsplit(url if "//" in url else f"//{url}", "https")
            host, port = (parts.hostname or "").encode("idna").decode(), parts.port
        except ValueError:
            host, port = "", None
        if not host or parts.scheme not in ("http", "https"):
            raise SettingsError(f"'{url}' is not a server URL. Write for example https://evertick.example.")
        if token and not _TOKEN.fullmatch(token):
            raise SettingsError("The token contains invalid characters. Copy it again, exactly as it was shown.")
        if parts.username or parts.password:
            raise SettingsError("A server URL must not contain a password. Put the token into EVERTICK_TOKEN.")
        if parts.scheme == "http" and token and not is_loopback(host):
            raise SettingsError(
                f"The token would travel to {host} unencrypted. Use https://, or a tunnel to http://127.0.0.1:PORT."
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._base = parts.path.rstrip("/") + PREFIX
        self._token = token
        self._connection = _connection(parts.scheme, host, port)

    def get(self, path: str, query: Mapping[str, Any] | None = None, *, wait: float = 0.0) -> Any:
        return self._read(self._ask("GET", path, query, None, "", wait))

    def get_bytes(self, path: str, query: Mapping[str, Any], begin: int, most: int) -> bytes:
        """A byte range of a file; empty at its end."""
        answer = self._ask("GET", path, query, None, "", 0.0, {"range": f"bytes={begin}-{begin + most - 1}"})
        if answer.status == 416:
            return b""
        if answer.kind == "text/plain" and answer.status in (200, 206):
            # A proxy that does not know ranges sends the whole file.
            return answer.body if answer.status == 206 else answer.body[begin : begin + most]
        self._read(answer._replace(kind="" if answer.status == 200 else answer.kind))
        raise AssertionError("a response is a file or a problem")

    def post(
        self, path: str, body: Mapping[str, Any] | None, key: str, query: Mapping[str, Any], *, wait: float = 0.0
    ) -> Any:
        return self._read(self._ask("POST", path, query, body or {}, key, wait))

    def delete(self, path: str, key: str, query: Mapping[str, Any], *, wait: float = 0.0) -> Any:
        return self._read(self._ask("DELETE", path, query, None, key, wait))

    def close(self) -> None:
        self._connection.close()

    def _read(self, answer: _Answer) -> Any:
        return _answer(self.url, answer.status, answer.kind, answer.body)

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        key: str,
        wait: float,
        more: Mapping[str, str] | None = None,
    ) -> _Answer:
        given = {name: value for name, value in (query or {}).items() if value not in (None, (), [], "")}
        target = self._base + path + (f"?{urlencode(given, doseq=True)}" if given else "")
        headers = {"accept": "application/json", **(more or {})}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        if key:
            headers["idempotency-key"] = key
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers["content-type"] = "application/json"
        # The server may have closed an idle connection. A retry is safe: every change carries an idempotency key.
        for is_last in (False, True):
            try:
                return self._once(method, target, content, headers, wait)
            except ssl.SSLCertVerificationError as error:
                raise ServerUnavailable(
                    f"The certificate of {self.url} is not trusted: {error.verify_message}. "
                    "Set SSL_CERT_FILE to the file of the authority that signed it."
                ) from error
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if is_last:
                    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                    raise ServerUnavailable(
                        f"The server {self.url} does not answer: {reason}. Check the URL and whether it is running."
                    ) from error
        raise AssertionError("the last try returns or raises")

    def _once(self, method: str, target: str, content: bytes | None, headers: dict[str, str], wait: float) -> _Answer:
        self._connection.timeout = TIMEOUT_SECONDS + wait
        if self._connection.sock is not None:
            self._connection.sock.settimeout(TIMEOUT_SECONDS + wait)
        self._connection.request(method, target, content, headers)
        response = self._connection.getresponse()
        text = response.read(ANSWER_MAX)
        if not response.isclosed():
            self._connection.close()
            raise ServerUnavailable(f"The response of {self.url} is too large. Request fewer items.")
        return _Answer(response.status, response.headers.get_content_type(), text)


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        return http.client.HTTPSConnection(
            host, port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
        )
    return http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)


def _answer(url: str, status: int, kind: str, text: bytes) -> Any:
    is_json = kind in ("application/json", "application/problem+json")
    try:
        data = json.loads(text) if is_json else None
    except ValueError:
        data, is_json = None, False
    if status == 200 and is_json:
        return data
    detail = str(data.get("detail", "")) if isinstance(data, dict) else ""
    if status in (401, 403):
        raise AccessDenied(detail or f"The server {url} denies access.", is_known=status == 403)
    # A 404 without our problem document comes from another server: the URL is wrong, not the job.
    if isinstance(data, dict) and status in _ERRORS:
        raise _error_of(status, detail or f"The server {url} answers with status {status}.", data)
    if 300 <= status < 400 or not is_json:
        raise ServerUnavailable(f"{url} is not an Evertick server (status {status}). Check the URL.")
    raise ServerUnavailable(f"The server {url} failed: {detail or f'status {status}'}")


def _error_of(status: int, reason: str, data: Mapping[str, Any]) -> EvertickError:
    kind = _ERRORS[status]
    if kind is not InvalidArgument:
        return kind(reason)
    # Only an error in a job's definition has a file.
    found: type[DefinitionError | InvalidArgument] = DefinitionError if "file" in data else InvalidArgument
    return found(reason, field=data.get("field"))

"""The requests to a container engine over its Unix socket: Docker's API, which Podman has too."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote, urlencode

from evertick.model.plain_json import Document

VERSION_MAX: Final = (1, 47)
"""The newest version of the API that was read about; an engine speaks all versions from a minimum up to its own."""
ANSWER_SECONDS: Final = 60.0
FRAME_HEADER: Final = 8
STDERR: Final = 2
FRAME_MAX: Final = 16 * 1024 * 1024


class EngineError(Exception):
    """The engine refused something; the text is its own."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class EngineUnavailable(Exception):
    """The engine does not answer."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """A container engine; each request has its own connection, so that threads can share it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._version = ""

    def ping(self) -> str:
        """What answers, such as `Docker/27.3` or `Libpod/4.3.1 (linux)`."""
        with self._open("GET", "/_ping") as answer:
            answer.read()
            found = answer.getheader("Api-Version", "")
            self._version = _negotiated(found)
            return answer.getheader("Server", "an engine of unknown name")

    def call(
        self, method: str, path: str, body: Document | None = None, *, seconds: float = ANSWER_SECONDS
    ) -> Document:
        """The answer as data; `EngineError` if it is a refusal."""
        with self._open(method, self._versioned(path), body, seconds) as answer:
            text = answer.read()
        try:
            found = json.loads(text) if text.strip() else {}
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {"items": found}

    def create(self, name: str, spec: Document) -> str:
        """Create a container; its id."""
        return str(self.call("POST", f"/containers/create?name={quote(name)}", spec)["Id"])

    def inspect(self, name: str) -> Document | None:
        """What is known of a container; None: it does not exist."""
        try:
            return self.call("GET", f"/containers/{quote(name)}/json")
        except EngineError as error:
            if error.status == http.client.NOT_FOUND:
                return None
            raise

    def list_labelled(self, label: str, value: str) -> list[Document]:
        """All containers with this label, also ended ones."""
        query = urlencode({"all": "true", "filters": json.dumps({"label": [f"{label}={value}"]})})
        found: list[Document] = self.call("GET", f"/containers/json?{query}").get("items", [])
        return found

    def start(self, name: str) -> None:
        self.call("POST", f"/containers/{quote(name)}/start")

    def stop(self, name: str, grace_seconds: int) -> None:
        """SIGTERM, and after the grace SIGKILL; returns when it has ended."""
        try:
            seconds = grace_seconds + ANSWER_SECONDS
            self.call("POST", f"/containers/{quote(name)}/stop?t={grace_seconds}", seconds=seconds)
        except EngineError as error:
            if error.status not in (http.client.NOT_MODIFIED, http.client.NOT_FOUND):
                raise

    def remove(self, name: str) -> None:
        """Kill and remove a container with its anonymous volumes; one that does not exist is fine."""
        try:
            self.call("DELETE", f"/containers/{quote(name)}?force=true&v=true")
        except EngineError as error:
            # A conflict: another program is removing it.
            if error.status not in (http.client.NOT_FOUND, http.client.CONFLICT):
                raise

    def has_image(self, image: str) -> bool:
        try:
            self.call("GET", f"/images/{quote(image, safe='/:@')}/json")
        except EngineError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def pull(self, image: str, auth: str = "") -> Iterator[Document]:
        """Fetch an image, with a login as `Login.header` writes it; the steps of it as the engine reports them."""
        name, tag = split_image(image)
        path = f"/images/create?{urlencode({'fromImage': name, 'tag': tag})}"
        # An engine that fetches a large layer may be silent for long: the step's own timeout applies.
        with self._open("POST", self._versioned(path), None, None, auth) as answer:
            for line in answer:
                if line.strip():
                    found = json.loads(line)
                    if found.get("error"):
                        raise EngineError(0, str(found["error"]))
                    yield found

    def logs(self, name: str) -> Iterator[tuple[bool, bytes]]:
        """Its output from the beginning until it ends, in order; whether each piece is standard error."""
        path = f"/containers/{quote(name)}/logs?follow=true&stdout=true&stderr=true"
        with self._open("GET", self._versioned(path), None, None) as answer:
            while header := _read_exactly(answer, FRAME_HEADER):
                size = int.from_bytes(header[4:], "big")
                if size > FRAME_MAX:
                    raise EngineUnavailable(f"the engine sent a frame of {size:,} bytes")
                yield header[0] == STDERR, _read_exactly(answer, size)

    def _versioned(self, path: str) -> str:
        if not self._version:
            self.ping()
        return f"/v{self._version}{path}"

    def _open(
        self,
        method: str,
        path: str,
        body: Document | None = None,
        seconds: float | None = ANSWER_SECONDS,
        auth: str = "",
    ) -> _Answer:
        connection = _Connection(self._path, seconds)
        try:
            data = None if body is None else json.dumps(body).encode()
            headers = {"Content-Type": "application/json"} if data is not None else {}
            if auth:
                headers["X-Registry-Auth"] = auth
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            if answer.status >= http.client.MULTIPLE_CHOICES:
                raise EngineError(answer.status, _message(answer.read(65_536)))
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise EngineUnavailable(f"{self._path}: {getattr(error, 'strerror', None) or error}") from error
        except EngineError:
            connection.close()
            raise
        return _Answer(connection, answer)


class _Answer:
    """An open answer; a connection that breaks while it is read is an engine that is away."""

    def __init__(self, connection: _Connection, answer: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._answer = answer

    def __enter__(self) -> _Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __iter__(self) -> Iterator[bytes]:
        while line := self._read(self._answer.readline):
            yield line

    def getheader(self, name: str, default: str) -> str:
        return self._answer.getheader(name, default)

    def read(self, size: int | None = None) -> bytes:
        return self._read(lambda: self._answer.read(size))

    def _read(self, read: Callable[[], bytes]) -> bytes:
        try:
            return read()
        except (OSError, http.client.HTTPException) as error:
            raise EngineUnavailable(f"the answer was cut off: {error}") from error


def split_image(image: str) -> tuple[str, str]:
    """The name of an image, and its tag or digest; without either, engines would fetch every tag."""
    name, at, digest = image.partition("@")
    if at:
        return name, digest
    head, colon, tag = image.rpartition(":")
    return (head, tag) if colon and "/" not in tag else (image, "latest")


def _negotiated(found: str) -> str:
    try:
        major, minor = (int(part) for part in found.split("."))
    except ValueError:
        raise EngineUnavailable(f"it is not a container engine: its API has the version {found[:20]!r}") from None
    return ".".join(map(str, min((major, minor), VERSION_MAX)))


def _read_exactly(answer: _Answer, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = answer.read(size - len(data))
        if not more:
            return b""
        data += more
    return data


def _message(text: bytes) -> str:
    try:
        found = json.loads(text)
        return str(found.get("message") or found.get("cause") or found)
    except (ValueError, AttributeError):
        return text.decode("utf-8", "replace").strip() or "no reason was given"

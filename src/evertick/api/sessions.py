"""Sessions of the web interface: a cookie names one, and hashes are stored, so that a restart signs no one out."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from evertick.model.instant import Instant
from evertick.operations.tokens import Token
from evertick.private_file import read_private, write_private

FILE: Final = "sessions.json"
PER_TOKEN_MAX: Final = 50
"""Sessions of one token; another sign-in ends its oldest session, never one of another token."""
COOKIE: Final = "evertick_session"


class Session(NamedTuple):
    token_id: str
    """Its token: when the token is revoked, the session ends."""
    csrf: str
    expires_at: Instant


class Sessions:
    """Thread-safe."""

    def __init__(self, state_folder: Path, length_us: int, now: Callable[[], Instant]) -> None:
        self._path = state_folder / FILE
        self._length_us = length_us
        self._now = now
        self._lock = threading.Lock()
        self._sessions = self._read()

    def begin(self, token: Token) -> tuple[str, Session]:
        """A new session, and its secret."""
        name = secrets.token_urlsafe(32)
        session = Session(token.id, secrets.token_urlsafe(24), self._now() + self._length_us)
        with self._lock:
            self._forget_old(token.id)
            self._sessions[_digest(name)] = session
            self._write()
        return name, session

    def find(self, name: str) -> Session | None:
        session = self._sessions.get(_digest(name))
        return session if session is not None and self._now() < session.expires_at else None

    def end(self, name: str) -> None:
        with self._lock:
            if self._sessions.pop(_digest(name), None) is not None:
                self._write()

    def _forget_old(self, token_id: str) -> None:
        """Expired sessions, and the oldest of this token if it has too many."""
        now = self._now()
        live = {key: one for key, one in self._sessions.items() if now < one.expires_at}
        own = sorted((one.expires_at, key) for key, one in live.items() if one.token_id == token_id)
        for _, key in own[: max(len(own) - PER_TOKEN_MAX + 1, 0)]:
            del live[key]
        self._sessions = live

    def _read(self) -> dict[str, Session]:
        content = read_private(self._path)
        try:
            return {} if content is None else {key: Session(*one) for key, one in json.loads(content).items()}
        except (ValueError, TypeError, AttributeError):
            return {}  # all users sign in again

    def _write(self) -> None:
        write_private(self._path, json.dumps(self._sessions).encode())


def is_same(one: str, other: str) -> bool:
    """Whether two texts are equal, in a time that does not reveal where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()

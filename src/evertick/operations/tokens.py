"""Who may use the API: tokens with a role; only a hash of each is stored."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple, NotRequired, TypedDict

from evertick.errors import Conflict, InvalidArgument, NotFound, SettingsError
from evertick.model.instant import Instant, from_text, to_datetime, to_text
from evertick.operations.context import now_by_the_clock
from evertick.operations.results.access import NewToken, TokenState
from evertick.private_file import locked, read_private, write_private

FILE: Final = "tokens.json"
FIRST_FILE: Final = "token"
"""The first token in plain text, for the commands of the folder's owner."""
TOKENS_MAX: Final = 10_000
_TEXT: Final = re.compile(r"evt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@-]{0,63}")


class Role(IntEnum):
    """Each may do what those before it may."""

    VIEWER = 1
    """Look at everything but definitions' texts and settings."""
    OPERATOR = 2
    """Trigger, cancel, retry, pause, resume, backfill, drain."""
    EDITOR = 3
    """Change definitions, where the settings allow it."""
    ADMIN = 4
    """Tokens, settings, the audit log."""

    def __str__(self) -> str:
        return self.name.lower()


def read_role(text: str) -> Role:
    names = [str(role) for role in Role]
    if text not in names:
        raise InvalidArgument(f"unknown role '{text}'.", hint=f"Use one of {', '.join(names)}.", field="role")
    return Role[text.upper()]


class _WrittenToken(TypedDict):
    id: str
    name: str
    role: str
    created_at: str
    created_by: NotRequired[str]
    expires_at: NotRequired[str | None]
    digest: str


class Token(NamedTuple):
    id: str
    name: str
    role: Role
    digest: str
    created_at: Instant
    created_by: str = ""
    expires_at: Instant | None = None

    @property
    def state(self) -> TokenState:
        """The token without what proves it."""
        return TokenState(*self._shown)

    def shown_with(self, text: str) -> NewToken:
        """The token with its text, which is shown once."""
        return NewToken(*self._shown, token=text)

    @property
    def _shown(self) -> tuple[str, str, str, datetime, str, datetime | None]:
        expires_at = None if self.expires_at is None else to_datetime(self.expires_at)
        return self.id, self.name, str(self.role), to_datetime(self.created_at), self.created_by, expires_at


class Tokens:
    """The tokens of a state folder; commands and the server may change them at once."""

    def __init__(self, state_folder: Path, now: Callable[[], Instant] = now_by_the_clock) -> None:
        self._path = state_folder / FILE
        self._first = state_folder / FIRST_FILE
        self._now = now
        self._stamp: tuple[int, int, int] | None = None
        self._tokens: dict[str, Token] = {}

    def create(self, name: str, role: Role, *, by: str = "", expires_at: Instant | None = None) -> tuple[Token, str]:
        """A new token and its text, which cannot be shown again."""
        if not _NAME.fullmatch(name):
            raise InvalidArgument(
                f"invalid token name '{name}'.", hint="Write up to 64 letters, digits, '.', '_', '@' and '-'."
            )
        if expires_at is not None and expires_at <= self._now():
            raise InvalidArgument("the expiry is in the past.", hint="Write a future time.")
        with locked(self._path):
            tokens = self._read()
            if any(one.name == name for one in tokens.values()):
                raise Conflict(f"the token '{name}' already exists. Next: revoke it, or use another name.")
            if len(tokens) >= TOKENS_MAX:
                raise Conflict(f"the limit of {len(tokens):,} tokens is reached. Next: revoke some.")
            token, text = _new(name, role, self._now(), by, expires_at)
            self._write({**tokens, token.id: token})
        return token, text

    def list(self) -> Sequence[Token]:
        return sorted(self._current().values(), key=lambda token: (token.created_at, token.id))

    def revoke(self, name_or_id: str) -> Token:
        with locked(self._path):
            tokens = self._read()
            found = [one for one in tokens.values() if name_or_id in (one.id, one.name)]
            if not found:
                raise NotFound(f"unknown token '{name_or_id}'.", tuple(one.name for one in tokens.values())[:3])
            self._write({key: one for key, one in tokens.items() if one is not found[0]})
            if self.first() is not None and _digest(self.first() or "") == found[0].digest:
                self._first.unlink(missing_ok=True)
        return found[0]

    def check(self, text: str) -> Token | None:
        """The token with this text; None if it is unknown or no longer valid."""
        parts = _TEXT.fullmatch(text)
        token = self._current().get(parts[1]) if parts else None
        # The same work whether or not there is such a token.
        is_same = hmac.compare_digest(_digest(text), token.digest if token else "0" * 64)
        if token is None or not is_same or not self.is_good(token):
            return None
        return token

    def find(self, token_id: str) -> Token | None:
        """A token that is still good."""
        token = self._current().get(token_id)
        return token if token is not None and self.is_good(token) else None

    def is_good(self, token: Token) -> bool:
        return token.expires_at is None or self._now() < token.expires_at

    def ensure_first(self) -> str | None:
        """At the first start, a token for the folder's owner; None if there are tokens already."""
        with locked(self._path):
            if self._path.exists():
                return None
            token, text = _new("admin", Role.ADMIN, self._now(), "first start", None)
            write_private(self._first, f"{text}\n".encode())
            self._write({token.id: token})
        return text

    def first(self) -> str | None:
        """The first token, where it is still kept."""
        content = read_private(self._first)
        return None if content is None else content.decode("ascii", "replace").strip()

    def _current(self) -> dict[str, Token]:
        """Read again only when the file is another: a check costs a look at its stamp."""
        try:
            status = os.stat(self._path)
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        except FileNotFoundError:
            stamp = None
        if stamp is None or stamp != self._stamp:
            self._tokens, self._stamp = self._read(), stamp
        return self._tokens

    def _read(self) -> dict[str, Token]:
        content = read_private(self._path)
        if content is None:
            return {}
        try:
            found = [_from_plain(plain) for plain in json.loads(content)["tokens"]]
        except (ValueError, KeyError, TypeError) as error:
            # Fail closed: a file that cannot be read admits no caller.
            raise SettingsError(
                f"{self._path} is not a valid token file. Next: restore it, or move it away to start with none."
            ) from error
        return {token.id: token for token in found}

    def _write(self, tokens: dict[str, Token]) -> None:
        write_private(self._path, json.dumps({"tokens": [_to_plain(one) for one in tokens.values()]}).encode())


def _new(name: str, role: Role, now: Instant, by: str, expires_at: Instant | None) -> tuple[Token, str]:
    token_id = secrets.token_hex(6)
    text = f"evt_{token_id}_{secrets.token_urlsafe(32)}"
    return Token(token_id, name, role, _digest(text), now, by, expires_at), text


def _digest(text: str) -> str:
    # No salt and no stretching: 256 random bits cannot be guessed, and every request pays for this.
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _to_plain(token: Token) -> _WrittenToken:
    return {
        "id": token.id,
        "name": token.name,
        "role": str(token.role),
        "created_at": to_text(token.created_at),
        "created_by": token.created_by,
        "expires_at": None if token.expires_at is None else to_text(token.expires_at),
        "digest": token.digest,
    }


def _from_plain(plain: _WrittenToken) -> Token:
    expires_at = plain.get("expires_at")
    return Token(
        str(plain["id"]),
        str(plain["name"]),
        read_role(plain["role"]),
        str(plain["digest"]),
        from_text(plain["created_at"]),
        str(plain.get("created_by", "")),
        None if expires_at is None else from_text(expires_at),
    )

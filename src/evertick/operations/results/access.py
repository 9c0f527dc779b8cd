"""Access: sessions, tokens, settings and the audit log, which only the API and local commands show."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from evertick.operations.results.base import Result


@dataclass(frozen=True, slots=True)
class SessionState(Result):
    user: str
    role: str
    csrf: str | None
    version: str
    node: str
    timezone: str


@dataclass(frozen=True, slots=True)
class SettingLine(Result):
    name: str
    value: str
    default: str
    origin: str
    meaning: str
    variable: str


@dataclass(frozen=True, slots=True)
class SettingsList(Result):
    items: tuple[SettingLine, ...]


@dataclass(frozen=True, slots=True)
class TokenState(Result):
    id: str
    name: str
    role: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class TokenList(Result):
    items: tuple[TokenState, ...]


@dataclass(frozen=True, slots=True)
class NewToken(TokenState):
    token: str
    """Shown only once."""


@dataclass(frozen=True, slots=True)
class AuditLine(Result):
    number: int
    at: datetime
    by: str
    from_: str
    action: str
    target: str
    outcome: str
    detail: object
    previous: str
    hash: str
    key: str
    """The key that signed it."""


@dataclass(frozen=True, slots=True)
class AuditPage(Result):
    items: tuple[AuditLine, ...]
    next: str | None
    chain_ok: bool | None
    """Null on all but the first page, for which the whole chain is verified."""
    broken_at: int | None
    missing: int | None
    """Lines at the end that the ledger knows and the log does not have."""

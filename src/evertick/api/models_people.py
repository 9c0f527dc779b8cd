"""How answers look about who may do what, and who did."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from evertick.api.models_base import Moment, Shape


class SessionState(Shape):
    user: str
    role: str
    csrf: str | None
    version: str
    node: str
    timezone: str


class SettingLine(Shape):
    name: str
    value: str
    default: str
    origin: str
    meaning: str
    variable: str


class SettingsList(Shape):
    items: list[SettingLine]


class TokenState(Shape):
    id: str
    name: str
    role: str
    created_at: Moment
    created_by: str
    expires_at: Moment | None


class TokenList(Shape):
    items: list[TokenState]


class NewToken(TokenState):
    token: str = Field(description="Shown this once.")


class AuditLine(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)

    number: int
    at: Moment
    by: str
    origin: str = Field(alias="from")
    action: str
    target: str
    outcome: str
    detail: Any
    previous: str
    hash: str
    key: str = Field(description="Which key sealed it.")


class AuditPage(Shape):
    items: list[AuditLine]
    next: str | None
    chain_ok: bool | None = Field(description="Null on all but the first page, where the whole chain is followed.")
    broken_at: int | None
    missing: int | None = Field(description="Lines at the end that the ledger knows of and the log does not hold.")

"""How every answer is shaped, and how one looks that says what is wrong."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Moment = str
"""RFC 3339 in UTC."""


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """What is wrong, after RFC 9457; members beside these say more to programs."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str

"""Which other jobs a job waits for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AfterMode(StrEnum):
    ALL = "all"
    """Once each of them has succeeded."""
    ANY = "any"
    """Whenever one of them succeeds."""


@dataclass(frozen=True, slots=True)
class After:
    """Jobs whose success starts this one; next to a schedule, an occurrence waits for it."""

    jobs: tuple[str, ...]
    mode: AfterMode = AfterMode.ALL

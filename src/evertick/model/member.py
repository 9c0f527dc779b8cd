"""What is known about a place that runs attempts: a machine, or a member of the fleet."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from evertick.model.instant import Instant
from evertick.model.resources import Resources, lacking

Labels: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values by which jobs choose members, sorted."""

SLOTS_MAX: Final = 10_000
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class Closed(StrEnum):
    """Why a connected member accepts no new attempts."""

    CORDONED = "cordoned"
    LEAVING = "leaving"
    LEASE_TOO_LONG = "lease-too-long"
    """Its lease is longer than this node waits for it: attempts could run twice."""


class Member(NamedTuple):
    """A member as it was last seen."""

    name: str
    is_healthy: bool
    """It is connected and responds."""
    running: int
    labels: Labels = ()
    is_open: bool = True
    """Whether it accepts new attempts; not while it is cordoned or drained."""
    slots: int = 0
    """How many attempts it runs at once; 0: no limit."""
    version: str = ""
    address: str = ""
    seen_at: Instant = 0
    cpu_percent: float = 0.0
    memory_bytes: int = 0
    is_awaited: bool = False
    """It is away for less than its lease: it may reconnect in a moment."""
    is_expected: bool = False
    """Whether the settings name it: then it is missing when it is away."""
    offers: Resources = ()
    used: Resources = ()
    """The part of its resources that its attempts use."""
    closed: Closed | None = None
    """Why it is not open."""
    lease_us: int = 0
    """How long its runs continue without the fleet; 0: unknown."""
    waiting: int = 0
    """How many of its attempts wait for other runs: each lends its slot, or runs could wait for each other forever."""
    runs_items: bool = True
    """Whether it can run an item of another member's run; members of earlier versions cannot."""

    @property
    def is_full(self) -> bool:
        return 0 < self.slots <= self.running - self.waiting

    @property
    def free_slots(self) -> int:
        """How many more attempts it accepts; without a limit, far more than any other member."""
        return (self.slots or SLOTS_MAX) - self.running + self.waiting


def has_room(member: Member, asked: Resources) -> bool:
    return not lacking(asked, member.offers, member.used)


def is_member_name(text: str) -> bool:
    """Letters, digits, `_`, `.` and `-`, at most 63: a name that is safe in a path, a list and a line of text."""
    return _NAME.fullmatch(text) is not None

"""When a job is due, as it was written. `planning.schedules` turns these into fire times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

from evertick.model.instant import Instant, to_text


@dataclass(frozen=True, slots=True)
class CronSpec:
    """A cron expression, the zone it is read in, and the name that `H` hashes."""

    text: str
    timezone: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.timezone})"


@dataclass(frozen=True, slots=True)
class EverySpec:
    """A fixed interval, counted from the epoch, so that a restart or another node finds the same instants."""

    period_us: int

    def __str__(self) -> str:
        return f"every {self.period_us / 1_000_000:g}s"


@dataclass(frozen=True, slots=True)
class AtSpec:
    """One instant, once."""

    instant: Instant

    def __str__(self) -> str:
        return f"at {to_text(self.instant)}"


ScheduleSpec: TypeAlias = CronSpec | EverySpec | AtSpec


def specs_to_text(specs: tuple[ScheduleSpec, ...]) -> str:
    """Schedules as JSON, for the ledger."""
    return json.dumps([_to_plain(spec) for spec in specs], separators=(",", ":"))


def specs_from_text(text: str) -> tuple[ScheduleSpec, ...]:
    return tuple(_from_plain(plain) for plain in json.loads(text))


def _to_plain(spec: ScheduleSpec) -> dict[str, str | int]:
    match spec:
        case CronSpec(text, timezone, name):
            return {"cron": text, "timezone": timezone, "name": name}
        case EverySpec(period_us):
            return {"every_us": period_us}
        case AtSpec(instant):
            return {"at": instant}


def _from_plain(plain: dict[str, Any]) -> ScheduleSpec:
    if "cron" in plain:
        return CronSpec(plain["cron"], plain["timezone"], plain["name"])
    if "every_us" in plain:
        return EverySpec(plain["every_us"])
    return AtSpec(plain["at"])

"""When a job is due, as it was written. `planning.schedules` turns these into fire times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict

from evertick.model.calendar import CalendarRule, PlainRule, rule_from_plain, rule_to_plain
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


@dataclass(frozen=True, slots=True)
class CalendarSpec:
    """A schedule whose occurrences run on some days only; `timezone` decides which day an occurrence is on.

    A one-off time is never inside: it names its day.
    """

    schedule: CronSpec | EverySpec
    rule: CalendarRule
    timezone: str

    def __str__(self) -> str:
        return f"{self.schedule}, {self.rule}"


ScheduleSpec: TypeAlias = CronSpec | EverySpec | AtSpec | CalendarSpec


def written_spec(spec: ScheduleSpec) -> CronSpec | EverySpec | AtSpec:
    """The schedule as it is written, without its calendar."""
    return spec.schedule if isinstance(spec, CalendarSpec) else spec


def shared_zone(specs: Sequence[ScheduleSpec]) -> str:
    """The zone in which all cron expressions of a job are read; empty: there are none, or several."""
    if len(specs) == 1 and isinstance(only := specs[0], CronSpec):
        return only.timezone  # as nearly all jobs have it: a list asks for ten thousand
    zones = {spec.timezone for spec in map(written_spec, specs) if isinstance(spec, CronSpec)}
    return zones.pop() if len(zones) == 1 else ""


def has_calendar(specs: tuple[ScheduleSpec, ...]) -> bool:
    """Whether a calendar decides about any of them; asked for every launch, so without a generator."""
    for spec in specs:  # noqa: SIM110
        if type(spec) is CalendarSpec:
            return True
    return False


def rule_of(specs: tuple[ScheduleSpec, ...]) -> CalendarRule | None:
    """The calendar of a job, which is the same for all of its schedules."""
    return next((spec.rule for spec in specs if isinstance(spec, CalendarSpec)), None)


def specs_to_text(specs: tuple[ScheduleSpec, ...]) -> str:
    """Schedules as JSON, for the ledger."""
    return json.dumps([_to_plain(spec) for spec in specs], separators=(",", ":"))


def specs_from_text(text: str) -> tuple[ScheduleSpec, ...]:
    return tuple(_from_plain(plain) for plain in json.loads(text))


class _Plain(TypedDict, total=False):
    """A schedule in the ledger: the fields of its class."""

    cron: str
    timezone: str
    name: str
    every_us: int
    at: Instant
    calendar: PlainRule
    days_in: str


def _to_plain(spec: ScheduleSpec) -> _Plain:
    match spec:
        case CalendarSpec(schedule, rule, timezone):
            return {**_to_plain(schedule), "calendar": rule_to_plain(rule), "days_in": timezone}
        case CronSpec(text, timezone, name):
            return {"cron": text, "timezone": timezone, "name": name}
        case EverySpec(period_us):
            return {"every_us": period_us}
        case AtSpec(instant):
            return {"at": instant}


def _from_plain(plain: _Plain) -> ScheduleSpec:
    schedule = _without_calendar(plain)
    if "calendar" not in plain:
        return schedule
    assert isinstance(schedule, CronSpec | EverySpec)
    return CalendarSpec(schedule, rule_from_plain(plain["calendar"]), plain["days_in"])


def _without_calendar(plain: _Plain) -> CronSpec | EverySpec | AtSpec:
    if "cron" in plain:
        return CronSpec(plain["cron"], plain["timezone"], plain["name"])
    if "every_us" in plain:
        return EverySpec(plain["every_us"])
    return AtSpec(plain["at"])

"""Which days a job excludes, as values. Files and packages are read elsewhere: here every day is a number."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from enum import StrEnum
from typing import TypeAlias, TypedDict

Day: TypeAlias = int
"""A day of the calendar: days since 1970-01-01. Which day an instant is on depends on a zone."""

_EPOCH = date(1970, 1, 1)


def day_of_date(day: date) -> Day:
    return (day - _EPOCH).days


def date_of_day(day: Day) -> date:
    return _EPOCH + timedelta(days=day)


class Shift(StrEnum):
    """Where an occurrence on an excluded day moves to."""

    NEXT = "next"
    PREVIOUS = "previous"


@dataclass(frozen=True, slots=True)
class Calendar:
    """A named set of days. Two are equal if their days are; the names of the days decide nothing."""

    name: str
    weekdays: tuple[int, ...] = ()
    """Every week: 0 is Monday, 6 is Sunday."""
    days: tuple[Day, ...] = ()
    """In order."""
    labels: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The name of each of `days`; empty if unknown, as for a calendar that was read from the ledger."""
    data_through: Day | None = field(default=None, compare=False, repr=False)
    """The last day that its sources cover; None: they have no end, or it is unknown."""


@dataclass(frozen=True, slots=True)
class CalendarRule:
    """The days on which the occurrences of a job run."""

    skip: tuple[Calendar, ...] = ()
    """Not on a day of any of these."""
    only: tuple[Calendar, ...] = ()
    """Only on a day of one of these; empty: on every day."""
    shift: Shift | None = None
    """Where an occurrence of another day moves to; None: it is skipped."""

    def __str__(self) -> str:
        parts = [f"{word} {', '.join(one.name for one in found)}" for word, found in self.named if found]
        return "; ".join([*parts, *([f"shift {self.shift}"] if self.shift else [])])

    @property
    def named(self) -> tuple[tuple[str, tuple[Calendar, ...]], ...]:
        return ("skip", self.skip), ("only", self.only)


class PlainCalendar(TypedDict):
    """A calendar in the ledger."""

    name: str
    weekdays: list[int]
    days: list[int]
    """Each as the distance from the one before it."""


class PlainRule(TypedDict, total=False):
    """A calendar rule in the ledger: the days without their names."""

    skip: list[PlainCalendar]
    only: list[PlainCalendar]
    shift: str


def rule_to_plain(rule: CalendarRule) -> PlainRule:
    plain: PlainRule = {}
    if rule.skip:
        plain["skip"] = [_to_plain(one) for one in rule.skip]
    if rule.only:
        plain["only"] = [_to_plain(one) for one in rule.only]
    if rule.shift:
        plain["shift"] = str(rule.shift)
    return plain


def rule_from_plain(plain: PlainRule) -> CalendarRule:
    skip, only = (tuple(map(_from_plain, found)) for found in (plain.get("skip", ()), plain.get("only", ())))
    return CalendarRule(skip, only, Shift(plain["shift"]) if "shift" in plain else None)


def _to_plain(calendar: Calendar) -> PlainCalendar:
    steps = [day - before for before, day in zip((0, *calendar.days), calendar.days, strict=False)]
    return {"name": calendar.name, "weekdays": list(calendar.weekdays), "days": steps}


def _from_plain(plain: PlainCalendar) -> Calendar:
    days: list[Day] = []
    for step in plain["days"]:
        days.append(step + (days[-1] if days else 0))
    return Calendar(plain["name"], tuple(plain["weekdays"]), tuple(days))

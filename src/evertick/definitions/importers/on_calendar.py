"""The cron expression, or the single time, of a systemd calendar expression (`OnCalendar=`)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

from evertick.settings import is_zone

_SHORTHANDS: Final = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
}
_DAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_WEEKDAYS: Final = re.compile(r"[A-Za-z][A-Za-z,.]*")
_DATE: Final = re.compile(r"(?:(?P<year>[\d*.,/]+)-)?(?P<month>[\d*.,/]+)(?:-(?P<day>[\d*.,/]+)|~(?P<back>[\d*.,/]+))")
_TIME: Final = re.compile(r"(?P<hour>[\d*.,/]+):(?P<minute>[\d*.,/]+)(?::(?P<second>[\d*.,/]+))?")
_PART: Final = re.compile(r"(?:(\*)|0*(\d+)(?:\.\.0*(\d+))?)(?:/0*(\d+))?")
_FIRST_WEEKS: Final = {"1-7": 1, "8-14": 2, "15-21": 3, "22-28": 4}
"""Days of the month that hold the n-th of each weekday."""


class CalendarTime(NamedTuple):
    """When a calendar expression is due: one of `cron` and `at`."""

    cron: str | None = None
    at: str | None = None
    zone: str | None = None


def from_on_calendar(text: str) -> CalendarTime:
    """The same times as cron; ValueError with the reason where cron cannot say it."""
    words = text.split()
    zone = words.pop() if words and _is_zone(words[-1]) else None
    written = " ".join(words)
    words = _SHORTHANDS.get(written.lower(), written).split()
    weekdays = _read_weekdays(words.pop(0)) if words and _WEEKDAYS.fullmatch(words[0]) else "*"
    date = _DATE.fullmatch(words.pop(0)) if words and _DATE.fullmatch(words[0]) else None
    time = _TIME.fullmatch(words.pop(0)) if words and _TIME.fullmatch(words[0]) else None
    if words or not written:
        raise ValueError(f"'{text}' is not a supported calendar expression")
    second, minute, hour = (_field(time[name] or "0") if time else "0" for name in ("second", "minute", "hour"))
    year, month, day = _read_date(date)
    if year != "*":
        return _single(text, (year, month, day, hour, minute, second), weekdays, zone)
    weekdays, day = _join_days(weekdays, day)
    fields = [minute, hour, day, month, weekdays]
    return CalendarTime(cron=" ".join(fields if second == "0" else [second, *fields]), zone=zone)


def _is_zone(word: str) -> bool:
    if word.lower() in _SHORTHANDS or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", word):
        return False
    if all(day[:3].upper() in _DAYS for day in re.split(r",|\.\.", word)):
        return False
    return is_zone(word)


def _read_weekdays(text: str) -> str:
    found: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("..")
        begin, end = _weekday(first), _weekday(last or first)
        # A range may pass the end of the week; a range of cron may not.
        found += (
            [_DAYS[(begin + step) % 7] for step in range((end - begin) % 7 + 1)]
            if end < begin
            else [_DAYS[begin] if begin == end else f"{_DAYS[begin]}-{_DAYS[end]}"]
        )
    return ",".join(found)


def _weekday(name: str) -> int:
    names = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    for number, full in enumerate(names):
        if name.lower() in (full, full[:3]):
            return number
    raise ValueError(f"'{name}' is not a weekday")


def _read_date(found: re.Match[str] | None) -> tuple[str, str, str]:
    if found is None:
        return "*", "*", "*"
    year = _field(found["year"] or "*")
    if found["back"] is None:
        return year, _field(found["month"]), _field(found["day"])
    if _field(found["back"]) != "1":
        raise ValueError(f"cron has only the last day of a month (~01), not '~{found['back']}'")
    return year, _field(found["month"]), "L"


def _field(text: str) -> str:
    """One field: `..` is cron's `-`; numbers lose their leading zeros."""
    parts = []
    for part in text.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise ValueError(f"cron cannot express '{part}'")
        every, first, last, step = found.groups()
        parts.append((every or first + (f"-{last}" if last else "")) + (f"/{step}" if step else ""))
    return ",".join(parts)


def _join_days(weekdays: str, day: str) -> tuple[str, str]:
    """systemd wants both the weekday and the day of the month to match, cron either, where both are limited."""
    if weekdays == "*" or day.startswith("*"):
        return weekdays, day
    week = _FIRST_WEEKS.get(day)
    if week is None or "-" in weekdays:
        raise ValueError("cron cannot require a weekday and a day of the month at once")
    return ",".join(f"{name}#{week}" for name in weekdays.split(",")), "*"


def _single(text: str, parts: tuple[str, ...], weekdays: str, zone: str | None) -> CalendarTime:
    """A whole date is one time; cron has no years."""
    if weekdays != "*" or not all(part.isdecimal() for part in parts):
        raise ValueError(f"'{text}' names a year, which a repeated schedule cannot")
    try:
        at = datetime(*map(int, parts))  # type: ignore[arg-type]  # noqa: DTZ001
    except ValueError as error:
        raise ValueError(f"'{text}' is not a date: {error}") from error
    return CalendarTime(at=at.isoformat(), zone=zone)

"""Formats instants and durations for people, in a job's time zone."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from evertick.errors import DefinitionError, DurationError, InvalidArgument
from evertick.model.duration import parse_duration
from evertick.model.instant import SECOND, Instant, from_datetime, to_datetime
from evertick.planning.schedules import Schedule
from evertick.planning.zones import find_zone

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
# Spelled out instead of \d, which takes the digits of every script.
_RELATIVE = re.compile(r"([+-]?)((?:[0-9]+[a-z]+)+)")


def moment_text(at: Instant, zone: str) -> str:
    """`2026-03-02 03:00`, with seconds where there are any."""
    return f"{_local(at, zone):%Y-%m-%d} {clock_text(at, zone)}"


def clock_text(at: Instant, zone: str, *, exact: bool = False) -> str:
    """`03:00`; with seconds where there are any or when `exact`, to the millisecond."""
    local = _local(at, zone)
    if not exact and not local.second and not local.microsecond:
        return f"{local:%H:%M}"
    return f"{local:%H:%M:%S}" + (f".{local.microsecond // 1_000:03d}" if local.microsecond else "")


def time_text(at: Instant, zone: str, beside: Instant) -> str:
    """The exact clock time, and the date too where it is another day than that of `beside`."""
    clock = clock_text(at, zone, exact=True)
    day = _local(at, zone).date()
    return clock if day == _local(beside, zone).date() else f"{day:%Y-%m-%d} {clock}"


def local_text(at: Instant, zone: str) -> str:
    """`Mon 2026-03-02 09:00:00`, on the clocks of a zone."""
    fraction = at % SECOND
    return f"{_local(at, zone):%a %Y-%m-%d %H:%M:%S}" + (f".{fraction:06d}".rstrip("0") if fraction else "")


def offset_text(at: Instant, zone: str) -> str:
    """`+01:00`: what the clocks of a zone show beyond UTC then."""
    text = f"{_local(at, zone):%z}"
    return f"{text[:3]}:{text[3:5]}"


def read_moment(
    text: str,
    zone: str,
    schedules: tuple[Schedule, ...] = (),
    *,
    now: Instant | None = None,
    is_ahead: bool = False,
) -> Instant:
    """A time with an offset, a local time of a zone, or, where `now` is given, a relative time.

    A local time that comes twice in a night is the one at which the schedule is due, else the first.
    """
    relative = None if now is None else read_relative(text, zone, now, is_ahead=is_ahead)
    if relative is not None:
        return relative
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        also = "" if now is None else ", or relative: yesterday, -2d, 1h"
        raise InvalidArgument(
            f"'{text}' is not a time.",
            hint=f"Write for example 2026-03-02T03:00, or with an offset: 2026-03-02T02:00Z{also}.",
        ) from None
    if not 1970 < moment.year < 2200:
        raise InvalidArgument(f"'{text}' is out of range.", hint="Write a year from 1971 to 2199.")
    if moment.tzinfo is not None:
        return from_datetime(moment)
    passes = [from_datetime(moment.replace(tzinfo=ZoneInfo(zone), fold=fold)) for fold in (0, 1)]
    return next((at for at in passes if is_due(schedules, at)), passes[0])


def read_relative(text: str, zone: str, now: Instant, *, is_ahead: bool) -> Instant | None:
    """`now`, `today` (its midnight in a zone), `yesterday`, `tomorrow`, `-2d`, `+3h`; None for any other text.

    A duration without a sign, `1h`, is ago, or from now where only a time in the future makes sense (`is_ahead`).
    """
    if text == "now":
        return now
    if text in _DAYS:
        day = _local(now, zone).date() + timedelta(days=_DAYS[text])
        return from_datetime(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)))
    found = _RELATIVE.fullmatch(text)
    if found is None:
        return None
    try:
        span_us = parse_duration(found[2])
    except DurationError as error:
        raise InvalidArgument(error.reason, hint=error.hint) from None
    goes_ahead = found[1] == "+" or (not found[1] and is_ahead)
    return max(now + span_us if goes_ahead else now - span_us, 0)


def check_zone(name: str) -> None:
    """`InvalidArgument` unless it is the name of a time zone."""
    try:
        find_zone(name)
    except DefinitionError as error:
        raise InvalidArgument(error.reason, hint=error.hint, field="timezone") from None


def is_due(schedules: tuple[Schedule, ...], at: Instant) -> bool:
    return any(schedule.next_after(at - 1) == at for schedule in schedules)


def _local(at: Instant, zone: str) -> datetime:
    return to_datetime(at).astimezone(ZoneInfo(zone))

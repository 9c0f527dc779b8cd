"""Formats instants and durations for people, in a job's time zone."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from evertick.errors import InvalidArgument
from evertick.model.instant import SECOND, Instant, from_datetime, to_datetime
from evertick.planning.schedules import Schedule


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


def read_moment(text: str, zone: str, schedules: tuple[Schedule, ...] = ()) -> Instant:
    """A time as somebody writes it: with an offset, or on the clocks of a zone.

    A local time that comes twice in a night is the one at which the schedule is due, else the first.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"'{text}' is not a time.", hint="Write for example 2026-03-02T03:00, or with an offset: 2026-03-02T02:00Z."
        ) from None
    if not 1970 < moment.year < 2200:
        raise InvalidArgument(f"'{text}' is out of range.", hint="Write a year from 1971 to 2199.")
    if moment.tzinfo is not None:
        return from_datetime(moment)
    passes = [from_datetime(moment.replace(tzinfo=ZoneInfo(zone), fold=fold)) for fold in (0, 1)]
    return next((at for at in passes if is_due(schedules, at)), passes[0])


def is_due(schedules: tuple[Schedule, ...], at: Instant) -> bool:
    return any(schedule.next_after(at - 1) == at for schedule in schedules)


def _local(at: Instant, zone: str) -> datetime:
    return to_datetime(at).astimezone(ZoneInfo(zone))

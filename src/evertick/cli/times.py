"""Formats instants and durations for people, and parses them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import click

from evertick.errors import InvalidArgument
from evertick.model.instant import SECOND, Instant, from_datetime, from_text, to_datetime


class MomentType(click.ParamType[Instant]):
    """RFC 3339 with an offset, or without one for UTC; or relative to now."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Instant:
        if isinstance(value, int):
            return value
        from evertick.operations.time_text import read_relative

        try:
            relative = read_relative(str(value), "UTC", now(), is_ahead=True)
        except InvalidArgument as error:
            self.fail(str(error), param, ctx)
        if relative is not None:
            return relative
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"Invalid time '{value}'. Write for example 2027-03-01T09:00:00+01:00.", param, ctx)
        if not 1970 < moment.year < 2200:
            self.fail(f"The time '{value}' is out of range. Use a year from 1971 to 2199.", param, ctx)
        return from_datetime(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


MOMENT = MomentType()


def now() -> Instant:
    return from_datetime(datetime.now(UTC))


def local_text(instant: Instant, zone: str, *, seconds: bool = True) -> str:
    """`Mon 2026-03-02 09:00:00`, in a time zone."""
    pattern = "%a %Y-%m-%d %H:%M:%S" if seconds else "%a %Y-%m-%d %H:%M"
    moment = to_datetime(instant).astimezone(ZoneInfo(zone))
    fraction = instant % SECOND
    return moment.strftime(pattern) + (f".{fraction:06d}".rstrip("0") if seconds and fraction else "")


def whole_second_text(moment: datetime, zone: str) -> str:
    """The same without a fraction: for times at which something happened, not for due times."""
    return local_text(from_datetime(moment.replace(microsecond=0)), zone)


def utc_text(text: str) -> str:
    """The same in UTC, for a time in RFC 3339."""
    return whole_second_text(to_datetime(from_text(text)), "UTC")

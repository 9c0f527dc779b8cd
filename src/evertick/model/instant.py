"""How an instant is written down: whole microseconds since 1970-01-01T00:00Z.

Integers compare, hash, add and store faster than datetimes and cannot lose their zone. Datetimes live at the
edges: definitions, the library, the command line, the page.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from evertick.errors import InvalidArgument

Instant: TypeAlias = int
"""Microseconds since the epoch, UTC."""

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_datetime(instant: Instant) -> datetime:
    """The aware UTC datetime of an instant."""
    return _EPOCH + timedelta(microseconds=instant)


def from_datetime(moment: datetime) -> Instant:
    """The instant of an aware datetime; a naive one is refused, because its zone would be a guess."""
    if moment.tzinfo is None:
        raise InvalidArgument(f"a datetime without a zone is not an instant: {moment!r}. Add tzinfo, for example UTC.")
    return (moment - _EPOCH) // _MICROSECOND


def to_text(instant: Instant) -> str:
    """RFC 3339 in UTC, without a fraction where there is none: 2026-03-02T09:00:00Z."""
    second, fraction = divmod(instant, SECOND)
    return f"{_second_text(second)}.{fraction:06d}".rstrip("0") + "Z" if fraction else f"{_second_text(second)}Z"


@lru_cache(maxsize=1 << 12)
def _second_text(second: int) -> str:
    # Cached: a response names thousands of instants, and most of them are those of the response before.
    return to_datetime(second * SECOND).replace(tzinfo=None).isoformat()


def from_text(text: str) -> Instant:
    """The instant written as RFC 3339 with an offset."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset. Write it with one: {text}Z or {text}+01:00.")
    return from_datetime(moment)

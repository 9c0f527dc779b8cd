"""What is scheduled in the benchmarks: expressions that every contender reads alike.

Weekdays are names, because APScheduler numbers them from Monday; no expression limits both the day of the month
and the weekday, because it joins them with "and"; none is due at midnight on the first of every month, because it
leaves one of those out in New York; no time lies in an hour that a zone skips or repeats.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, product

TWENTY = (
    "* * * * *",
    "*/5 * * * *",
    "*/15 * * * *",
    "0 * * * *",
    "30 * * * *",
    "10,40 * * * *",
    "0 */2 * * *",
    "0 */6 * * *",
    "0 0 * * *",
    "30 4 * * *",
    "0 8,12,18 * * *",
    "*/10 9-17 * * MON-FRI",
    "0 9 * * MON-FRI",
    "0 22 * * SUN",
    "45 23 * * FRI",
    "0 10 * * SAT,SUN",
    "0 7 1 * *",
    "0 6 1,15 * *",
    "5 0 1 */3 *",
    "0 12 1 1 *",
)
ZONES = ("UTC", "America/New_York")
MONDAY_NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
APRIL = datetime(2026, 4, 1, 0, 30, 10, tzinfo=UTC)

_WEEKDAYS = ("*", "MON-FRI", "MON", *(f"MON,{day}" for day in ("TUE", "WED", "THU", "FRI", "SAT", "SUN")))
_WEEKDAYS += ("MON-TUE", "MON-WED", "MON-THU")


def due_once_after_nine(count: int) -> list[str]:
    """Different expressions, each due exactly once on a Monday after 09:00, up to and including 10:00."""
    chosen = product(range(10, 24), _WEEKDAYS, range(60))
    found = [f"{minute} 8-{hour} * * {weekday}" for hour, weekday, minute in islice(chosen, count)]
    if len(found) < count:
        raise ValueError(f"there are only {len(found)} of them, not {count}")
    return found


def distinct(count: int) -> list[str]:
    """Different expressions, with seconds, due once a month each."""
    chosen = product(range(1, 29), range(24), range(60), range(60))
    return [f"{second} {minute} {hour} {day} * *" for day, hour, minute, second in islice(chosen, count)]

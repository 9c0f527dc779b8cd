"""Cron the slow way: step through time and apply the rules literally.

Shares no code with the engine: fields are expanded by hand, days come from `calendar`, offsets from `zoneinfo` one
instant at a time, and zone files are read byte by byte.
"""

from __future__ import annotations

import calendar
import importlib.resources
import random
import struct
import zoneinfo
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

HOUR = 3600
DAY = 24 * HOUR
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
ZONES = sorted(zoneinfo.available_timezones() - {"localtime", "Factory"})


def _rules(zone: str) -> bytes:
    """What the zone's file says; its name, where the package of zones has no such file."""
    file = importlib.resources.files("tzdata") / "zoneinfo" / zone
    return file.read_bytes() if file.is_file() else zone.encode()


DISTINCT_ZONES = sorted({_rules(zone): zone for zone in ZONES}.values())
"""Each once: many zones have several names."""


class SlowCron:
    """A cron expression without `H` and aliases, matched one local second at a time."""

    def __init__(self, text: str) -> None:
        words = text.upper().split()
        self.words = words if len(words) == 6 else ["0", *words]
        second, minute, hour, month_day, month, weekday = self.words
        self.seconds = plain_numbers(second, 0, 59)
        self.minutes = plain_numbers(minute, 0, 59)
        self.hours = plain_numbers(hour, 0, 23)
        self.months = plain_numbers(month, 1, 12, MONTHS)
        self.month_day, self.weekday = month_day, weekday
        self.needs_both = month_day[0] in "*?" or weekday[0] in "*?"
        self.is_wildcard = "*" in (second[0], minute[0], hour[0])
        self.days: dict[tuple[int, int, int], bool] = {}

    def matches(self, local: datetime) -> bool:
        if local.second not in self.seconds or local.minute not in self.minutes or local.hour not in self.hours:
            return False
        day = (local.year, local.month, local.day)
        if day not in self.days:
            self.days[day] = self.matches_day(*day)
        return self.days[day]

    def matches_day(self, year: int, month: int, day: int) -> bool:
        if month not in self.months:
            return False
        by_date = any(date_item_matches(item, year, month, day) for item in self.month_day.split(","))
        by_weekday = any(weekday_item_matches(item, year, month, day) for item in self.weekday.split(","))
        return (by_date and by_weekday) if self.needs_both else (by_date or by_weekday)


def plain_numbers(field: str, low: int, high: int, names: list[str] | None = None) -> set[int]:
    """`*`, numbers, names, ranges and steps of one field, every number tried in turn."""
    names = names or []

    def number(word: str) -> int:
        return names.index(word) + low if word in names else int(word)

    found = set()
    for item in field.split(","):
        body, _, step = item.partition("/")
        if body in ("*", "?"):
            first, last = low, high
        elif "-" in body:
            first, last = (number(word) for word in body.split("-"))
            if body.endswith("SUN") and body != "SUN-SUN":
                last = 7
        else:
            first = number(body)
            last = max(first, high) if step else first
        found |= {n for n in range(first, last + 1) if (n - first) % int(step or 1) == 0}
    return found


def date_item_matches(item: str, year: int, month: int, day: int) -> bool:
    length = calendar.monthrange(year, month)[1]
    working = [d for d in range(1, length + 1) if calendar.weekday(year, month, d) < 5]
    if item == "L":
        return day == length
    if item == "LW":
        return day == working[-1]
    if item.endswith("W"):
        wanted = int(item[:-1])
        return wanted <= length and day == min(working, key=lambda d: (abs(d - wanted), d))
    return day in plain_numbers(item, 1, 31)


def weekday_item_matches(item: str, year: int, month: int, day: int) -> bool:
    length = calendar.monthrange(year, month)[1]
    weekday = (calendar.weekday(year, month, day) + 1) % 7
    if "#" in item:
        wanted, nth = item.split("#")
        return weekday in {n % 7 for n in plain_numbers(wanted, 0, 6, WEEKDAYS)} and (day + 6) // 7 == int(nth)
    if item.endswith("L"):
        return weekday in {n % 7 for n in plain_numbers(item[:-1], 0, 6, WEEKDAYS)} and day + 7 > length
    return weekday in {n % 7 for n in plain_numbers(item, 0, 6, WEEKDAYS)}


def slow_fires(text: str, zone_name: str, start: int, end: int, step: int = 60) -> list[int]:
    """The fires after `start` up to `end`, by walking in steps; changes of the clock must fall on a step.

    The walk begins six hours early, to know of a change whose repeated hours reach into the stretch.
    """
    cron, zone = SlowCron(text), ZoneInfo(zone_name)
    fires = []
    repeated_until = early = start - 6 * HOUR
    before = datetime.fromtimestamp(early - step, zone)
    for instant in range(early, end + 1, step):
        now = datetime.fromtimestamp(instant, zone)
        asked_for = [now.replace(tzinfo=None)]
        if not cron.is_wildcard:
            change = seconds_of(now.utcoffset()) - seconds_of(before.utcoffset())
            if 0 < change < 3 * HOUR:  # rule 3: what was skipped is due now
                skipped = [timedelta(seconds=ago) for ago in range(step, change + 1, step)]
                asked_for += [asked_for[0] - ago for ago in skipped]
            if -3 * HOUR <= change < 0:  # rule 4: the first pass has served these
                repeated_until = max(repeated_until, instant - change)
            if change < -3 * HOUR:  # rule 5
                repeated_until = instant
        before = now
        if instant > start and instant >= repeated_until and any(map(cron.matches, asked_for)):
            fires.append(instant)
    return fires


def seconds_of(offset: timedelta | None) -> int:
    assert offset is not None
    return offset // timedelta(seconds=1)


def zone_file_changes(name: str) -> list[tuple[int, int]]:
    """(instant, new offset) of every change of offset that the zone's file lists, from its second block."""
    data = zone_file(name)
    body = 44 + _block_length(data, 0, 4)
    assert data[body : body + 4] == b"TZif"
    _, _, _, times, types, _ = struct.unpack_from(">6l", data, body + 20)
    at = body + 44
    instants = struct.unpack_from(f">{times}q", data, at)
    kinds = data[at + times * 8 : at + times * 9]
    offsets = [struct.unpack_from(">l", data, at + times * 9 + kind * 6)[0] for kind in range(types)]
    found = [(instant, offsets[kind]) for instant, kind in zip(instants, kinds, strict=True)]
    return [later for sooner, later in pairwise([(0, offsets[0]), *found]) if sooner[1] != later[1]]


def _block_length(data: bytes, start: int, width: int) -> int:
    _, standard, leaps, times, types, letters = struct.unpack_from(">6l", data, start + 20)
    utc = struct.unpack_from(">l", data, start + 20)[0]
    return times * (width + 1) + types * 6 + letters + leaps * (width + 4) + standard + utc


def zone_file(name: str) -> bytes:
    """The same file that `zoneinfo` reads: the system's, else that of the tzdata package."""
    for folder in zoneinfo.TZPATH:
        if (path := Path(folder, name)).is_file():
            return path.read_bytes()
    return importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()


def random_expression(rng: random.Random, *, special_days: bool = True) -> str:
    """Any expression the grammar has, mostly of the kind people write."""
    minute = rng.choice(["0", "30", "*", "*/5", "*/15", "0,20,40", "10-20", "7/9", "59", str(rng.randrange(60))])
    hour = rng.choice(["*", "0", "1", "2", "3", "*/2", "0-23", "1-3", "22,23", "2/5", str(rng.randrange(24))])
    month_day = rng.choice(["*"] * 4 + ["1", "15", "31", "1-7", "*/2", "28-31", "1,15", "10/7"])
    month = rng.choice(["*"] * 5 + ["1", "3,10", "FEB", "MAR-MAY", "*/3", "10-12"])
    weekday = rng.choice(["*"] * 4 + ["MON-FRI", "0", "7", "SUN", "5-7", "1,3,5", "*/2", "SAT"])
    if special_days and rng.random() < 0.3:
        month_day = rng.choice(["L", "LW", "15W", "1W,30W", "L,1", "?"])
    if special_days and rng.random() < 0.3:
        weekday = rng.choice(["FRIL", "1#1", "5,6#3", "SUN#5", "?", "7L,1#2"])
    return f"{minute} {hour} {month_day} {month} {weekday}"

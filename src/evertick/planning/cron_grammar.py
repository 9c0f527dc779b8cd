"""How a cron expression is read: text to sets of numbers, or an error that says what to write instead."""

from __future__ import annotations

import difflib
import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple, NoReturn

from evertick.errors import CronError
from evertick.planning.cron_field import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    FieldValues,
    clip,
    read_field,
)
from evertick.planning.cron_pattern import DayRule

LENGTH_MAX = 1000
"""Characters in an expression; sixty minutes written out one by one take 170."""
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIVE = "minute hour day-of-month month day-of-week"
_ZONE_PREFIX = "CRON_TZ="
_YEAR = re.compile(r"(?:19|20|21|22)[0-9][0-9]")


class Expression(NamedTuple):
    """An expression taken apart."""

    text: str
    """As it was written, but with single spaces, names in capitals, and without its zone."""
    zone: str | None
    """The zone of a `CRON_TZ=` prefix."""
    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: DayRule
    is_wildcard: bool
    uses_name: bool


def read_expression(text: str, name: str = "") -> Expression:
    """Take a cron expression apart; `name` is what `H` hashes."""
    if len(text) > LENGTH_MAX:
        _refuse(text, f"it is {len(text)} characters long.", f"Write at most {LENGTH_MAX}.")
    _refuse_strange_characters(text)
    words = text.split()
    zone = None
    if words and words[0].startswith(_ZONE_PREFIX):
        zone = words.pop(0).removeprefix(_ZONE_PREFIX)
        if not zone:
            _refuse(text, "CRON_TZ= names no zone.", "Write CRON_TZ=Europe/Berlin, or leave it out.")
    if not words:
        _refuse(text, "it is empty.", f"Write five fields: {_FIVE}.")
    if words[0].startswith("@"):
        normal = _read_alias(text, words)
        words = ALIASES[normal].split()
    else:
        normal = " ".join(words).upper()
        words = normal.split(" ")
        if len(words) not in (5, 6) or "=" in words[0] or len(words[-1]) > 3:
            _refuse_wrong_shape(text, words)
    second, minute, hour, month_day, month, weekday = words if len(words) == 6 else ["0", *words]
    try:
        seconds = _read(SECOND, second, name)
        minutes = _read(MINUTE, minute, name)
        hours = _read(HOUR, hour, name)
        days = _read_days(month_day, month, weekday, name)
    except CronError as error:
        _refuse(text, error.reason, error.hint)
    is_wildcard = second[0] == "*" or minute[0] == "*" or hour[0] == "*"
    uses_name = seconds.is_hashed or minutes.is_hashed or hours.is_hashed or days.is_hashed
    return Expression(normal, zone, seconds.numbers, minutes.numbers, hours.numbers, days.rule, is_wildcard, uses_name)


class _Days(NamedTuple):
    rule: DayRule
    is_hashed: bool


def _read_days(month_day: str, month: str, weekday: str, name: str) -> _Days:
    """The three day fields together: a hundred thousand expressions have few of them."""
    is_hashed = "H" in month_day or "H" in month or "H" in weekday
    return _read_days_kept(month_day, month, weekday, name if is_hashed else "")


@lru_cache(maxsize=4096)
def _read_days_kept(month_day: str, month: str, weekday: str, name: str) -> _Days:
    fields = [
        _read(kind, text, name) for kind, text in ((DAY_OF_MONTH, month_day), (MONTH, month), (DAY_OF_WEEK, weekday))
    ]
    rule = _day_rule(*fields, needs_both=month_day[0] in "*?" or weekday[0] in "*?")
    return _Days(rule, any(values.is_hashed for values in fields))


@lru_cache(maxsize=4096)
def _read_nameless(kind: str, text: str) -> FieldValues:
    return read_field(kind, text, "")


def _read(kind: str, text: str, name: str) -> FieldValues:
    """Fields recur between expressions, so their meaning is kept; that of `H` differs from job to job."""
    return read_field(kind, text, name) if "H" in text else _read_nameless(kind, text)


def _day_rule(month_days: FieldValues, months: FieldValues, weekdays: FieldValues, *, needs_both: bool) -> DayRule:
    return DayRule(
        month_days=_mask(month_days.numbers),
        months=_mask(months.numbers),
        weekdays=_mask(weekdays.numbers),
        needs_both=needs_both,
        last_day=month_days.last_day,
        last_workday=month_days.last_workday,
        nearest_workdays=_mask(month_days.nearest_workdays),
        last_weekdays=_mask(weekdays.last_weekdays),
        nth_weekdays=weekdays.nth_weekdays,
    )


def _mask(numbers: tuple[int, ...]) -> int:
    return sum(1 << number for number in numbers)


def _read_alias(text: str, words: list[str]) -> str:
    alias = words[0].lower()
    if alias == "@every":
        period = words[1] if len(words) > 1 else "5m"
        _refuse(text, "@every is an interval, not a time of the calendar.", f"Write every: {clip(period)}.")
    if alias == "@reboot":
        _refuse(text, "@reboot has no time.", "Start the command from a systemd unit instead.")
    if alias not in ALIASES:
        near = difflib.get_close_matches(clip(alias), ALIASES, 1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Write one of {', '.join(ALIASES)}."
        _refuse(text, f"{clip(alias)!r} is not known.", hint)
    if len(words) > 1:
        _refuse(text, f"nothing may follow {alias}.", f"Write {alias} alone, or five fields: {_FIVE}.")
    return alias


def _refuse_strange_characters(text: str) -> None:
    if text.isascii() and text.isprintable():
        return
    for character in text:
        if character in "\n\r\v\f\x85\u2028\u2029":
            _refuse(text, "it has more than one line.", "Write one expression per entry; `schedule` takes a list.")
        if character != "\t" and not (character.isascii() and character.isprintable()):
            called = unicodedata.name(character, "").lower() or f"character U+{ord(character):04X}"
            hint = "Type a plain space." if character.isspace() else "Use letters, digits and * , - / # ? only."
            _refuse(text, f"it contains a {called}.", hint)


def _refuse_wrong_shape(text: str, words: list[str]) -> None:
    first = words[0]
    if "=" in first:
        _refuse(text, f"{clip(first)!r} is not a field.", "For a zone write CRON_TZ=Europe/Berlin before the fields.")
    if len(words) == 7 or (len(words) in (5, 6) and _YEAR.match(words[-1])):
        _refuse(
            text,
            "there is no field for the year.",
            "Leave the year out; six fields start with seconds. For one date write at: 2026-12-31T09:00:00Z.",
        )
    if len(words) not in (5, 6):
        fields = "field" if len(words) == 1 else "fields"
        _refuse(text, f"it has {len(words)} {fields}.", f"Write five ({_FIVE}), or six with the second before them.")


def _refuse(text: str, reason: str, hint: str | None) -> NoReturn:
    raise CronError(f"cron {clip(text)!r}: {reason}", hint=hint) from None

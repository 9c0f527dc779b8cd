"""How long `2d12h` is, and how a length of time is written back."""

from __future__ import annotations

import re

from evertick.errors import DurationError
from evertick.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND

LONGEST_US = 36_525 * DAY
"""A century: longer than any reasonable window or interval."""
TEXT_MAX = 64
"""Characters; it keeps the arithmetic small whatever is pasted into a field."""

_UNITS_US = {"d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}
_WRITTEN = (*_UNITS_US.items(), ("us", 1))
# Spelled out instead of \d, which takes the digits of every script.
_PART = re.compile(r"([0-9]+)([a-z]+)")
_WHOLE = re.compile(r"(?:[0-9]+[a-z]+)+")


def parse_duration(text: str, *, allow_subsecond: bool = False) -> int:
    """Microseconds of a sum such as `1d30m`; parts may come in any order and more than once.

    `allow_subsecond` adds the unit `ms`, which only intervals may use.
    """
    if len(text) > TEXT_MAX:
        raise _refused(text, f"it is longer than {TEXT_MAX} characters", allow_subsecond)
    if not _WHOLE.fullmatch(text):
        raise _refused(text, _why_unreadable(text), allow_subsecond)
    total_us = 0
    for digits, unit in _PART.findall(text):
        if unit not in _UNITS_US:
            raise _refused(text, f"{unit!r} is not a unit", allow_subsecond)
        if unit == "ms" and not allow_subsecond:
            raise _refused(text, "milliseconds are for intervals only", allow_subsecond)
        amount = int(digits)
        if amount == 0:
            raise _refused(text, f"'{digits}{unit}' is zero", allow_subsecond)
        total_us += amount * _UNITS_US[unit]
    if total_us > LONGEST_US:
        raise _refused(text, f"it is longer than {format_duration(LONGEST_US)}, a century", allow_subsecond)
    return total_us


def format_duration(duration_us: int) -> str:
    """The exact text, largest unit first and without zero parts: `1m30s`, `250ms`.

    It parses back. What no definition can say is still shown exactly, because the figure may come from
    arithmetic: `0s`, `500us`, and a leading minus.
    """
    if duration_us == 0:
        return "0s"
    rest_us = abs(duration_us)
    parts = []
    for unit, unit_us in _WRITTEN:
        amount, rest_us = divmod(rest_us, unit_us)
        if amount:
            parts.append(f"{amount}{unit}")
    return ("-" if duration_us < 0 else "") + "".join(parts)


def duration_text(duration_us: int) -> str:
    """For people, one format on every surface: `250ms`, `3.006s`, `42s`, `3h 20m`; the two largest units."""
    if duration_us < SECOND:
        return f"{max(duration_us, 0) // MILLISECOND}ms"
    if duration_us < 10 * SECOND:
        return f"{duration_us // MILLISECOND / 1_000:g}s"
    parts = []
    for unit, unit_us in (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)):
        amount, duration_us = divmod(duration_us, unit_us)
        if amount:
            parts.append(f"{amount}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def _why_unreadable(text: str) -> str:
    """The reason most likely to help, checked from the outside in."""
    if not text:
        return "it is empty"
    if any(character.isspace() for character in text):
        return "it contains a space; parts are written without separators"
    if text[0] in "+-":
        return "it has a sign; a duration is positive"
    if re.search(r"[0-9][.,]|^[.,][0-9]", text):
        return "it has a fraction; use a smaller unit"
    if text != text.lower() and _WHOLE.fullmatch(text.lower()):
        return "units are lower case"
    stranger = re.search(r"[^0-9a-z]", text)
    if stranger:
        return f"{stranger[0]!r} is not allowed in it"
    if not text[0].isdigit():
        return "it starts with a unit instead of a number"
    # Digits first and nothing but digits and letters, yet unreadable: it ends in digits.
    return f"{text[len(text.rstrip('0123456789')) :]!r} has no unit"


def _refused(text: str, reason: str, allow_subsecond: bool) -> DurationError:
    shown = text if len(text) <= TEXT_MAX else text[:TEXT_MAX] + "..."
    if allow_subsecond:
        hint = "Write whole numbers with d, h, m, s or ms, for example 1m30s or 250ms."
    else:
        hint = "Write whole numbers with d, h, m or s, for example 2d12h or 90s."
    return DurationError(f"{shown!r} is not a duration: {reason}.", hint=hint)

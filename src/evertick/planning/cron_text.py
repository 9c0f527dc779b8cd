"""Describes a schedule in English, by its meaning rather than by its text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from evertick.planning.cron_grammar import Expression
from evertick.planning.cron_pattern import DayRule

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: tuple[str, ...] = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_CLOCK_TIMES_MAX = 6
"""Times of day listed one by one; more are described as minutes and hours."""
_EVERY_WEEKDAY = 0b1111111
_EVERY_DATE = (1 << 32) - 2
_EVERY_MONTH = (1 << 13) - 2
_UTC_NAMES = frozenset({"UTC", "Etc/UTC"})


def describe_expression(expression: Expression, timezone: str) -> str:
    """The schedule as a sentence part: `At 09:00 on weekdays, Europe/Berlin`."""
    time = _time_phrase(expression)
    day, is_by_date = _day_phrase(expression.days)
    if is_by_date and time.is_at:
        text = f"{day} {time.text}"
    elif day:
        text = f"{time.text} {day}"
    else:
        text = f"{time.text} every day" if time.is_at and not time.has_every else time.text
    text = text[0].upper() + text[1:]
    return text if timezone in _UTC_NAMES else f"{text}, {timezone}"


class _Phrase(NamedTuple):
    """Times of a day in words, and what the words for its days depend on."""

    text: str
    is_at: bool
    """`at 09:00`; otherwise `every 5 minutes`."""
    has_every: bool = True
    """Whether it says how often: `at 3 minutes of every hour`."""


def _time_phrase(expression: Expression) -> _Phrase:
    seconds, minutes, hours = expression.seconds, expression.minutes, expression.hours
    if len(seconds) * len(minutes) * len(hours) <= _CLOCK_TIMES_MAX:
        clock = [_clock(h, m, s) for h in hours for m in minutes for s in seconds]
        return _Phrase(f"at {_join(clock)}", is_at=True, has_every=False)
    within, has_every = "", True
    if len(hours) == 24:
        pass  # without `within`, the phrases below say "every hour"
    elif len(hours) == 1 or _is_run(hours):
        within = f" from {_clock(hours[0], minutes[0], seconds[0])} to {_clock(hours[-1], minutes[-1], seconds[-1])}"
        has_every = False
    elif step := _step(hours, 24):
        within = f" of every {_ordinal(step)} hour"
    else:
        within, has_every = f" of {_count('hour', hours)}", False
    if seconds == (0,):
        return _minutes_phrase(minutes, hours, within, has_every=has_every)
    return _seconds_phrase(seconds, minutes, within, has_every=has_every)


def _minutes_phrase(minutes: Sequence[int], hours: Sequence[int], within: str, *, has_every: bool) -> _Phrase:
    step = _step(minutes, 60)
    if step == 1:
        return _Phrase(f"every minute{within}", is_at=False)
    if step:
        return _Phrase(f"every {step} minutes{within}", is_at=False)
    hour_step = _step(hours, 24)
    if len(minutes) == 1:
        past = "" if minutes[0] == 0 else f" at {minutes[0]} past"
        if hour_step == 1:
            return _Phrase(f"every hour{past}", is_at=False)
        if hour_step:
            return _Phrase(f"every {hour_step} hours{past}", is_at=False)
        if _is_run(hours):
            text = f"every hour from {_clock(hours[0], minutes[0], 0)} to {_clock(hours[-1], minutes[0], 0)}"
            return _Phrase(text, is_at=False)
    return _Phrase(f"at {_count('minute', minutes)}{within or ' of every hour'}", is_at=True, has_every=has_every)


def _seconds_phrase(seconds: Sequence[int], minutes: Sequence[int], within: str, *, has_every: bool) -> _Phrase:
    step = _step(seconds, 60)
    if step == 1:
        text = "every second"
    elif step:
        text = f"every {step} seconds"
    else:
        text = f"at {_count('second', seconds)}"
    minute_step = _step(minutes, 60)
    if minute_step == 1:
        return _Phrase(f"{text}{within}" if step else f"{text} of every minute{within}", is_at=not step)
    if minute_step:
        return _Phrase(f"{text} of every {_ordinal(minute_step)} minute{within}", is_at=not step)
    text = f"{text} of {_count('minute', minutes)}{within or ' of every hour'}"
    return _Phrase(text, is_at=not step, has_every=has_every)


def _day_phrase(rule: DayRule) -> tuple[str, bool]:
    """The days in words, empty for every day, and whether they are days of a month."""
    dates, weekdays = _dates(rule), _weekdays(rule)
    months = "" if rule.months == _EVERY_MONTH else _join([_MONTHS[n - 1] for n in _bits(rule.months)])
    of_month = f" of {months or 'the month'}"
    in_month = f" in {months}" if months else ""
    is_nth = bool(rule.last_weekdays or rule.nth_weekdays)
    if dates and weekdays:
        if rule.needs_both:
            return f"on {_join(weekdays)} if the day is also {_join(dates, 'or')}{of_month}", True
        return f"on {_join(dates)}{of_month} or on {_join(weekdays)}{in_month}", True
    # With either field enough, `0 0 1-31 * MON` is every day; with both needed, the other field decides.
    if rule.needs_both and dates:
        return f"on {_join(dates)}{of_month}", True
    if rule.needs_both and weekdays:
        return f"on {_join(weekdays)}{of_month if is_nth else in_month}", is_nth
    return in_month.strip(), False


def _dates(rule: DayRule) -> list[str]:
    """Days of the month in words; empty for every day."""
    if rule.month_days == _EVERY_DATE:
        return []
    days = _bits(rule.month_days)
    steps = {later - day for day, later in pairwise(days)}
    if len(days) > 3 and len(steps) == 1 and steps != {1}:
        said = [f"every {_ordinal(steps.pop())} day from the {_ordinal(days[0])} to the {_ordinal(days[-1])}"]
    else:
        said = [
            f"the {_ordinal(low)}" if low == high else f"the {_ordinal(low)} to the {_ordinal(high)}"
            for low, high in _runs(days)
        ]
    said += [f"the weekday nearest the {_ordinal(day)}" for day in _bits(rule.nearest_workdays)]
    if rule.last_workday:
        said.append("the last weekday")
    if rule.last_day:
        said.append("the last day")
    return said


def _weekdays(rule: DayRule) -> list[str]:
    """Weekdays in words; empty for every day."""
    if rule.weekdays == _EVERY_WEEKDAY:
        return []
    if rule.weekdays == 0b0111110:
        said = ["weekdays"]
    elif rule.weekdays == 0b1000001:
        said = ["weekends"]
    else:
        # The week begins on Monday.
        said = [f"{_WEEKDAYS[day % 7]}s" for day in range(1, 8) if rule.weekdays >> day % 7 & 1]
    said += [f"the {_ordinal(nth)} {_WEEKDAYS[day]}" for day, nth in sorted(rule.nth_weekdays)]
    said += [f"the last {_WEEKDAYS[day]}" for day in _bits(rule.last_weekdays)]
    return said


def _clock(hour: int, minute: int, second: int) -> str:
    return f"{hour:02}:{minute:02}:{second:02}" if second else f"{hour:02}:{minute:02}"


def _step(numbers: Sequence[int], size: int) -> int:
    """The step with which the numbers go evenly round a clock of `size`, or 0."""
    step = size // len(numbers)
    return step if tuple(numbers) == tuple(range(0, size, step)) and size % step == 0 and step < size else 0


def _is_run(numbers: Sequence[int]) -> bool:
    return len(numbers) > 1 and numbers[-1] - numbers[0] == len(numbers) - 1


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Sorted numbers as runs; two neighbours are not yet a run."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    said: list[tuple[int, int]] = []
    for low, high in runs:
        said += [(low, low), (high, high)] if high == low + 1 else [(low, high)]
    return said


def _count(unit: str, numbers: Sequence[int]) -> str:
    """The unit and its numbers: `minute 5`, `hours 1 to 4 and 7`."""
    said = _join([str(low) if low == high else f"{low} to {high}" for low, high in _runs(numbers)])
    return f"{unit} {said}" if len(numbers) == 1 else f"{unit}s {said}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _join(parts: Sequence[str], word: str = "and") -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"

"""What one field of a cron expression means: its range, its names, its special forms."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from evertick.errors import CronError

SECOND, MINUTE, HOUR = "second", "minute", "hour"
DAY_OF_MONTH, MONTH, DAY_OF_WEEK = "day-of-month", "month", "day-of-week"

MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_HASHED = re.compile(r"H(?:\(([^()]*)\))?(?:/(.*))?")


class FieldValues(NamedTuple):
    """The plain numbers of a field, sorted, and the forms that depend on the month."""

    numbers: tuple[int, ...]
    last_day: bool = False
    last_workday: bool = False
    nearest_workdays: tuple[int, ...] = ()
    last_weekdays: tuple[int, ...] = ()
    nth_weekdays: frozenset[tuple[int, int]] = frozenset()
    is_hashed: bool = False


@dataclass(frozen=True, slots=True)
class _Kind:
    label: str
    low: int
    high: int
    """The end of `*` and of `n/step`."""
    highest: int
    """The largest number that may be written: 7 for Sunday."""
    names: tuple[str, ...] = ()
    hash_high: int = 0

    @property
    def allowed(self) -> str:
        text = f"{self.low}-{self.highest}"
        if self.names:
            text += f" or {self.names[0]}-{self.names[-1]}"
        return text


_KINDS = {
    SECOND: _Kind(SECOND, 0, 59, 59, hash_high=59),
    MINUTE: _Kind(MINUTE, 0, 59, 59, hash_high=59),
    HOUR: _Kind(HOUR, 0, 23, 23, hash_high=23),
    # A hashed day stays below 29, so that every month has it.
    DAY_OF_MONTH: _Kind(DAY_OF_MONTH, 1, 31, 31, hash_high=28),
    MONTH: _Kind(MONTH, 1, 12, 12, MONTH_NAMES, hash_high=12),
    DAY_OF_WEEK: _Kind(DAY_OF_WEEK, 0, 6, 7, WEEKDAY_NAMES, hash_high=6),
}


def clip(text: str, length: int = 80) -> str:
    """A text short enough for a message."""
    return text if len(text) <= length else text[: length - 3] + "..."


def read_field(label: str, text: str, name: str) -> FieldValues:
    """The values of one field, written in capitals; `name` is what `H` hashes."""
    kind = _KINDS[label]
    if text == "?":
        if kind.label not in (DAY_OF_MONTH, DAY_OF_WEEK):
            _refuse(f"? has no meaning in the {kind.label} field.", "Write *.")
        text = "*"
    numbers: set[int] = set()
    nearest: set[int] = set()
    last: set[int] = set()
    nth: set[tuple[int, int]] = set()
    last_day = last_workday = is_hashed = False
    for item in text.split(","):
        if kind.label == DAY_OF_MONTH and item == "L":
            last_day = True
        elif kind.label == DAY_OF_MONTH and item == "LW":
            last_workday = True
        elif kind.label == DAY_OF_MONTH and item.endswith("W"):
            nearest.add(_nearest(kind, item))
        elif kind.label == DAY_OF_WEEK and "#" in item:
            nth.add(_nth(kind, item))
        elif kind.label == DAY_OF_WEEK and item.endswith("L"):
            last.add(_last(kind, item))
        elif item.startswith("H"):
            is_hashed = True
            numbers.update(_hashed(kind, item, name))
        else:
            numbers.update(_plain(kind, item))
    if kind.label == DAY_OF_WEEK:
        numbers = {number % 7 for number in numbers}
    return FieldValues(
        tuple(sorted(numbers)),
        last_day,
        last_workday,
        tuple(sorted(nearest)),
        tuple(sorted(last)),
        frozenset(nth),
        is_hashed,
    )


def _plain(kind: _Kind, item: str) -> range:
    """`*`, `n`, `a-b`, each with an optional `/step`."""
    body, slash, step_text = item.partition("/")
    step = _step(kind, item, step_text) if slash else 1
    if body == "*":
        return range(kind.low, kind.high + 1, step)
    first_text, dash, last_text = body.partition("-")
    if first_text == "L":
        _refuse_offset_from_end(kind, item)
    first = _number(kind, first_text, item)
    if not dash:
        return range(first, max(first, kind.high) + 1, step) if slash else range(first, first + 1)
    last = _number(kind, last_text, item)
    if last_text == "SUN" and first_text != "SUN":
        last = 7
    if last < first:
        _refuse_descending(kind, item, first, last, step, has_step=bool(slash))
    return range(first, last + 1, step)


def _number(kind: _Kind, text: str, item: str) -> int:
    if text in kind.names:
        return kind.names.index(text) + kind.low
    if not text or not text.isdigit():
        _refuse_word(kind, text, item)
    if len(text) > 4:
        _refuse(f"{kind.label} {clip(text, 20)} has more than four digits.", f"Write {kind.allowed}.")
    if len(text) > 2 and text[0] == "0":
        _refuse(f"{kind.label} {text} has leading zeros.", f"Write {int(text)}.")
    number = int(text)
    if not kind.low <= number <= kind.highest:
        hint = f"Write {kind.allowed}."
        if kind.label == DAY_OF_WEEK:
            hint = f"Write {kind.allowed}; 0 and 7 are Sunday."
        _refuse(f"{kind.label} {number} is out of range.", hint)
    return number


def _step(kind: _Kind, item: str, text: str) -> int:
    if not text.isdigit() or len(text) > 4 or (len(text) > 2 and text[0] == "0"):
        _refuse(f"the step of {clip(item)!r} in the {kind.label} field is not a number.", "Write it as in */15.")
    if int(text) == 0:
        _refuse(f"{clip(item)!r} in the {kind.label} field has step 0.", "Write a step of 1 or more.")
    return int(text)


def _nearest(kind: _Kind, item: str) -> int:
    if not item[:-1].isdigit():
        _refuse(
            f"{clip(item)!r} in the {kind.label} field is not a day and W.",
            "Write 15W for the weekday nearest the 15th, LW for the last; for Monday to Friday write 1-5 in "
            "the day-of-week field.",
        )
    return _number(kind, item[:-1], item)


def _last(kind: _Kind, item: str) -> int:
    if item == "L":
        _refuse("L alone in the day-of-week field is unclear.", "Write SATL for the last Saturday, SAT for each.")
    if "-" in item or "/" in item:
        _refuse(f"L takes one day, not {clip(item)!r}.", "Write a list: 1L,2L.")
    return _number(kind, item[:-1], item) % 7


def _nth(kind: _Kind, item: str) -> tuple[int, int]:
    day, _, nth = item.partition("#")
    if nth == "L":
        _refuse(f"{clip(item)!r} is not known.", f"Write {clip(day, 10)}L for the last one.")
    if "-" in day or "/" in day or day == "*":
        _refuse(f"# takes one day, not {clip(day)!r}.", "Write a list: 1#2,2#2.")
    if nth not in ("1", "2", "3", "4", "5"):
        _refuse(f"{clip(item)!r}: a month has at most five of a day.", "Write # and 1-5, as in 5#3.")
    return _number(kind, day, item) % 7, int(nth)


def _hashed(kind: _Kind, item: str, name: str) -> range:
    """`H`, `H/step`, `H(a-b)`, `H(a-b)/step`: a number or a phase that is this job's own."""
    match = _HASHED.fullmatch(item)
    if match is None:
        _refuse(f"{clip(item)!r} in the {kind.label} field is not known.", "Write H, H/15, H(0-29) or H(0-29)/10.")
    if not name:
        _refuse(f"H in the {kind.label} field needs the job's name to hash.", "Give the job a name, or write a number.")
    low, high = kind.low, kind.hash_high
    bounds, step_text = match[1], match[2]
    if bounds is not None:
        if "-" not in bounds or "/" in bounds:
            _refuse(f"{clip(item)!r} in the {kind.label} field has no range.", f"Write H({low}-{high}).")
        written = _plain(kind, bounds)
        low, high = written[0], written[-1]
    digest = hashlib.sha256(f"{kind.label}\0{name}".encode("utf-8", "surrogatepass")).digest()
    draw = int.from_bytes(digest[:8], "big")
    if step_text is None:
        value = low + draw % (high - low + 1)
        return range(value, value + 1)
    step = _step(kind, item, step_text)
    return range(low + draw % min(step, high - low + 1), high + 1, step)


def _refuse_descending(kind: _Kind, item: str, first: int, last: int, step: int, *, has_step: bool) -> NoReturn:
    def write(number: int) -> str:
        return kind.names[number - kind.low] if item[0].isalpha() else str(number)

    def span(low: int, high: int) -> str:
        return write(low) if low == high else f"{write(low)}-{write(high)}"

    tail = f"/{step}" if has_step else ""
    if kind.label == DAY_OF_WEEK and last == 0:
        instead = f"{write(first)}-7{tail}"
    elif kind.label == DAY_OF_WEEK and first == 7:
        instead = f"0-{last}{tail}"
    elif step == 1:
        instead = f"{span(first, kind.high)},{span(kind.low, last)}"
    else:
        size = kind.high - kind.low + 1
        wrapped = range(first - kind.low, last - kind.low + size + 1, step)
        instead = ",".join(write(number % size + kind.low) for number in wrapped)
    _refuse(f"{kind.label} range {item} goes backwards.", f"Write {instead}.")


def _refuse_offset_from_end(kind: _Kind, item: str) -> NoReturn:
    if kind.label != DAY_OF_MONTH:
        _refuse(f"L has no meaning in the {kind.label} field.", "Write it in the day-of-month field.")
    _refuse(
        f"{clip(item)!r} in the {kind.label} field is not known.",
        "Write L for the last day; for one before it, write the days it can be, such as 26-28.",
    )


def _refuse_word(kind: _Kind, text: str, item: str) -> NoReturn:
    where = f"in the {kind.label} field"
    if not item:
        _refuse(f"a list {where} has an empty place.", "Write values with single commas between them.")
    if "~" in item:
        low, _, high = item.partition("~")
        _refuse(f"a random range {item!r} {where} is not known.", f"Write H({low or kind.low}-{high or kind.high}).")
    if not text or text[0] in "+-" or item.endswith("-"):
        _refuse(f"{clip(item)!r} {where} is incomplete or has a sign.", f"Write {kind.allowed}.")
    for other in _KINDS.values():
        if text in other.names:
            _refuse(f"{text} {where} is a {other.label}.", f"Write it in the {other.label} field.")
    near = [text[:3]] if text[:3] in kind.names else difflib.get_close_matches(clip(text), kind.names, 1)
    if near:
        _refuse(f"{clip(text)!r} {where} is not known.", f"Did you mean '{near[0]}'?")
    _refuse(f"{clip(item)!r} {where} is not known.", f"Write {kind.allowed}, *, lists, ranges or steps.")


def _refuse(reason: str, hint: str) -> NoReturn:
    raise CronError(reason, hint=hint)

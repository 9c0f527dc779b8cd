"""The named calendars in the settings, as they are written; `definitions.calendars` finds their days."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Final

from evertick.settings.kinds import InvalidSetting, Kind

WEEKDAYS: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
DAYS_MAX: Final = 100_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_CODE: Final = re.compile(r"[A-Z]{2,8}(-[A-Z0-9]{1,6})?")
_KEYS: Final = ("dates", "weekdays", "holidays", "ics")
_HINT: Final = 'Write company = {dates = ["2026-12-24", "2026-12-27..2026-12-31"]}, or weekdays, holidays, ics in it.'


@dataclass(frozen=True, slots=True)
class DateRange:
    first: date
    last: date
    label: str
    """The names of its days; empty: as they are written."""


@dataclass(frozen=True, slots=True)
class CalendarSource:
    """The days of all its parts together."""

    dates: tuple[DateRange, ...] = ()
    weekdays: tuple[int, ...] = ()
    """0 is Monday."""
    holidays: tuple[str, ...] = ()
    """Codes of countries, with a subdivision (`DE-BE`), or of financial markets (`XNYS`)."""
    ics: tuple[str, ...] = ()
    """Paths of iCalendar files."""

    def placed(self, base: Path) -> CalendarSource:
        """With paths resolved against a folder."""
        ics = tuple(str(base / Path(path).expanduser()) for path in self.ics)
        return CalendarSource(self.dates, self.weekdays, self.holidays, ics)


Named = tuple[str, CalendarSource]


def place_calendars(calendars: tuple[Named, ...], base: Path) -> tuple[Named, ...]:
    return tuple((name, source.placed(base)) for name, source in calendars)


def _calendars(value: object) -> tuple[Named, ...]:
    if not isinstance(value, Mapping):
        raise InvalidSetting("it is not a table of names", _HINT)
    for name in value:
        if not _NAME.fullmatch(str(name)):
            raise InvalidSetting(f"'{name}' is not a name", "Write letters, digits, '-', '_' and '.'.")
    return tuple((str(name), _source(str(name), written)) for name, written in value.items())


def _source(name: str, written: object) -> CalendarSource:
    if not isinstance(written, Mapping) or not written:
        raise InvalidSetting(f"'{name}' does not say which days it has", _HINT)
    others = set(written) - set(_KEYS)
    if others:
        raise InvalidSetting(f"'{name}' has the unknown key '{min(others)}'", f"Its keys are {', '.join(_KEYS)}.")
    return CalendarSource(
        _dates(name, written.get("dates", ())),
        tuple(sorted({day for text in _texts(name, written.get("weekdays", ())) for day in _weekdays(name, text)})),
        tuple(_code(name, text) for text in _texts(name, written.get("holidays", ()))),
        tuple(_texts(name, written.get("ics", ()))),
    )


def _texts(name: str, value: object) -> list[str]:
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) and item.strip() for item in items):
        raise InvalidSetting(f"'{name}' has a value that is neither a text nor a list of texts", _HINT)
    return [item.strip() for item in items]


def _dates(name: str, value: object) -> tuple[DateRange, ...]:
    """A list of days and ranges, or a table that gives each one a label."""
    if isinstance(value, Mapping):
        pairs = [(key, label) for key, label in value.items()]
    else:
        pairs = [(item, "") for item in (value if isinstance(value, list | tuple) else [value])]
    found = tuple(_range(name, written, label) for written, label in pairs)
    if sum((one.last - one.first).days + 1 for one in found) > DAYS_MAX:
        raise InvalidSetting(f"'{name}' has more than {DAYS_MAX:,} days", "Use weekdays for days that come every week.")
    return found


def _range(name: str, written: object, label: object) -> DateRange:
    if not isinstance(label, str) or not label.isprintable():
        raise InvalidSetting(
            f"'{name}' has a label that is not one line of text", 'Write "2026-12-24" = "Christmas Eve".'
        )
    if isinstance(written, date) and not isinstance(written, datetime):
        return DateRange(written, written, label.strip())
    first, dots, last = str(written).partition("..")
    try:
        start = date.fromisoformat(first.strip())
        end = date.fromisoformat(last.strip()) if dots else start
    except ValueError:
        hint = 'Write "2026-12-24", or a range: "2026-12-27..2026-12-31".'
        raise InvalidSetting(f"'{name}' has {str(written)[:40]!r}, which is not a date", hint) from None
    if end < start or not (start.year >= 1971 and end.year < 2200):
        raise InvalidSetting(
            f"'{name}' has the range {str(written)[:40]!r}", "Write years from 1971 to 2199, the first day first."
        )
    return DateRange(start, end, label.strip())


def _weekdays(name: str, text: str) -> range | list[int]:
    """`SAT`, or `MON-FRI`."""
    first, dash, last = text.upper().partition("-")
    if first not in WEEKDAYS or (dash and last not in WEEKDAYS):
        raise InvalidSetting(
            f"'{name}' has {text[:40]!r}, which is not a weekday", f"Write {', '.join(WEEKDAYS)}, or MON-FRI."
        )
    start = WEEKDAYS.index(first)
    end = WEEKDAYS.index(last) if dash else start
    return range(start, end + 1) if start <= end else [*range(start, 7), *range(end + 1)]


def _code(name: str, text: str) -> str:
    if not _CODE.fullmatch(text.upper()):
        hint = "Write the code of a country (DE), of a part of it (DE-BE), or of a market (XNYS)."
        raise InvalidSetting(f"'{name}' has {text[:40]!r}, which is no code", hint)
    return text.upper()


def _show(value: tuple[Named, ...]) -> str:
    return ", ".join(f"{name}={_shown(source)}" for name, source in value)


def _shown(source: CalendarSource) -> str:
    parts = [
        *(f"{len(source.dates)} dates" for _ in source.dates[:1]),
        *(WEEKDAYS[day] for day in source.weekdays),
        *source.holidays,
        *source.ics,
    ]
    return "+".join(parts)


CALENDARS: Final = Kind("table of calendars", _calendars, _show, has_variable=False)

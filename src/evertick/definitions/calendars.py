"""Which days the calendars of the settings have: reads `.ics` files, and asks the package `holidays`.

The core sees none of this: a job carries the days as values, for the past and for years ahead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from evertick.model.calendar import Calendar, Day, day_of_date

if TYPE_CHECKING:
    from evertick.settings import Settings
    from evertick.settings.calendars import CalendarSource

FILE_MAX: Final = 10 << 20
_PACKAGES: Final = ("holidays", "icalendar", "recurring-ical-events")
_LANGUAGE: Final = "en_US"
"""The language of the names of holidays; otherwise they would depend on the locale of each process."""
_INSTALL: Final = 'Install it: pip install "evertick[calendars]".'


class CalendarError(Exception):
    """A calendar whose days cannot be determined."""


def years_of(today: date) -> range:
    """The years that are resolved: the previous, the current and the next decade.

    By decades, because changed days are an edit of every schedule that uses them.
    """
    decade = today.year // 10 * 10
    return range(decade - 10, decade + 20)


def find_calendar(name: str, settings: Settings) -> Calendar:
    """The days of a named calendar; raises `CalendarError`, or KeyError for an unknown name."""
    source = dict(settings.calendars)[name]
    return _resolve(name, source, years_of(_today()), _stamps(source))


def calendar_stamps(settings: Settings) -> tuple[object, ...]:
    """Everything that decides the days of the calendars; files that were parsed with other values are parsed again."""
    if not settings.calendars:
        return ()
    return (*(_stamps(source) for _, source in settings.calendars), years_of(_today()))


def _today() -> date:
    return datetime.now(UTC).date()


def _stamps(source: CalendarSource) -> tuple[object, ...]:
    found: list[object] = []
    for path in source.ics:
        try:
            known = os.stat(path)
            found.append((path, known.st_mtime_ns, known.st_size, known.st_ino))
        except OSError:
            found.append((path, None))
    if source.ics or source.holidays:
        found += [(name, _version_of(name)) for name in _PACKAGES]
    return tuple(found)


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


@lru_cache(maxsize=256)  # `_stamps` is a part of the key: another version of a file is read again
def _resolve(name: str, source: CalendarSource, years: range, _stamps: tuple[object, ...]) -> Calendar:
    labels: dict[Day, str] = {}
    ends: list[Day] = []
    for one in source.dates:
        for day in range(day_of_date(one.first), day_of_date(one.last) + 1):
            labels.setdefault(day, one.label or str(one.first + timedelta(days=day - day_of_date(one.first))))
    if source.dates:
        ends.append(max(day_of_date(one.last) for one in source.dates))
    for code in source.holidays:
        labels |= {day: label for day, label in _holidays(code, years) if day not in labels}
    for path in source.ics:
        events = dict(_events(path, years))
        labels |= {day: label for day, label in events.items() if day not in labels}
        if events:
            ends.append(max(events))
    if source.holidays:
        ends.append(day_of_date(date(years[-1], 12, 31)))
    days = tuple(sorted(labels))
    return Calendar(name, source.weekdays, days, tuple(labels[day] for day in days), min(ends, default=None))


def _holidays(code: str, years: range) -> Iterator[tuple[Day, str]]:
    try:
        import holidays
    except ImportError:
        raise CalendarError(
            f"the holidays of {code} need the package 'holidays', which is not installed. {_INSTALL}"
        ) from None
    country, _, part = code.partition("-")
    try:
        if country in holidays.list_supported_financial():
            found: Mapping[date, str] = holidays.financial_holidays(country, years=years, language=_LANGUAGE)
        else:
            found = holidays.country_holidays(country, subdiv=part or None, years=years, language=_LANGUAGE)
    except NotImplementedError:
        raise CalendarError(f"the package 'holidays' does not know '{code}'. {_suggestion(country)}") from None
    for day, label in found.items():
        yield day_of_date(day), label


def _suggestion(country: str) -> str:
    import holidays

    parts = holidays.list_supported_countries().get(country)
    if parts is None:
        return "Write the code of a country, such as DE, FR or US, or of a market, such as XNYS."
    return f"Parts of {country}: {', '.join(parts) or 'none'}."


def _events(path: str, years: range) -> Iterator[tuple[Day, str]]:
    """Every day that an event of the file touches, in the zone of the event."""
    try:
        import icalendar
        import recurring_ical_events
    except ImportError:
        raise CalendarError(f"'{path}' needs the package 'icalendar', which is not installed. {_INSTALL}") from None
    try:
        with open(path, "rb") as stream:
            text = stream.read(FILE_MAX + 1)
    except OSError as error:
        raise CalendarError(f"'{path}' cannot be read: {error.strerror}. Check the path and its permissions.") from None
    if len(text) > FILE_MAX:
        raise CalendarError(f"'{path}' has more than {FILE_MAX:,} bytes. Keep events that are days off only.")
    try:
        found = recurring_ical_events.of(icalendar.Calendar.from_ical(text)).between(
            date(years[0], 1, 1), date(years[-1], 12, 31)
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise CalendarError(f"'{path}' is not an iCalendar file: {error}. Export it again as .ics.") from None
    for event in found:
        first, last = _days_of(event.start, event.end)
        for day in range(day_of_date(first), day_of_date(last) + 1):
            yield day, " ".join(str(event.get("SUMMARY", "")).split())[:100] or os.path.basename(path)


def _days_of(start: date, end: date) -> tuple[date, date]:
    """The end of an event is exclusive."""
    if isinstance(start, datetime) and isinstance(end, datetime):
        last = max(end - timedelta(microseconds=1), start)
        return start.date(), last.date()
    return start, max(end - timedelta(days=1), start)

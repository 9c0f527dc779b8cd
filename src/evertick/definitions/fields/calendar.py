"""On which days a job runs: the calendars that its definition names."""

from __future__ import annotations

from typing import Final

from evertick.definitions.calendars import CalendarError, find_calendar
from evertick.definitions.catalogue.job import CALENDAR
from evertick.definitions.fields.values import choice_of, texts_of
from evertick.definitions.nodes import Node
from evertick.definitions.report import Report, Section, section_of
from evertick.model.calendar import Calendar, CalendarRule, Shift
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.planning.cron import Cron
from evertick.settings import Settings

_SHAPE: Final = "calendar: {skip: [company]}"


def read_calendar(node: Node, settings: Settings, report: Report) -> CalendarRule | None:
    """The rule with the days of its calendars; None after an error."""
    section = section_of(node, "calendar", report, CALENDAR, _SHAPE)
    if section is None:
        return None
    before = report.count
    skip, only = (_named(section, word, settings, report) for word in ("skip", "only"))
    shift_node = section.take("shift")
    shift = choice_of(shift_node, "calendar.shift", report, {str(one): one for one in Shift}) if shift_node else None
    section.finish("'calendar'")
    if not skip and not only and report.count == before:
        report.error(node, "calendar", "'calendar' names no calendar.", f"Write {_SHAPE}.")
    return CalendarRule(skip, only, shift) if report.count == before else None


def _named(section: Section, word: str, settings: Settings, report: Report) -> tuple[Calendar, ...]:
    node, field = section.take(word), section.field(word)
    known = [name for name, _ in settings.calendars]
    found: list[Calendar] = []
    for place, name in (texts_of(node, field, report) or ()) if node else ():
        if name not in known:
            near = report.suggest(name, known)
            add = f"dd '{name[:60]} = {{...}}' below [calendars] in evertick.toml."
            hint = f"{near} Otherwise a{add}" if near else f"A{add}"
            report.error(place, field, f"the settings define no calendar '{name[:60]}'.", hint)
            continue
        try:
            found.append(find_calendar(name, settings))
        except CalendarError as error:
            report.error(place, field, f"the calendar '{name}' has no days: {error}")
    return tuple(dict.fromkeys(found))


def apply_calendar(
    rule: CalendarRule, specs: tuple[ScheduleSpec, ...], timezone: str, node: Node, report: Report
) -> tuple[ScheduleSpec, ...]:
    """The start schedules under the calendar; a one-off time keeps its day."""
    if specs and all(isinstance(spec, AtSpec) for spec in specs):
        reason = "'calendar' does not apply to 'at': a job that names its day runs on that day."
        report.warn(node, "calendar", reason, "Remove 'calendar'.")
    if not specs:
        reason = "'calendar' has no effect without a schedule: it chooses the days of its occurrences."
        report.warn(node, "calendar", reason, "Add 'schedule', or remove 'calendar'.")
    for spec in specs:
        if rule.shift is not None and _is_all_day(spec):
            reason = f"'shift' cannot move '{spec}': it is due all day, and would start a whole day's runs twice."
            report.error(node, "calendar.shift", reason, "Write fixed times, such as '0 9 * * *', or remove 'shift'.")
    return tuple(
        CalendarSpec(spec, rule, timezone) if isinstance(spec, CronSpec | EverySpec) else spec for spec in specs
    )


def _is_all_day(spec: ScheduleSpec) -> bool:
    if isinstance(spec, CronSpec):
        return Cron.parse(spec.text, spec.timezone, spec.name).is_wildcard
    return isinstance(spec, EverySpec)

"""When a job is due: the four forms in which `schedule` may be written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from evertick.definitions.catalogue.job import BLOCK, ENTRY, START_STOP, TIMES
from evertick.definitions.catalogue.limits import SCHEDULES_MAX
from evertick.definitions.fields.values import attempt, duration_of, text_of, texts_of
from evertick.definitions.nodes import ListNode, MapNode, Node, ScalarNode, kind_of
from evertick.definitions.report import Report, Section
from evertick.model.instant import from_datetime
from evertick.model.job import Origin
from evertick.model.schedule import AtSpec, CronSpec, EverySpec, ScheduleSpec
from evertick.planning.schedules import compile_schedule
from evertick.planning.zones import find_zone


@dataclass(frozen=True, slots=True)
class Zone:
    name: str
    origin: Origin


def zone_of(name: str, node: Node, field: str, report: Report) -> Zone | None:
    """The zone that a file names; an unknown one is reported with the nearest that exists."""
    found = attempt(lambda: find_zone(name), node, field, report)
    return None if found is None else Zone(name, report.origin(node))


def read_zone(node: Node, field: str, report: Report) -> Zone | None:
    """The value of a `timezone` field."""
    name = text_of(node, field, report)
    return None if name is None else zone_of(name, node, field, report)


_CRON_TZ: Final = re.compile(r"[ \t]*CRON_TZ=([^ \t]*)[ \t]*(.*)", re.DOTALL)
_AT: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?", re.ASCII)
_AT_EXAMPLE: Final = "Write for example 2027-03-01T09:00:00+01:00."


class Form(StrEnum):
    """How the schedule was written; the defaults of a job follow from it."""

    NONE = "a job without schedule"
    PLAIN = "the plain form"
    BLOCK = "the block form"


@dataclass(frozen=True, slots=True)
class Timetable:
    """What `schedule` says; the policies inside a block are left in `block` for their own readers."""

    form: Form = Form.NONE
    starts: tuple[ScheduleSpec, ...] = ()
    stops: tuple[ScheduleSpec, ...] = ()
    restarts: tuple[ScheduleSpec, ...] = ()
    block: Section | None = None
    origins: dict[str, Origin] = field(default_factory=dict)


def read_schedule(node: Node, zone: Zone, name: str, report: Report) -> Timetable:
    reader = _Reader(zone, name, report)
    match node:
        case MapNode():
            if any(key.text in START_STOP for key, _value in node.entries):
                section = Section(node, "schedule", report, START_STOP)
                starts, stops, restarts = (_taken(section, kind, reader) for kind in START_STOP)
                section.finish("a schedule with start, stop or restart")
                return Timetable(Form.PLAIN, starts, stops, restarts, origins=reader.origins)
            section = Section(node, "schedule", report, BLOCK)
            starts = reader.block(section, "schedules")
            return Timetable(Form.BLOCK, starts, block=section, origins=reader.origins)
        case _:
            return Timetable(Form.PLAIN, reader.several(node, "schedule", "schedules"), origins=reader.origins)


def _taken(section: Section, kind: str, reader: _Reader) -> tuple[ScheduleSpec, ...]:
    node = section.take(kind)
    group = {"start": "schedules", "stop": "stops", "restart": "restarts"}[kind]
    return reader.several(node, section.field(kind), group) if node else ()


@dataclass(frozen=True, slots=True)
class _Reader:
    zone: Zone
    """For schedules that name none of their own."""
    name: str
    report: Report
    origins: dict[str, Origin] = field(default_factory=dict)

    def several(self, node: Node, path: str, group: str) -> tuple[ScheduleSpec, ...]:
        """One schedule or a list of them, each a cron expression or a small map."""
        items = node.items if isinstance(node, ListNode) else (node,)
        if not items:
            self.report.error(
                node, path, f"'{path}' is an empty list.", "Write a cron expression, or remove the field."
            )
        if len(items) > SCHEDULES_MAX:
            self.report.error(
                node, path, f"'{path}' has {len(items):,} schedules; {SCHEDULES_MAX} are allowed.", "Split it."
            )
            items = items[:SCHEDULES_MAX]
        specs: list[ScheduleSpec] = []
        for item in items:
            specs += [spec for spec in self._one(item, path, group, len(specs)) if spec not in specs]
            if len(specs) > SCHEDULES_MAX:
                self.report.error(item, path, f"more than {SCHEDULES_MAX} schedules in one job.", "Split the job.")
                break
        return tuple(specs)

    def _one(self, node: Node, path: str, group: str, index: int) -> tuple[ScheduleSpec, ...]:
        if isinstance(node, MapNode):
            section = Section(node, path, self.report, ENTRY)
            specs = self.block(section, group, index)
            section.finish("an entry of a list of schedules; policies belong to the job")
            return specs
        if isinstance(node, ScalarNode) and isinstance(node.value, str):
            return self._cron(node, node.text, path, None, group, index)
        hint = "Write a cron expression in quotes, for example '0 9 * * *'."
        self.report.error(node, path, f"'{path}' must be a cron expression, not {kind_of(node)}.", hint)
        return ()

    def block(self, section: Section, group: str, start: int = 0) -> tuple[ScheduleSpec, ...]:
        """`cron`, `every` or `at`, and the zone they are read in."""
        zone_node = section.take("timezone")
        own = read_zone(zone_node, section.field("timezone"), self.report) if zone_node else None
        written = [name for name in TIMES if name in section]
        if len(written) > 1:
            lines = " and ".join(f"'{name}' on line {section.key(name).line}" for name in written)
            self.report.error(
                section.key(written[1]), section.path, f"{lines} contradict each other.", "Keep one of them."
            )
        if not written:
            hint = "Write 'cron: \"0 9 * * *\"' or 'every: 10m' in it."
            self.report.error(section.node, section.path, f"'{section.path}' does not say when.", hint)
        specs: list[ScheduleSpec] = []
        for name in TIMES:
            node, path = section.take(name), section.field(name)
            if node is None:
                continue
            texts = texts_of(node, path, self.report) or ()
            if isinstance(node, ListNode) and not node.items:
                self.report.error(node, path, f"'{path}' is an empty list.", "Write a time, or remove the field.")
            if len(texts) > SCHEDULES_MAX:
                reason = f"'{path}' has {len(texts):,} schedules; {SCHEDULES_MAX} are allowed."
                self.report.error(node, path, reason, "Split the job.")
            for item, text in texts[:SCHEDULES_MAX]:
                found = self._timed(name, item, text, path, own, group, start + len(specs))
                specs += [spec for spec in found if spec not in specs]
        return tuple(specs)

    def _timed(
        self, name: str, node: Node, text: str, path: str, own: Zone | None, group: str, index: int
    ) -> tuple[ScheduleSpec, ...]:
        if name == "cron":
            return self._cron(node, text, path, own, group, index)
        if name == "at":
            return self._at(node, text, path, own or self.zone)
        if own is not None:
            reason = "an interval is the same in every time zone; 'timezone' does not move it."
            self.report.warn(node, path, reason, "Use 'cron' for times of the day.")
        period_us = duration_of(node, path, self.report, allow_subsecond=True)
        return () if period_us is None else self._checked(EverySpec(period_us), node, path)

    def _cron(
        self, node: Node, text: str, path: str, own: Zone | None, group: str, index: int
    ) -> tuple[ScheduleSpec, ...]:
        zone = own or self.zone
        prefix = _CRON_TZ.fullmatch(text)
        if prefix:
            named, text = zone_of(prefix[1], node, path, self.report), prefix[2]
            if named is None:
                return ()
            if own is not None and own.name != named.name:
                reason = f"CRON_TZ={named.name} on line {node.line} contradicts 'timezone: {own.name}' ({own.origin})."
                self.report.error(node, path, reason, "Remove one of them.")
            zone = named
        self.origins[f"{group}.{index}.timezone"] = zone.origin
        return self._checked(CronSpec(text.strip(" \t"), zone.name, self.name), node, path)

    def _at(self, node: Node, text: str, path: str, zone: Zone) -> tuple[ScheduleSpec, ...]:
        """An instant with an offset, or a local time of the zone where that is one instant exactly."""
        try:
            moment = datetime.fromisoformat(text) if _AT.fullmatch(text) else None
        except ValueError:
            moment = None
        if moment is None or not 1970 < moment.year < 2200:
            self.report.error(node, path, f"'{path}' is not a date and time: '{text[:60]}'.", _AT_EXAMPLE)
            return ()
        if moment.tzinfo is None:
            local = moment.replace(tzinfo=ZoneInfo(zone.name))
            if local.utcoffset() != local.replace(fold=1).utcoffset():
                there = local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) == moment
                what = "happens twice" if there else "does not exist"
                hint = f"Write it with an offset. {_AT_EXAMPLE}"
                self.report.error(node, path, f"'{path}': {text} {what} in {zone.name} (clocks change).", hint)
                return ()
            moment = local
        offset = moment.utcoffset()
        if offset is None or abs(offset) > timedelta(hours=18):
            self.report.error(node, path, f"'{path}' has an offset that no place on earth uses.", _AT_EXAMPLE)
            return ()
        return self._checked(AtSpec(from_datetime(moment)), node, path)

    def _checked(self, spec: ScheduleSpec, node: Node, path: str) -> tuple[ScheduleSpec, ...]:
        """A schedule that never fires or cannot be read is reported when the job is loaded, not when it is due."""
        return () if attempt(lambda: compile_schedule(spec), node, path, self.report) is None else (spec,)

"""By when a job must have succeeded: from `expectBy` and `expectWithin` to an `Expectation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from evertick.definitions.catalogue.job import TIME_OF_DAY
from evertick.definitions.fields.values import duration_of, text_of
from evertick.definitions.nodes import Node
from evertick.definitions.report import Report, Section
from evertick.model.job import Origin
from evertick.model.policy import Expectation
from evertick.model.schedule import ScheduleSpec, shared_zone

FIELDS: Final = {"expectBy": "expect_by", "expectWithin": "expect_within"}


def read_expectation(
    job: Section, schedules: Sequence[ScheduleSpec], zone: str, report: Report
) -> tuple[Expectation | None, dict[str, Origin]]:
    """The deadline of a job's occurrences, in the zone of its schedules, and where it is set."""
    by, within = (job.take(name) for name in FIELDS)
    found = None
    if by is not None:
        time = _time_of_day(by, "expectBy", report)
        found = None if time is None else Expectation(by=time, timezone=shared_zone(schedules) or zone)
    elif within is not None:
        within_us = duration_of(within, "expectWithin", report)
        found = None if within_us is None else Expectation(within_us=within_us)
    written = next((name for name in FIELDS if name in job), None)
    if written is None:
        return None, {}
    if not schedules:
        reason = f"'{written}' has no effect without a schedule: it is the deadline of its occurrences."
        report.warn(job.key(written), written, reason, "Add 'schedule', or remove the field.")
    return found, {FIELDS[written]: report.origin(job.key(written))}


def _time_of_day(node: Node, field: str, report: Report) -> str | None:
    text = text_of(node, field, report, longest=40)
    if text is None:
        return None
    if not TIME_OF_DAY.fullmatch(text.strip()):
        report.error(node, field, f"'{field}' cannot be '{text}'; it is a time of day.", 'Write for example "07:30".')
        return None
    return text.strip().rjust(5, "0")

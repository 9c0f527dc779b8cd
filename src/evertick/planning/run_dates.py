"""Which dates a run is for: its scheduled time in the zone of the job, and the occurrences around it.

Everything follows from the run's scheduled time and the job's schedules, so that every attempt, node and member finds
the same. A run that was requested (manual, API, chained) is for the time that it was requested for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from evertick.model import run_variables as variables
from evertick.model.instant import SECOND, Instant, from_datetime, to_datetime, to_text
from evertick.model.job import Job
from evertick.model.schedule import specs_from_text, specs_to_text
from evertick.model.template import Expression
from evertick.model.work import Timetable
from evertick.planning.schedules import Engine, compile_all, next_of, previous_of
from evertick.planning.zones import find_zone

_PYTHON: Final = {"F": "%Y-%m-%d", "T": "%H:%M:%S"}
_WITHOUT_FORM: Final = {"date": "%F", "hour": "%H"}


@dataclass(frozen=True, slots=True)
class RunDates:
    job_id: str
    timezone: str
    scheduled_for: Instant
    previous_for: Instant | None = None
    """The occurrence before it."""
    next_for: Instant | None = None
    previous_success_for: Instant | None = None

    def local(self, instant: Instant) -> datetime:
        return to_datetime(instant).astimezone(find_zone(self.timezone))

    def variables(self) -> dict[str, str]:
        """As environment variables; what a run does not have is not set."""
        local = self.local(self.scheduled_for)
        found = {
            variables.TIMEZONE: self.timezone,
            variables.SCHEDULED_FOR_LOCAL: local.isoformat(),
            variables.DATE: _formatted(local, "%F"),
            variables.HOUR: _formatted(local, "%H"),
        }
        for name, instant in ((variables.PREVIOUS, self.previous_for), (variables.NEXT, self.next_for)):
            if instant is not None:
                found[name] = to_text(instant)
        return found

    def value_of(self, expression: Expression) -> str:
        """The value of an expression of a definition."""
        match expression.name:
            case "timezone":
                return self.timezone
            case "job":
                return self.job_id
        instant = {
            "previous": self.previous_for,
            "next": self.next_for,
            "previous_success": self.previous_success_for,
        }.get(expression.name, self.scheduled_for)
        if instant is None:
            return ""
        moved = self._moved(instant, expression.offset_days, expression.offset_us)
        form = expression.form or _WITHOUT_FORM.get(expression.name)
        return to_text(moved) if form is None else _formatted(self.local(moved), form)

    def _moved(self, instant: Instant, days: int, us: int) -> Instant:
        if days:
            # On the calendar; a wall time that the clock skips is moved as a schedule's would be, by the zone's change.
            instant = from_datetime(self.local(instant) + timedelta(days=days))
        return instant + us


def dates_of(
    job_id: str, timetable: Timetable, scheduled_for: Instant, previous_success_for: Instant | None
) -> RunDates:
    engines = _engines_of(timetable.schedules)
    return RunDates(
        job_id,
        timetable.timezone,
        scheduled_for,
        previous_of(engines, scheduled_for),
        next_of(engines, scheduled_for) if engines else None,
        previous_success_for,
    )


def timetable_of(job: Job) -> Timetable:
    return Timetable(job.timezone, specs_to_text(job.schedules))


@lru_cache(maxsize=1_024)
def _engines_of(schedules: str) -> tuple[Engine, ...]:
    return compile_all(specs_from_text(schedules))


def _formatted(moment: datetime, form: str) -> str:
    """The text in a format of `template.DIRECTIVES`; digits only, whatever language the machine is set to."""
    text, parts = "", iter(form)
    for character in parts:
        if character != "%":
            text += character
            continue
        directive = next(parts)
        match directive:
            case "%":
                text += "%"
            case "s":
                text += str(from_datetime(moment) // SECOND)
            case "z":
                text += moment.strftime("%z")[:5]
            case "Y" | "G":
                year = moment.year if directive == "Y" else moment.isocalendar().year
                text += f"{year:04}"
            case _:
                text += moment.strftime(_PYTHON.get(directive, f"%{directive}"))
    return text

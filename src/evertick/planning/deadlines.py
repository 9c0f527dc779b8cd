"""By when must an occurrence have succeeded, and how does its job stand by that?

`expectWithin` gives each occurrence a deadline of its own. `expectBy` is a time of day: the deadline of the last
occurrence before it. Such a time is found as a cron expression is, so a night with a clock change has the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from evertick.model.instant import Instant
from evertick.model.lifecycle import Light, SkipReason
from evertick.model.policy import Expectation
from evertick.model.schedule import CronSpec
from evertick.planning.schedules import Schedule, compile_schedule, next_of, previous_of

EXCUSED: Final = frozenset(
    {
        SkipReason.PAUSED,
        SkipReason.DISABLED,
        SkipReason.CALENDAR,
        SkipReason.CONDITION,
        SkipReason.ALREADY_SUCCEEDED,
    }
)
"""An occurrence that was skipped for such a reason has no deadline: a person or a rule of the job wanted that."""


class Deadline(NamedTuple):
    scheduled_for: Instant
    """The occurrence that must have succeeded."""
    at: Instant


@lru_cache(maxsize=1_024)
def _times_of_day(by: str, timezone: str) -> Schedule:
    hour, _, minute = by.partition(":")
    return compile_schedule(CronSpec(f"{int(minute)} {int(hour)} * * *", timezone))


def next_deadline(schedules: Sequence[Schedule], expected: Expectation, after: Instant) -> Deadline | None:
    """The first deadline of the occurrences after an instant."""
    first = next_of(schedules, after)
    if first is None:
        return None
    if not expected.by:
        return Deadline(first, first + expected.within_us)
    at = _times_of_day(expected.by, expected.timezone).next_after(first)
    last = None if at is None else previous_of(schedules, at)
    return None if at is None or last is None else Deadline(last, at)


def deadline_of(schedules: Sequence[Schedule], expected: Expectation, scheduled_for: Instant) -> Instant | None:
    """The deadline of one occurrence; None: a later one must succeed by then."""
    found = next_deadline(schedules, expected, scheduled_for - 1)
    return found.at if found is not None and found.scheduled_for == scheduled_for else None


def passed_deadlines(
    schedules: Sequence[Schedule], expected: Expectation, after: Instant, until: Instant
) -> Iterator[Deadline]:
    """Deadlines up to `until`, of occurrences after an instant; the newest first, so that a reader may stop there."""
    if not expected.by:
        scheduled_for = previous_of(schedules, until - expected.within_us + 1)
        while scheduled_for is not None and scheduled_for > after:
            yield Deadline(scheduled_for, scheduled_for + expected.within_us)
            scheduled_for = previous_of(schedules, scheduled_for)
        return
    times = _times_of_day(expected.by, expected.timezone)
    time = times.previous_before(until + 1)
    while time is not None and (scheduled_for := previous_of(schedules, time)) is not None and scheduled_for > after:
        at = times.next_after(scheduled_for)  # days before, for a job that is due once a week
        assert at is not None
        yield Deadline(scheduled_for, at)
        time = times.previous_before(at)


def light_of(*, has_failed: bool, is_late: bool, is_under_way: bool) -> Light:
    """`has_failed`: the run that ended last; `is_late`: a deadline has passed since the last success.

    A run that is retried has not ended, so it is not down yet.
    """
    if not (has_failed or is_late):
        return Light.ON_TIME
    return Light.LATE if is_under_way else Light.DOWN

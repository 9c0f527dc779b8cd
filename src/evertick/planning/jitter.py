"""How much later than its time the run of an occurrence starts, for a job with jitter.

The delay is a hash of the job and the time: every node, a restart, a preview and the simulator compute the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise

from evertick.model.instant import DAY, SECOND, Instant
from evertick.model.job import Job
from evertick.model.schedule import CronSpec, EverySpec, ScheduleSpec, written_spec
from evertick.planning.cron import Cron
from evertick.planning.schedules import compile_all, next_of, uses_name

_CHECKED_FROM = 19_723 * DAY  # 2024-01-01, the first day of a leap year
_CHECKED_MAX = 200  # distances of a cron expression that are compared


def starts_at(job: Job, scheduled_for: Instant) -> Instant:
    """When the run of an occurrence starts: whole seconds after its time, and before the next occurrence."""
    jitter_us = job.policy.jitter_us
    if not jitter_us:
        return scheduled_for
    following = next_of(compile_all(job.schedules), scheduled_for)
    if following is not None:
        # Clock changes, calendars and several schedules can bring two occurrences closer together than the jitter:
        # their runs must not start in the wrong order.
        jitter_us = min(jitter_us, following - scheduled_for - 1)
    seed = blake2b(f"{job.id}@{scheduled_for}".encode(), digest_size=8)
    delay_seconds = int.from_bytes(seed.digest()) % (jitter_us // SECOND + 1)
    return scheduled_for + delay_seconds * SECOND


def shortest_distance(specs: Iterable[ScheduleSpec]) -> int | None:
    """The shortest time between two occurrences of one schedule, without clock changes; None: none repeats."""
    return min((found for spec in specs if (found := _distance(written_spec(spec))) is not None), default=None)


def _distance(spec: ScheduleSpec) -> int | None:
    match spec:
        case EverySpec(period_us):
            return period_us
        case CronSpec(text, timezone, name):
            return _cron_distance(Cron.parse(text, timezone, name).text, name if uses_name(text) else "")
        case _:
            return None


@lru_cache(maxsize=1_024)
def _cron_distance(text: str, name: str) -> int | None:
    # In UTC no clock changes: whether a definition is valid must not depend on the dates of its zone.
    cron = Cron.parse(text, "UTC", name)
    found: list[int] = []
    at = cron.next_second(_CHECKED_FROM // SECOND)
    while at is not None and len(found) <= _CHECKED_MAX:
        found.append(at)
        at = cron.next_second(at)
    shortest = min((later - earlier for earlier, later in pairwise(found)), default=None)
    return None if shortest is None else shortest * SECOND

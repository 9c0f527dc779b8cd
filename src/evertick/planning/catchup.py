"""Which occurrences are missed, and which missed ones are still worth running."""

from __future__ import annotations

from collections.abc import Sequence

from evertick.model.instant import Instant
from evertick.model.lifecycle import SkipReason
from evertick.model.policy import Missed
from evertick.planning.schedules import Schedule, first_of, newest


def missed_through(now: Instant, grace_us: int) -> Instant:
    """Occurrences up to and including this instant are missed; later ones are on time, past or future.

    Exactly `grace` late is on time, so the missed stretch ends one microsecond before it.
    """
    return now - grace_us - 1


def is_missed(scheduled_for: Instant, now: Instant, grace_us: int) -> bool:
    return scheduled_for <= missed_through(now, grace_us)


REASON_NOT_KEPT = {
    Missed.NONE: SkipReason.MISSED,
    Missed.FIRST: SkipReason.OVERLAP,
    Missed.LATEST: SkipReason.SUPERSEDED,
    Missed.ALL: SkipReason.CAP,
}
"""Why a missed occurrence inside the window is not run, by what the job keeps."""


def replay_from(now: Instant, watermark: Instant, window_us: int | None) -> Instant:
    """The instant after which missed occurrences are considered; a window of None has no bound but the watermark."""
    return watermark if window_us is None else max(now - window_us, watermark)


def keep_missed(
    keep: Missed,
    planned: Sequence[Instant],
    schedules: Sequence[Schedule],
    start: Instant,
    end: Instant,
    backlog_max: int,
) -> list[Instant]:
    """The missed instants to run, oldest first, out of `planned` (entered before) and `(start, end]` after them.

    At most `backlog_max`: of a longer backlog the newest are kept, never the oldest. What is not kept is not
    listed either: the cost follows what will run, not how long the scheduler was away.
    """
    match keep:
        case Missed.NONE:
            return []
        case Missed.FIRST:
            if planned:
                return [planned[0]]
            first = first_of(schedules, start, end)
            return [] if first is None else [first]
        case Missed.LATEST:
            return newest(schedules, start, end, 1) or list(planned[-1:])
        case Missed.ALL:
            fresh = newest(schedules, start, end, backlog_max)
            room = backlog_max - len(fresh)
            return [*(planned[-room:] if room else ()), *fresh]


def is_too_late(scheduled_for: Instant, now: Instant, max_delay_us: int | None) -> bool:
    """Whether it is later than the job's window allows; exactly `max_delay` late is still inside."""
    return max_delay_us is not None and now - scheduled_for > max_delay_us

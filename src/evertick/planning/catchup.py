"""Which missed times of a schedule are still worth running."""

from __future__ import annotations

from collections.abc import Sequence

from evertick.model.instant import Instant
from evertick.model.lifecycle import SkipReason
from evertick.model.policy import Missed
from evertick.planning.schedules import Schedule, first_of, newest

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

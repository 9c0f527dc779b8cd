"""Is an occurrence still on time?"""

from __future__ import annotations

from evertick.model.instant import Instant


def missed_through(now: Instant, grace_us: int) -> Instant:
    """Occurrences up to and including this instant are missed; later ones are on time, be they past or to come.

    Exactly `grace` late is missed: the on-time stretch is open on its left, so that no instant is in both.
    """
    return now - grace_us


def is_missed(scheduled_for: Instant, now: Instant, grace_us: int) -> bool:
    return scheduled_for <= missed_through(now, grace_us)

"""Is an occurrence still on time?"""

from __future__ import annotations

from evertick.model.instant import Instant


def missed_through(now: Instant, grace_us: int) -> Instant:
    """Occurrences up to and including this instant are missed; later ones are on time, past or future.

    Exactly `grace` late is on time, so the missed stretch ends one microsecond before it.
    """
    return now - grace_us - 1


def is_missed(scheduled_for: Instant, now: Instant, grace_us: int) -> bool:
    return scheduled_for <= missed_through(now, grace_us)

"""Is an occurrence too late to be of use, even when it is caught up?"""

from __future__ import annotations

from evertick.model.instant import Instant


def is_too_late(scheduled_for: Instant, now: Instant, max_delay_us: int | None) -> bool:
    """Whether it is later than the job's window allows; exactly `max_delay` late is still inside."""
    return max_delay_us is not None and now - scheduled_for > max_delay_us

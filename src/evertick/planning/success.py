"""Has the work of this occurrence been done already?"""

from __future__ import annotations

from evertick.model.instant import Instant
from evertick.model.lifecycle import Trigger


def already_succeeded(trigger: Trigger, previous_for: Instant | None, last_success_at: Instant | None) -> bool:
    """Whether a run succeeded since the previous occurrence, whose own run does not count.

    Only a live occurrence is checked: a caught-up or backfilled one is for its own time, and a requested run always
    runs. `previous_for` is the previous due time; None if this is the first.
    """
    if trigger is not Trigger.SCHEDULER or last_success_at is None:
        return False
    return previous_for is None or last_success_at > previous_for

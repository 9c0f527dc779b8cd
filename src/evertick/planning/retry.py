"""When is a failed run tried again?"""

from __future__ import annotations

from zlib import crc32

from evertick.model.instant import Instant
from evertick.model.policy import Backoff, Retry

_SHARES = 1 << 32


def retry_at(retry: Retry, attempt: int, ended_at: Instant, seed: str) -> Instant | None:
    """When attempt `attempt + 1` starts, or None when the tries are used up; attempts count from 1.

    Jitter comes from a hash of `seed` (the run's id) and the attempt: the same answer wherever it is asked.
    """
    if attempt > retry.max_retries:
        return None
    return ended_at + wait_us(retry, attempt, seed)


def wait_us(retry: Retry, attempt: int, seed: str) -> int:
    """How long to wait after `attempt` ended."""
    match retry.backoff:
        case Backoff.FIXED:
            wait = retry.delay_us
        case Backoff.LINEAR:
            wait = retry.delay_us * attempt
        case Backoff.EXPONENTIAL:
            # The shift is bounded so that attempt 10,000 does not build a number of 10,000 bits.
            wait = retry.delay_us << min(attempt - 1, 62)
    wait = min(wait, retry.cap_us)
    if retry.jitter:
        share = crc32(f"{seed}/{attempt}".encode()) / _SHARES
        wait += int(wait * retry.jitter * share)
    return wait

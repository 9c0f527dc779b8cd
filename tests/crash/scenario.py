"""A morning in which everything happens once: the jobs, the requests, the edit and the downtime.

Nothing in it coincides: no run ends, and nobody asks for anything, at an instant at which something is due. So what
happens does not hang on the order of two things at one instant, which a restart may change.
"""

from __future__ import annotations

from typing import NamedTuple

from evertick.model.instant import MINUTE, SECOND, Instant, from_text
from evertick.model.job import Job
from evertick.model.ledger import Request
from evertick.model.lifecycle import FAILED, SUCCEEDED
from evertick.model.policy import Backoff, Missed, Overlap, OverlapKind, Policy, Retry
from evertick.model.run import RunKey
from evertick.model.schedule import EverySpec
from evertick.operations.requests import pause_request, resume_request, trigger_request
from evertick.settings.parts import LoopSettings
from tests.disk_executor import Act

NINE = from_text("2026-03-02T09:00:00Z")


def clock(text: str) -> Instant:
    """`3:07` is three minutes and seven seconds past nine."""
    minutes, seconds = text.split(":")
    return NINE + int(minutes) * MINUTE + int(seconds) * SECOND


class Life(NamedTuple):
    """One start of the scheduler, and its end without a word."""

    start: Instant
    end: Instant


LIVES = (Life(clock("0:01"), clock("6:20")), Life(clock("18:03"), clock("22:20")))
"""The second begins with nothing of `flaky` due soon: that would take the place of what was missed."""
SETTINGS = LoopSettings(
    preread_us=MINUTE,
    interval_us=MINUTE,
    flush_us=5 * MINUTE,
    keep_us=2 * MINUTE,
    stall_us=10 * MINUTE,
)

MINUTELY = Job("minutely", schedules=(EverySpec(MINUTE),))
"""Takes longer than a minute: every other one is skipped; of those missed, all are, as one gap."""
QUEUE = Job(
    "queue",
    schedules=(EverySpec(2 * MINUTE),),
    policy=Policy(missed=Missed.ALL, catchup_window_us=6 * MINUTE, overlap=Overlap(OverlapKind.WAIT)),
)
"""Takes longer than its period: they wait for one another, live and caught up."""
FLAKY = Job(
    "flaky",
    schedules=(EverySpec(5 * MINUTE),),
    policy=Policy(
        missed=Missed.LATEST,
        overlap=Overlap(OverlapKind.LATEST),
        retry=Retry(max_retries=2, delay_us=20 * SECOND, backoff=Backoff.FIXED),
    ),
)
"""Every first attempt fails."""
EDITED, EDITED_LATER = (Job("edited", schedules=(EverySpec(period),)) for period in (3 * MINUTE, 4 * MINUTE))
EDIT_AT = clock("4:37")
PAUSED = Job("paused", schedules=(EverySpec(MINUTE),))
"""Paused long enough to leave a gap."""
BY_HAND = Job("by-hand")

REQUESTS = (
    pause_request("pause-1", PAUSED.id, clock("1:29"), note="for the test"),
    trigger_request("trigger-1", BY_HAND.id, clock("2:11"), by="ann"),
    trigger_request("trigger-2", MINUTELY.id, clock("3:13"), by="bob"),
    resume_request("resume-1", PAUSED.id, clock("21:29")),
)


def jobs_at(now: Instant) -> list[Job]:
    """The definitions as they are then."""
    return [MINUTELY, QUEUE, FLAKY, EDITED if now < EDIT_AT else EDITED_LATER, PAUSED, BY_HAND]


def requests_at(now: Instant) -> list[Request]:
    return [request for request in REQUESTS if request.submitted_at == now]


EVENTS = sorted({EDIT_AT, *(request.submitted_at for request in REQUESTS)})
"""When something is said to the scheduler."""

TAKES_US = {"minutely": 75 * SECOND, "queue": 130 * SECOND, "flaky": 7 * SECOND, "edited": 11 * SECOND}


def act(key: RunKey, attempt: int) -> Act:
    """How an attempt goes, whoever watches it."""
    state = FAILED if key.job_id == "flaky" and attempt == 1 else SUCCEEDED
    return Act(TAKES_US.get(key.job_id, 1_500_000), state)

"""Computes figures over many runs: outcomes of a period, success rate, percentiles, lateness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evertick.model.instant import SECOND
from evertick.model.job import Job
from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    LOST,
    PLANNED,
    RETRYING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TIMED_OUT,
    WAITING,
    RunState,
    SkipReason,
    Trigger,
)
from evertick.model.policy import GRACE_US
from evertick.model.run import LedgerRow
from evertick.operations.ledger_rows import lateness_seconds
from evertick.operations.results.jobs import Percentiles
from evertick.store import Tally

BAD = (FAILED, TIMED_OUT, LOST)
_FROM_GOOD_TO_BAD = "succeeded skipped cancelled planned waiting launching running retrying lost timed_out failed"
BADNESS = {RunState(word): number for number, word in enumerate(_FROM_GOOD_TO_BAD.split())}
"""Which state a cell of many runs has: that with the highest number."""

_OUTCOMES = {
    SUCCEEDED: "succeeded",
    **dict.fromkeys(BAD, "failed"),
    SKIPPED: "skipped",
    CANCELLED: "cancelled",
    **dict.fromkeys((LAUNCHING, RUNNING, RETRYING), "running"),
    **dict.fromkeys((PLANNED, WAITING), "waiting"),
}
_NO_OUTCOMES = dict.fromkeys((*_OUTCOMES.values(), "caught_up", "backfilled", "count"), 0)


def outcome_counts(tallies: Sequence[Tally]) -> dict[str, int]:
    """The fields of `Outcomes`: every occurrence counts once, by its outcome or its state."""
    found = _NO_OUTCOMES.copy()  # a month of the timeline has thousands of cells
    for one in tallies:
        found["count"] += one.occurrences
        found[_OUTCOMES[one.state]] += one.occurrences
        if one.trigger is Trigger.CATCHUP and one.state is not SKIPPED:
            found["caught_up"] += one.lines
        elif one.trigger is Trigger.BACKFILL:
            found["backfilled"] += one.lines
    return found


def skip_counts(tallies: Iterable[Tally]) -> dict[SkipReason, int]:
    """Skipped occurrences by reason."""
    found: Counter[SkipReason] = Counter()
    for one in tallies:
        if one.state is SKIPPED and one.reason is not None:
            found[one.reason] += one.occurrences
    return dict(sorted(found.items()))


def success_rate(states: Mapping[RunState, int]) -> float | None:
    """The share of runs that succeeded among those that succeeded or failed; a cancelled run counts as neither."""
    decided = states.get(SUCCEEDED, 0) + sum(states.get(state, 0) for state in BAD)
    return states.get(SUCCEEDED, 0) / decided if decided else None


def percentiles(values: Sequence[float]) -> Percentiles:
    if not values:
        return Percentiles(None, None, None, None, None, None)
    from statistics import quantiles

    cuts = quantiles(values, n=100, method="inclusive") if len(values) > 1 else [values[0]] * 99
    return Percentiles(cuts[9], cuts[49], cuts[89], cuts[94], cuts[98], max(values))


def on_time_lateness(rows: Iterable[LedgerRow], jobs: Mapping[str, Job]) -> list[float]:
    """How late the scheduled runs among some started, in seconds.

    A caught-up run is late by the length of an outage, and a run that is later than its grace was held back by its own
    policies, such as overlap or a full queue. Neither says how punctual the scheduler is.
    """
    found = []
    for row in rows:
        late, job = lateness_seconds(row), jobs.get(row.key.job_id)
        grace_us = job.policy.grace_us if job is not None else GRACE_US
        if late is not None and row.trigger is Trigger.SCHEDULER and late * SECOND <= grace_us:
            found.append(late)
    return found

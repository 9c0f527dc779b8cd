"""Merges the results of an attempt's parts: the attempt succeeds when all of them have."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from evertick.model.instant import Instant
from evertick.model.lifecycle import CANCELLED, FAILED, SKIPPED, SUCCEEDED, TIMED_OUT, RunState
from evertick.model.loss import LossReason, read_keeper_loss
from evertick.model.report import AttemptReport, LaunchRefused, RunFinished, RunLost, RunUnknown
from evertick.model.run import RunKey
from evertick.routing.placement import Placement


class NotEnded(StrEnum):
    """Why a part has no end of its own."""

    REFUSED = "refused"
    """Its member did not take it; nothing was started."""
    UNKNOWN = "unknown"
    """Its member has never seen it."""


class PartEnd(NamedTuple):
    """How one part ended."""

    member: str
    state: RunState | NotEnded
    at: Instant
    exit_code: int | None = None
    detail: str = ""
    steps: str | None = None
    cause: str = ""
    """Of a lost one, a word of `LossReason`; otherwise the constraint that did not hold, if that is why."""


def report_of(key: RunKey, attempt: int, end: PartEnd) -> AttemptReport:
    """Of an attempt that was in one place."""
    match end.state:
        case NotEnded.REFUSED:
            return LaunchRefused(key, attempt, end.detail)
        case NotEnded.UNKNOWN:
            return RunUnknown(key, attempt)
        case RunState.LOST:
            return RunLost(key, attempt, end.detail, end.steps, reason=_loss_of(end))
        case RunState() as state:
            return RunFinished(key, attempt, end.at, state, end.exit_code, end.detail, end.steps, broken=end.cause)


def joined(key: RunKey, attempt: int, placement: Placement, ends: Mapping[int, PartEnd]) -> AttemptReport:
    """Of a broadcast, by the numbers of the shards that this attempt carried out."""
    states = {end.state for end in ends.values()}
    if states == {NotEnded.UNKNOWN}:
        return RunUnknown(key, attempt)
    if states == {NotEnded.REFUSED}:
        return LaunchRefused(key, attempt, next(iter(ends.values())).detail)
    at = max(end.at for end in ends.values())
    # A shard whose condition did not hold had nothing to do there.
    fine = [number for number, end in ends.items() if end.state in (SUCCEEDED, SKIPPED)]
    done = str(placement.done(fine))
    if len(fine) == len(ends):
        state = SKIPPED if states == {SKIPPED} else SUCCEEDED
        detail = _first_detail(ends) if state is SKIPPED else ""
        return RunFinished(key, attempt, at, state, 0, detail, executor=done, broken=_broken(ends))
    bad = {number: end for number, end in sorted(ends.items()) if number not in fine}
    detail = _in_words(bad, len(placement.shards))
    for state in (FAILED, TIMED_OUT, CANCELLED):
        those = [end for end in bad.values() if end.state is state]
        if those:
            broken = _broken(bad)
            known = (key, attempt, at, state, those[0].exit_code, detail)
            return RunFinished(*known, executor=done, broken=broken, has_loss=RunState.LOST in states)
    reasons = {_loss_of(end) for end in bad.values()}
    reason = reasons.pop() if len(reasons) == 1 else LossReason.MEMBER_LOST
    return RunLost(key, attempt, detail, None, done, reason=reason)


def _loss_of(end: PartEnd) -> LossReason:
    """As the keeper of its member says; where that said nothing, the member is what was lost."""
    return read_keeper_loss(end.cause) or LossReason.MEMBER_LOST


def _broken(ends: Mapping[int, PartEnd]) -> str:
    return next((end.cause for end in ends.values() if end.cause and end.state is not RunState.LOST), "")


def _first_detail(ends: Mapping[int, PartEnd]) -> str:
    return next(iter(ends.values())).detail


def _in_words(bad: Mapping[int, PartEnd], total: int) -> str:
    told = [f"{number} on {end.member}: {end.detail or end.state}" for number, end in bad.items()]
    more = f"; and {len(told) - 5} more" if len(told) > 5 else ""
    return f"{len(bad)} of {total} shards did not succeed: {'; '.join(told[:5])}{more}"

"""The events that a node publishes: numbered, in the words of the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from evertick.dispatch.facts import Fact
from evertick.loop.effects import Log
from evertick.loop.messages import BucketsGained, BucketsLost, NodesSeen
from evertick.model.instant import Instant, to_text
from evertick.model.ledger import Snapshot
from evertick.model.lifecycle import PLANNED
from evertick.model.run import Change, Entry
from evertick.model.steps import read_steps

RUN, GAP, JOB, NODE, TIME, ALARM, DROPPED = "run", "gap", "job", "node", "time", "alarm", "dropped"
KINDS: Final[Mapping[str, str]] = {
    RUN: "The state of a run or of its steps changed, or an occurrence was skipped.",
    GAP: "Consecutive occurrences were skipped together.",
    JOB: "A job was added, changed, removed, held, resumed, or cannot be planned.",
    NODE: "This node gained or lost buckets of jobs, or the set of nodes changed.",
    TIME: "The clock jumped, or the loop stalled.",
    ALARM: "Another event that an operator should look at.",
    DROPPED: "Events were dropped because this listener was too slow; the event has their number.",
}

STEPS_MAX: Final = 8 * 1024
"""Characters; for a run with more, the state of its steps is read from the ledger."""
_NOTHING: Final = Snapshot()
_TIME: Final = frozenset({"clock.jumped", "loop.stalled"})
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=str).encode


class Event:
    """An event in the ring: its text is rendered once, for the first reader.

    Nothing else is kept beside the fact: ten thousand of them stay in memory.
    """

    __slots__ = ("_line", "at", "fact", "kind", "number")

    def __init__(self, number: int, at: Instant, kind: str, fact: Fact | int) -> None:
        self.number = number
        self.at = at
        self.kind = kind
        self.fact = fact
        self._line: bytes | None = None

    @property
    def data(self) -> Mapping[str, object]:
        """Plain values, as JSON has them."""
        head = {"event": self.number, "at": to_text(self.at), "kind": self.kind}
        return {**head, **_said(self.fact)}

    @property
    def line(self) -> bytes:
        if self._line is None:
            self._line = _encode(self.data).encode() + b"\n"
        return self._line


def kind_of(fact: Fact) -> str | None:
    """None for what is not an event: an occurrence planned ahead, a log line that is not an alarm."""
    if type(fact) is Change:  # most facts are this, so it is checked the fast way
        return RUN
    if type(fact) is Entry:
        return None if fact.state is PLANNED else GAP if fact.is_gap else RUN
    match fact:
        case BucketsGained() | BucketsLost() | NodesSeen():
            return NODE
        case Log(event, _, is_alarming):
            if event.startswith("job."):
                return JOB
            return TIME if event in _TIME else ALARM if is_alarming else None
        case _:
            return None


def kept(fact: Fact) -> Fact:
    """The part of a fact that an event contains: the ring must not hold a ledger, or the output of a thousand steps."""
    if type(fact) is Change:
        return fact._replace(steps=None) if fact.steps and len(fact.steps) > STEPS_MAX else fact
    return BucketsGained(fact.epochs, _NOTHING) if isinstance(fact, BucketsGained) else fact


def _said(fact: Fact | int) -> Mapping[str, object]:
    match fact:
        case Entry() if fact.is_gap:
            assert fact.through is not None
            return _known(
                job=fact.key.job_id,
                first=to_text(fact.key.scheduled_for),
                last=to_text(fact.through),
                occurrences=fact.occurrences,
                reason=fact.reason,
                detail=fact.detail or None,
            )
        case Entry():
            run = {"state": fact.state, "reason": fact.reason, "trigger": fact.trigger, "detail": fact.detail or None}
            return {**_whose(fact), **_known(**run)}
        case Change():
            return {**_whose(fact), **_change(fact)}
        case BucketsGained(epochs):
            return {"what": "gained", "buckets": sorted(epochs)}
        case BucketsLost(buckets, is_fenced):
            return {"what": "lost", "buckets": sorted(buckets), "is_fenced": is_fenced}
        case NodesSeen(nodes):
            return {"what": "seen", "nodes": sorted(nodes)}
        case Log(event, fields):
            what = event.removeprefix("job.") if event.startswith("job.") else event
            return {"what": what, **{name: _plain(value) for name, value in fields.items()}}
        case int():
            return {"count": fact}
        case _:
            return {}


def _whose(fact: Entry | Change) -> dict[str, object]:
    key = fact.key
    return {"job": key.job_id, "run": key.run_id, "scheduled_for": to_text(key.scheduled_for)}


def _change(change: Change) -> dict[str, object]:
    steps = None
    if change.steps:
        steps = [{"name": step.name, "state": step.state} for step in read_steps(change.steps)]
    return _known(
        state=change.state,
        attempt=change.attempt,
        reason=change.reason,
        trigger=change.trigger,
        executor=change.executor,
        started_at=_text(change.started_at),
        finished_at=_text(change.finished_at),
        retry_at=_text(change.retry_at),
        exit_code=change.exit_code,
        detail=change.detail,
        steps=steps,
    )


def _text(instant: Instant | None) -> str | None:
    return None if instant is None else to_text(instant)


def _known(**values: object) -> dict[str, object]:
    return {
        name: str(value) if isinstance(value, str) else value for name, value in values.items() if value is not None
    }


def _plain(value: object) -> object:
    """The values of a log line, as JSON allows them."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Sequence | frozenset | set) and not isinstance(value, str | bytes):
        return [_plain(one) for one in _ordered(value)]
    return str(value)


def _ordered(values: Iterable[object]) -> list[object]:
    return sorted(values) if isinstance(values, set | frozenset) else list(values)

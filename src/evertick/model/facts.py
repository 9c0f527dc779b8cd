"""The facts behind a ledger entry, as fields: the runs before it, what it waited for, and what was in its way.

Stored as JSON in one column. Answers about a run are made from these fields, never from the text beside them.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import NamedTuple, NotRequired, TypedDict

from evertick.model.instant import Instant
from evertick.model.plain_json import JsonObject

WAITS_MAX = 8
"""Waits that an entry keeps: the first ones tell why a run is late, and a run may wait for days."""
HOLDERS_MAX = 10


class Parent(NamedTuple):
    """A run that caused this one; the trigger says how."""

    run: str
    """Its id."""
    via: str = ""
    """The step that requested this run, or the constraint that was violated; empty: the run itself."""


class WaitKind(StrEnum):
    OVERLAP = "overlap"
    """Runs of the same job that are active."""
    QUEUE = "queue"
    """A place in a named queue."""
    AFTER = "after"
    """The success of other jobs."""
    EXECUTOR = "executor"
    """A member of the fleet that can run it."""
    RATE = "rate"
    """The time that a backfill leaves between two starts."""
    HOLD = "hold"
    """Its job: paused, disabled, deleted, or in error."""


class Wait(NamedTuple):
    """What a run waited for, and since when."""

    kind: WaitKind
    since: Instant
    name: str = ""
    """The queue or the executor, or how the job is held."""
    runs: tuple[str, ...] = ()
    """The runs that held the places, by id."""
    jobs: tuple[str, ...] = ()
    """The jobs whose success was missing."""
    detail: str = ""
    """What the executor lacked, as text."""
    limit: int = 0
    """How many places the queue has."""


class Facts(NamedTuple):
    parents: tuple[Parent, ...] = ()
    waits: tuple[Wait, ...] = ()
    other: str = ""
    """The id of the run that was in the way of a skipped one, or that replaced it."""
    other_state: str = ""
    """The state of that run; empty: it replaced this one."""
    missed_by: str = ""
    """For a missed occurrence: the rule that kept or skipped it, a word of `Missed`."""
    loss: str = ""
    """For a run that ended as lost: why, a word of `LossReason`."""
    stop: str = ""
    """For a run on another node than the owner of its job: why that node must stop it, as text."""
    held_since: Instant = 0
    """For an occurrence of a paused or disabled job: since when the job was held."""
    held_until: Instant = 0
    """For an occurrence in a blackout: when the blackout ended; 0: a person held the job."""
    success_for: Instant = 0
    """For an occurrence that was skipped because the job had succeeded: the due time of that success."""
    calendar: str = ""
    """For an occurrence on an excluded day: the calendar that excludes the day."""
    day: str = ""
    """The calendar's name for the day."""
    moved_to: Instant = 0
    """Where the calendar moved that occurrence; 0: nowhere."""
    starts_at: Instant = 0
    """For an occurrence of a job with jitter: when its run starts; 0: at its time."""
    overdue_since: Instant = 0
    """For a run that took longer than its job expects: when its newest such attempt should have ended."""


NO_FACTS = Facts()
_SINGLE = Facts._fields[2:]
"""The fields that are one value."""


def facts_text(facts: Facts) -> str:
    """As stored in the ledger: empty fields are left out, and no facts are an empty text."""
    if facts == NO_FACTS:
        return ""
    told: JsonObject = {}
    if facts.parents:
        told["parents"] = [_told(parent) for parent in facts.parents]
    if facts.waits:
        told["waits"] = [_told(wait) for wait in facts.waits]
    told |= {name: value for name in _SINGLE if (value := getattr(facts, name))}
    return json.dumps(told, separators=(",", ":"))


def read_facts(text: str) -> Facts:
    """The facts in the ledger; unknown fields of a newer version are ignored."""
    if not text:
        return NO_FACTS
    told = json.loads(text)
    parents = tuple(Parent(one["run"], one.get("via", "")) for one in told.get("parents", ()))
    waits = tuple(_wait(one) for one in told.get("waits", ()) if one["kind"] in _KINDS)
    return Facts(parents, waits, **{name: told[name] for name in _SINGLE if name in told})


def joined(facts: Facts, told: Facts) -> Facts:
    """Merge facts with newer ones about the same entry; parents and waits accumulate, the rest is replaced."""
    parents = (*facts.parents, *(one for one in told.parents if one not in facts.parents))
    waits = (*facts.waits, *(one for one in told.waits if one not in facts.waits))
    single = {name: value for name in _SINGLE if (value := getattr(told, name))}
    return facts._replace(parents=parents, waits=waits, **single)


def with_wait(facts: Facts, wait: Wait) -> Facts:
    """The facts with another wait, unless they have it already."""
    if len(facts.waits) >= WAITS_MAX or any((one.kind, one.name) == (wait.kind, wait.name) for one in facts.waits):
        return facts
    return facts._replace(waits=(*facts.waits, wait._replace(runs=wait.runs[:HOLDERS_MAX])))


_KINDS = frozenset(str(kind) for kind in WaitKind)


def _told(record: Parent | Wait) -> JsonObject:
    return {name: value for name, value in record._asdict().items() if value not in ("", (), 0)}


class _PlainWait(TypedDict):
    kind: str
    since: NotRequired[Instant]
    name: NotRequired[str]
    runs: NotRequired[list[str]]
    jobs: NotRequired[list[str]]
    detail: NotRequired[str]
    limit: NotRequired[int]


def _wait(told: _PlainWait) -> Wait:
    runs, jobs = tuple(told.get("runs", ())), tuple(told.get("jobs", ()))
    known = (WaitKind(told["kind"]), told.get("since", 0), told.get("name", ""), runs, jobs)
    return Wait(*known, told.get("detail", ""), told.get("limit", 0))

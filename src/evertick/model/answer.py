"""The scheduler's answer to a request, and how the ledger keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from enum import StrEnum

from evertick.model.instant import Instant


class Refusal(StrEnum):
    """Why a request was not executed."""

    NOT_FOUND = "not-found"
    CONFLICT = "conflict"
    NOT_UNDERSTOOD = "not-understood"


@dataclass(frozen=True, slots=True)
class Answer:
    """Which fields are set follows from what was asked; none are where the request only had to be taken up."""

    run_id: str | None = None
    """The run that was asked for."""
    cancelled: tuple[str, ...] | None = None
    """The runs that were cancelled."""
    planned: int | None = None
    """How many runs a backfill has."""
    paused_at: Instant | None = None
    is_resumed: bool | None = None
    """False: the job was not paused."""
    is_superseded: bool = False
    """A newer request of the same kind went first."""
    refusal: Refusal | None = None
    text: str = ""
    """Why it was refused, for people."""


TAKEN = Answer()
RESUMED = Answer(is_resumed=True)
SUPERSEDED = Answer(is_superseded=True)


def answer_text(answer: Answer) -> str:
    """Only what is set: most answers are one field."""
    set_fields = {name: value for name in _FIELDS if (value := getattr(answer, name)) != getattr(TAKEN, name)}
    return json.dumps(set_fields)


def read_answer(text: str) -> Answer:
    """Fields of a later version are left out, so that nodes of two versions can share a ledger."""
    found = json.loads(text) if text else {}
    known = {name: found[name] for name in _FIELDS if name in found}
    if "cancelled" in known:
        known["cancelled"] = tuple(known["cancelled"])
    if "refusal" in known:
        known["refusal"] = Refusal(known["refusal"]) if known["refusal"] in set(Refusal) else Refusal.CONFLICT
    return Answer(**known)


_FIELDS = tuple(field.name for field in fields(Answer))

"""An explanation of an occurrence while it is made: the facts, the rows they come from, and the sentences."""

from __future__ import annotations

from dataclasses import dataclass

from evertick.model.duration import duration_text
from evertick.model.instant import Instant
from evertick.model.lifecycle import SkipReason
from evertick.model.run import LedgerRow
from evertick.operations import next_steps
from evertick.operations.results.requests import NextStep
from evertick.operations.rules import NO_RULING, Ruling
from evertick.operations.time_text import time_text


@dataclass(frozen=True, slots=True)
class Explanation:
    """The facts, with the rows they come from, and the sentences made of them."""

    job_id: str
    at: Instant
    zone: str
    outcome: str
    """A state of a run, or `due`, `excluded`, `undecided`, `missing`, `unknown`, `no occurrence`."""
    sentences: tuple[str, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    reason: SkipReason | None = None
    row: LedgerRow | None = None
    other: LedgerRow | None = None
    """The run that was in the way, or that replaced it."""
    ruling: Ruling = NO_RULING
    before: Instant | None = None
    after: Instant | None = None
    starts_at: Instant | None = None
    """When its run starts, or was to start, by the job's jitter; None: at its time."""

    @property
    def verdict(self) -> str:
        return f"{self.outcome}: {self.reason}" if self.reason else self.outcome


def jitter_words(answer: Explanation) -> list[str]:
    """How much later than its time it starts."""
    if answer.starts_at is None:
        return []
    delay, start = duration_text(answer.starts_at - answer.at), time_text(answer.starts_at, answer.zone, answer.at)
    return [f"jitter delays its start by {delay}, to {start}"]


def run_it_now(answer: Explanation) -> NextStep:
    return next_steps.run_occurrence(answer.job_id, answer.at, answer.zone)

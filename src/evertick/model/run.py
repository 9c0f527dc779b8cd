"""Entries of the ledger: one for each occurrence and each requested run."""

from __future__ import annotations

from typing import NamedTuple

from evertick.model.instant import Instant, from_text, to_text
from evertick.model.lifecycle import RunState, SkipReason, Trigger


class RunKey(NamedTuple):
    """The identity of a run, everywhere and forever.

    `origin` is empty for an occurrence of the schedule, so that `(job_id, scheduled_for)` is unique among them;
    a requested run carries the id of its request and may share an instant with an occurrence.
    """

    job_id: str
    scheduled_for: Instant
    origin: str = ""

    @property
    def run_id(self) -> str:
        """`report@2026-03-02T09:00:00Z`, and `~request` behind it for a requested run."""
        text = f"{self.job_id}@{to_text(self.scheduled_for)}"
        return f"{text}~{self.origin}" if self.origin else text

    @classmethod
    def from_run_id(cls, run_id: str) -> RunKey:
        job_id, _, rest = run_id.partition("@")
        instant, _, origin = rest.partition("~")
        return cls(job_id, from_text(instant), origin)


class Entry(NamedTuple):
    """One line of the ledger as it is first written: a run to be, or a skip with its reason.

    A stretch of skipped occurrences is one entry too, a gap: `scheduled_for` is its first, `through` its last,
    `occurrences` how many there are.
    """

    key: RunKey
    state: RunState
    trigger: Trigger
    decided_at: Instant
    reason: SkipReason | None = None
    through: Instant | None = None
    occurrences: int = 1
    detail: str = ""
    """In words, for `why`: what the decision rested on."""
    params: str = ""
    """JSON, for a requested run."""
    facts: str = ""
    """What it rests on, as `model.facts` writes it."""

    @property
    def is_gap(self) -> bool:
        return self.occurrences > 1


class Change(NamedTuple):
    """What a run became: the new state, and what is known with it. None leaves a value as it is."""

    key: RunKey
    state: RunState
    at: Instant
    fence: int = 0
    """The token its writer holds; a change with an older one than the ledger's is refused."""
    attempt: int | None = None
    reason: SkipReason | None = None
    trigger: Trigger | None = None
    executor: str | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None
    retry_at: Instant | None = None
    exit_code: int | None = None
    detail: str | None = None
    steps: str | None = None
    """As `model.steps` writes them."""
    definition: str | None = None
    """The digest of what its job was when the attempt was launched."""
    earlier: str | None = None
    """The attempts before the present one, as `model.attempts` writes them."""
    facts: str | None = None
    """As of an entry; all of them."""


class LedgerRow(NamedTuple):
    """One line of the ledger as it stands now."""

    key: RunKey
    state: RunState
    trigger: Trigger
    decided_at: Instant
    decided_by: str
    reason: SkipReason | None = None
    through: Instant | None = None
    occurrences: int = 1
    detail: str = ""
    params: str = ""
    fence: int = 0
    attempt: int = 0
    executor: str = ""
    started_at: Instant | None = None
    finished_at: Instant | None = None
    retry_at: Instant | None = None
    exit_code: int | None = None
    changed_at: Instant = 0
    steps: str = ""
    """How its steps stand, as `model.steps` writes it; of the newest attempt that has said so."""
    definition: str = ""
    """The digest under which the ledger keeps what its job was when the newest attempt was launched."""
    earlier: str = ""
    """The earlier attempts, as `model.attempts` writes them."""
    facts: str = ""
    """What it rests on: its parents, what it waited for, and what was in its way, as `model.facts` writes it."""

"""Entries of the ledger: one for each occurrence and each requested run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
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
    """What the decision was based on, as text, for `why`."""
    params: str = ""
    """JSON, for a requested run."""
    facts: str = ""
    """Its facts, as `model.facts` writes them."""

    @property
    def is_gap(self) -> bool:
        return self.occurrences > 1


class Change(NamedTuple):
    """A change of a run: the new state, and its details. None leaves a value as it is."""

    key: RunKey
    state: RunState
    at: Instant
    fence: int = 0
    """The fence of its writer; the ledger refuses a change with an older fence than its own."""
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
    """The digest of its job's definition when the attempt was launched."""
    earlier: str | None = None
    """The attempts before the current one, as `model.attempts` writes them."""
    facts: str | None = None
    """As in an entry; all of them."""


# A storm makes tens of thousands of these in a second. Of a tuple with all fields, in their order, they take half the
# time, because no Python code is called; mypy does not check the fields.
run_key_of: Callable[[tuple[str, Instant, str]], RunKey] = partial(tuple.__new__, RunKey)
change_of: Callable[[Sequence[object]], Change] = partial(tuple.__new__, Change)


class LedgerRow(NamedTuple):
    """An entry of the ledger in its current state."""

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
    """The states of its steps, as `model.steps` writes them; from the newest attempt that reported them."""
    definition: str = ""
    """The digest of its job's definition when the newest attempt was launched."""
    earlier: str = ""
    """The earlier attempts, as `model.attempts` writes them."""
    facts: str = ""
    """Its facts: its parents, what it waited for, and what was in its way, as `model.facts` writes them."""


def newest_first(ended: Iterable[LedgerRow]) -> list[LedgerRow]:
    """Ended runs of one job by due time, newest first; a run and its retries have one due time, and end in turn."""
    return sorted(ended, key=lambda row: (row.key.scheduled_for, row.finished_at or 0, row.key.origin), reverse=True)

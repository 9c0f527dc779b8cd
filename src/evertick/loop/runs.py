"""Open runs, and where they wait and run."""

from __future__ import annotations

from typing import Final, NamedTuple

from evertick.model.facts import NO_FACTS
from evertick.model.instant import Instant
from evertick.model.lifecycle import PLANNED, RunState, Trigger
from evertick.model.policy import Overlap, OverlapKind, Policy
from evertick.model.report import SubRunWanted
from evertick.model.run import Change, RunKey


class OpenRun:
    """A run that has not ended."""

    __slots__ = (
        "attempt",
        "awaits_ledger",
        "borrows",
        "decided_at",
        "definition",
        "earlier",
        "early_change",
        "executor",
        "expected_at",
        "facts",
        "failed_elsewhere",
        "fence",
        "has_unsaid_steps",
        "has_used_successes",
        "has_wait_detail",
        "has_waited",
        "in_ledger",
        "is_inherited",
        "is_item",
        "is_to_be_asked",
        "key",
        "lease_until",
        "lease_us",
        "losses",
        "not_before",
        "params",
        "refusals",
        "retry_at",
        "started_at",
        "state",
        "steps",
        "stop_detail",
        "told_facts",
        "trigger",
        "was_asked",
        "yields",
    )

    def __init__(self, key: RunKey, trigger: Trigger, decided_at: Instant) -> None:
        self.key = key
        self.state: RunState = PLANNED
        self.trigger = trigger
        self.is_item = trigger is Trigger.ITEM
        """Whether it is an item of a step of another run of its job: what counts runs counts that one."""
        self.decided_at = decided_at
        self.in_ledger = False
        """Whether its entry is committed; nothing is launched before."""
        self.attempt = 0
        """The current or last attempt; 0 before the first."""
        self.fence = 0
        self.params = ""
        self.executor = ""
        self.borrows = False
        """Whether it uses the resources of the run that waits for it, and reserves none itself."""
        self.started_at: Instant | None = None
        self.retry_at: Instant | None = None
        self.expected_at: Instant | None = None
        """When it should have ended, if it is active and this was not reported yet."""
        self.not_before: Instant = 0
        self.lease_us: int | None = None
        self.lease_until: Instant | None = None
        self.stop_detail: str | None = None
        """Why it was asked to stop; None: it was not."""
        self.refusals = 0
        self.losses = 0
        self.steps = ""
        """The state of its steps, as its executor reports it."""
        self.definition = ""
        """The digest of its job's definition when the attempt was launched."""
        self.earlier = ""
        """The outcomes of earlier attempts, as `model.attempts` writes them."""
        self.facts = NO_FACTS
        """Its facts: its parents, and what it waited for."""
        self.told_facts = NO_FACTS
        """The facts that the ledger has."""
        self.has_unsaid_steps = False
        """Whether the ledger does not have its latest change yet."""
        self.awaits_ledger = False
        """Whether its launch waits for the ledger to record it."""
        self.is_inherited = False
        """Whether another node had it: that node may report its end until the ledger accepts a change of ours."""
        self.has_used_successes = False
        """Whether it has used the ends of its upstream jobs; if it could not be started, it needs no new ones."""
        self.has_waited = False
        """Whether it had to wait for its turn: for other runs, a queue, a member or upstream jobs."""
        self.has_wait_detail = False
        """Whether the ledger says what it waits for; this must be corrected when it starts."""
        self.was_asked = False
        """Whether its executor was asked for its state and has not answered yet."""
        self.is_to_be_asked = False
        """Whether that question is not sent yet, because reports of other nodes are read first."""
        self.yields = 0
        """How often it yielded to a run of higher priority."""
        self.failed_elsewhere: frozenset[str] | None = None
        """Jobs of other nodes that it requires and whose last run failed; None: the ledger has not answered."""
        self.early_change: Change | None = None
        """Its state before its entry was known to be in the ledger."""

    def due_at(self, now: Instant) -> Instant:
        """An occurrence is due when it starts; a requested run is due at once, whatever clock the request used."""
        return min(self.key.scheduled_for, now) if self.key.origin else self.starts_at

    @property
    def starts_at(self) -> Instant:
        """Its time, or later by the job's jitter."""
        return self.facts.starts_at or self.key.scheduled_for

    def latest_start(self, policy: Policy) -> Instant:
        """The last instant at which its jitter lets it start; the policy may have been edited since it was entered."""
        latest = self.key.scheduled_for + policy.jitter_us
        starts_at = self.facts.starts_at
        return starts_at if starts_at > latest else latest


ALONE: Final = Overlap(OverlapKind.WAIT)
"""The rule in the lane of an item, which has no other run."""


class Lane:
    """Runs that one overlap rule judges together: a job's own, those of one backfill, or an item by itself."""

    __slots__ = ("active", "gap_us", "next_start_at", "overlap", "waiting")

    def __init__(self, overlap: Overlap | None = None, gap_us: int = 0) -> None:
        self.overlap = overlap
        """A rule of its own; None: the job's current rule."""
        self.gap_us = gap_us
        self.next_start_at: Instant = 0
        self.active: dict[RunKey, OpenRun] = {}
        self.waiting: list[OpenRun] = []

    @property
    def is_of_item(self) -> bool:
        return self.overlap is ALONE

    @property
    def is_empty(self) -> bool:
        return not self.active and not self.waiting


class Queue:
    """A limit that runs of several jobs share."""

    __slots__ = ("active", "limit", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.active: set[RunKey] = set()
        self.waiting: dict[tuple[str, str], None] = {}
        """Job and origin of the lanes that would start a run if there were a free place, longest wait first."""

    @property
    def has_room(self) -> bool:
        return len(self.active) < self.limit


class AwaitedSubRun(NamedTuple):
    """A run of another job that a step of a run on this node has requested."""

    wanted: SubRunWanted
    key: RunKey
    is_stopped: bool = False
    """Of an item: its step was stopped, and waits for the end of what has begun."""


class EndedRun(NamedTuple):
    """A run that ended; from `forget_at` on it is forgotten even if the ledger never answers about it."""

    forget_at: Instant
    run: OpenRun
    detail: str
    finished_at: Instant | None
    exit_code: int | None

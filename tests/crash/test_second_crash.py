"""What a second crash finds of what the first one left."""

from __future__ import annotations

import pytest

from evertick.loop.decide import decide
from evertick.loop.effects import Launch, Reconcile
from evertick.loop.messages import BucketsGained, DefinitionsResynced, NodesSeen, RunUnknown
from evertick.loop.state import State
from evertick.model.instant import MINUTE, from_text
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS, JobRecord, Snapshot
from evertick.model.lifecycle import PLANNED, WAITING, RunState, Trigger
from evertick.model.policy import Overlap, OverlapKind, Policy
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import EverySpec
from evertick.settings.parts import LoopSettings

NINE = from_text("2026-03-02T09:00:00Z")
NOW = NINE + 1


def row(at: int, state: RunState) -> LedgerRow:
    return LedgerRow(RunKey("report", at), state, Trigger.SCHEDULER, at - MINUTE, "node/first#1")


@pytest.mark.parametrize("kind", [OverlapKind.SKIP, OverlapKind.WAIT, OverlapKind.LATEST, OverlapKind.REPLACE])
def test_a_run_that_waits_starts_when_the_executor_has_seen_none_of_those_before_it(kind):
    """The first crash left a run launched but never started, which then waited; the second found the next one due.

    A job that skips would otherwise skip for ever: each occurrence because of the one that waits, and nobody starts it.
    """
    job = Job("report", schedules=(EverySpec(MINUTE),), policy=Policy(overlap=Overlap(kind)))
    state = State(LoopSettings(), "node", "third", NOW)
    record = JobRecord(job.id, NOW, fingerprint=job.fingerprint)
    left = Snapshot([record], [row(NINE - MINUTE, WAITING), row(NINE, PLANNED)])
    gained = BucketsGained(dict.fromkeys(range(BUCKETS), 3), left)
    first = decide(state, [DefinitionsResynced([job]), NodesSeen(frozenset({"node"})), gained], NOW)
    asked = [one for effect in first.effects if isinstance(effect, Reconcile) for one in effect.runs]
    assert NINE in [key.scheduled_for for key, *_ in asked]
    second = decide(state, [RunUnknown(key, attempt) for key, attempt, *_ in asked], NOW)
    third = decide(state, [], NOW)
    effects = [*first.effects, *second.effects, *third.effects]
    launched = [effect.key.scheduled_for for effect in effects if isinstance(effect, Launch)]
    assert launched[:1] == [NINE - MINUTE]

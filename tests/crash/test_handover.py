"""A bucket changes its owner at the very moment a run ends: does the new owner learn the outcome?

If it does not, the run stays open for ever: by the ledger it is under way on a node that lives, and is waited for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from evertick.loop.decide import decide
from evertick.loop.effects import Commit, Effect, Launch, ReadReports, Record
from evertick.loop.messages import (
    BatchCommitted,
    BucketsGained,
    BucketsLost,
    ChangesRecorded,
    DefinitionsResynced,
    LeaseRenewed,
    NodesSeen,
    ReportsRead,
    RunFinished,
    RunStarted,
)
from evertick.loop.state import State
from evertick.model.instant import HOUR, MINUTE, from_text
from evertick.model.job import Job
from evertick.model.ledger import BUCKETS, JobRecord, RequestKind, Snapshot, bucket_of
from evertick.model.lifecycle import LAUNCHING, RUNNING, SUCCEEDED, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.model.schedule import EverySpec
from evertick.settings.parts import LoopSettings

NINE = from_text("2026-03-02T09:00:00Z")
JOB = Job("report", schedules=(EverySpec(MINUTE),))
KEY = RunKey("report", NINE)
BUCKET = bucket_of(JOB.id)
STARTED = RunStarted(KEY, 1, NINE)
FINISHED = RunFinished(KEY, 1, NINE, SUCCEEDED, 0)
GIVEN_UP, TAKEN = BucketsLost({BUCKET: 1}), BucketsLost({BUCKET: 1}, is_fenced=True)


@pytest.fixture
def state() -> State:
    """A node among others that has just launched a run."""
    state = State(LoopSettings(), "node-1", "one", NINE - 1)
    gained = BucketsGained(dict.fromkeys(range(BUCKETS), 1), Snapshot())
    nodes = NodesSeen(frozenset({"node-1", "node-2"}))
    first = decide(state, [DefinitionsResynced([JOB]), LeaseRenewed(NINE + HOUR), nodes, gained], NINE - 1)
    numbers = [effect.number for effect in first.effects if isinstance(effect, Commit)]
    second = decide(state, [BatchCommitted(number) for number in numbers], NINE)
    assert [effect.key for effect in second.effects if isinstance(effect, Launch)] == [KEY]
    return state


def is_told(effects: Sequence[Effect]) -> bool:
    """Whether the end of the run goes to the ledger: as a change by its owner, or as a report to the next one."""
    changes = [change for effect in effects if isinstance(effect, Record) for change in effect.changes]
    requests = [request for effect in effects if isinstance(effect, Commit) for request in effect.batch.requests]
    return any(change.key == KEY and change.state is SUCCEEDED for change in changes) or any(
        request.kind is RequestKind.REPORT and json.loads(request.payload)["run_id"] == KEY.run_id
        for request in requests
    )


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param([GIVEN_UP, STARTED, FINISHED], id="it is given up, then the run ends"),
        pytest.param([STARTED, GIVEN_UP, FINISHED], id="it is given up while the run goes on"),
        pytest.param([STARTED, FINISHED, GIVEN_UP], id="the run ends, then it is given up"),
        pytest.param([TAKEN, STARTED, FINISHED], id="it is taken, then the run ends"),
        pytest.param([STARTED, FINISHED, TAKEN], id="the run ends, then it is taken"),
    ],
)
def test_all_of_it_in_one_turn(state, messages):
    assert is_told(decide(state, messages, NINE).effects)


def test_the_change_is_refused_because_another_node_has_the_bucket_by_now(state):
    written = decide(state, [STARTED, FINISHED], NINE).effects
    assert is_told(written)
    numbers = [effect.number for effect in written if isinstance(effect, Record)]
    later = [decide(state, [message], NINE) for message in (ChangesRecorded(numbers, frozenset({KEY})), TAKEN)]
    assert is_told([effect for decision in later for effect in decision.effects])


@pytest.mark.parametrize("has_ended", [True, False], ids=["it had ended meanwhile", "nobody has heard of it"])
def test_a_run_whose_node_seems_gone_is_tried_again_when_the_ledger_takes_our_word_for_it(has_ended):
    """Its node may have said how it ended just after we read the ledger, and before our fence was in it."""
    running = LedgerRow(
        KEY, RUNNING, Trigger.SCHEDULER, NINE - MINUTE, "node-1/1#1", attempt=1, executor="local@node-1"
    )
    left = Snapshot([JobRecord(JOB.id, NINE + MINUTE, fingerprint=JOB.fingerprint)], [running])
    state = State(LoopSettings(), "node-2", "one", NINE + 1)
    gained = BucketsGained(dict.fromkeys(range(BUCKETS), 2), left)
    nodes = NodesSeen(frozenset({"node-2"}))
    first = decide(state, [DefinitionsResynced([JOB]), LeaseRenewed(NINE + HOUR), nodes, gained], NINE + 1)
    (asked,) = [effect for effect in first.effects if isinstance(effect, ReadReports)]
    second = decide(state, [ReportsRead(asked.number)], NINE + 1)
    assert [effect for effect in (*first.effects, *second.effects) if isinstance(effect, Launch)] == []
    (commit,) = [effect for effect in second.effects if isinstance(effect, Commit)]
    assert [(change.key, change.state) for change in commit.batch.changes] == [(KEY, LAUNCHING)]
    overruled = frozenset({KEY}) if has_ended else frozenset()
    third = decide(state, [BatchCommitted(commit.number, overruled=overruled)], NINE + 2)
    launched = [effect.key for effect in third.effects if isinstance(effect, Launch)]
    assert launched == ([] if has_ended else [KEY])

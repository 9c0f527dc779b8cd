"""Whether the number of runs in each state equals a recount."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evertick.dispatch.facts import Withdrawn
from evertick.dispatch.run_counters import RunCounters
from evertick.loop.messages import BucketsGained, BucketsLost
from evertick.model.instant import SECOND
from evertick.model.ledger import BUCKETS, Snapshot, bucket_of
from evertick.model.lifecycle import OPEN, PLANNED, RUNNING, SKIPPED, RunState, SkipReason, Trigger
from evertick.model.run import Change, Entry, LedgerRow, RunKey

NINE = 1_772_442_000 * SECOND
ALL = BucketsGained(dict.fromkeys(range(BUCKETS), 1), Snapshot())

jobs = st.sampled_from("abcdef")
keys = st.builds(RunKey, jobs, st.integers(NINE, NINE + 3))
triggers = st.sampled_from([None, Trigger.SCHEDULER])
changes = st.builds(Change, keys, st.sampled_from(RunState), st.just(NINE), trigger=triggers)
entries = st.builds(Entry, keys, st.just(PLANNED), st.just(Trigger.SCHEDULER), st.just(NINE))
withdrawn = st.builds(Withdrawn, st.lists(keys, max_size=3))


@given(st.lists(st.one_of(changes, entries, withdrawn), max_size=60))
def test_the_counters_are_what_a_recount_gives(facts):
    counters = RunCounters()
    states: dict[Any, Any] = {}
    counters([ALL, *facts])
    for fact in facts:
        if isinstance(fact, Withdrawn):
            for key in fact.keys:
                states.pop(key, None)
        elif fact.state in OPEN:
            states[fact.key] = fact.state
        else:
            states.pop(fact.key, None)
    counted = Counter(states.values())
    assert counters.open_runs == {str(state): counted[state] for state in RunState if state in OPEN}


def test_what_was_open_when_the_buckets_came_is_counted_and_gone_when_they_go():
    row = LedgerRow(RunKey("a", NINE), RUNNING, Trigger.SCHEDULER, NINE, "n")
    counters = RunCounters()
    counters([BucketsGained({bucket_of("a"): 1}, Snapshot(open_runs=[row]))])
    assert counters.open_runs["running"] == 1
    counters([BucketsLost({bucket_of("a"): 1}, is_fenced=True)])
    assert (counters.open_runs["running"], counters.buckets_lost) == (0, 1)
    # It goes on here, and is another node's to count.
    counters([Change(RunKey("a", NINE + 1), RUNNING, NINE)])
    assert counters.open_runs["running"] == 0


def test_a_gap_is_counted_as_one_and_not_as_an_open_run():
    counters = RunCounters()
    counters([ALL, Entry(RunKey("a", NINE), SKIPPED, Trigger.SCHEDULER, NINE, SkipReason.CAP, NINE + 9, 10)])
    assert counters.gaps == 1
    assert set(counters.open_runs.values()) == {0}


def test_a_run_of_an_item_is_counted_nowhere_not_even_after_a_change_that_does_not_say_what_it_is():
    counters, key = RunCounters(), RunKey("a", NINE, "sub-x")
    row = LedgerRow(key._replace(origin="sub-y"), RUNNING, Trigger.ITEM, NINE, "n")
    counters([BucketsGained(dict.fromkeys(range(BUCKETS), 1), Snapshot(open_runs=[row]))])
    counters([Entry(key, PLANNED, Trigger.ITEM, NINE), Change(row.key, RUNNING, NINE), Change(key, RUNNING, NINE)])
    assert set(counters.open_runs.values()) == {0}

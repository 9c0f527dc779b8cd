"""What every store must do about runs of items: each is a part of another run, and counted with it."""

from __future__ import annotations

import pytest

from evertick.model.ledger import Claim
from evertick.model.lifecycle import FAILED, LAUNCHING, OPEN, RUNNING, SUCCEEDED, Trigger
from evertick.store import Batch, JobRecord, RunFilter, find_line
from tests.stores.builders import HOUR, NINE, NOON, TEN, became, enter, keys, occurrence, planned, requested, row

PARENT = occurrence(NINE, "a")
ITEMS = [requested(NINE, "a", f"sub-{number}") for number in range(12)]


class ItemContract:
    @pytest.fixture
    def fan_out(self, store):
        """A run has succeeded, and one of its items had failed."""
        store.commit(Batch(by="node-1", jobs=[JobRecord("a", NINE)]))
        enter(store, planned(PARENT), *(planned(key, trigger=Trigger.ITEM) for key in ITEMS))
        store.record([became(PARENT, LAUNCHING), became(PARENT, SUCCEEDED, trigger=Trigger.SCHEDULER)])
        store.record([became(ITEMS[0], LAUNCHING), became(ITEMS[0], FAILED, trigger=Trigger.ITEM)])
        store.record([became(ITEMS[1], RUNNING)])
        return store

    @pytest.mark.parametrize("where", [RunFilter(), RunFilter(job_ids=["a"]), RunFilter(since=NINE, until=TEN)])
    def test_a_list_of_runs_leaves_them_out(self, fan_out, where):
        assert keys(fan_out, where) == [PARENT]

    def test_failed_items_are_not_listed_among_runs(self, fan_out):
        assert keys(fan_out, RunFilter(states=[FAILED])) == []

    @pytest.mark.parametrize("jobs", [[], ["a"]])
    def test_their_trigger_finds_them(self, fan_out, jobs):
        assert sorted(keys(fan_out, RunFilter(job_ids=jobs, triggers=[Trigger.ITEM]))) == sorted(ITEMS)

    def test_a_filter_can_include_items(self, fan_out):
        assert sorted(keys(fan_out, RunFilter(with_items=True))) == sorted([PARENT, *ITEMS])
        assert sorted(keys(fan_out, RunFilter(states=OPEN, with_items=True))) == sorted(ITEMS[1:])

    def test_they_are_open_runs_for_a_node_that_takes_over(self, fan_out):
        assert [line.key for line in fan_out.load().open_runs] == sorted(ITEMS[1:], key=lambda key: key.origin)

    @pytest.mark.parametrize("key", [PARENT, ITEMS[0], ITEMS[1], ITEMS[10]])
    def test_a_line_of_an_item_is_found_by_its_key(self, fan_out, key):
        found = find_line(fan_out, key)
        assert found is not None
        assert found.key == key

    @pytest.mark.parametrize("origin", ["sub-", "sub-111", "zzz"])
    def test_a_key_that_there_is_not_finds_none(self, fan_out, origin):
        assert find_line(fan_out, requested(NINE, "a", origin)) is None

    def test_the_last_run_of_a_job_is_not_an_item(self, fan_out):
        assert [line.key for line in fan_out.newest(["a"], 3)["a"]] == [PARENT]

    def test_they_are_in_no_tally_and_no_outcome(self, fan_out):
        tallies = fan_out.tally(RunFilter(since=NINE, until=NOON), HOUR)
        assert [(one.state, one.trigger, one.lines) for one in tallies] == [(SUCCEEDED, Trigger.SCHEDULER, 1)]
        for bounds in ([NINE, TEN], [NINE - HOUR // 2, NINE + HOUR // 2]):
            outcomes = fan_out.outcomes(bounds)
            assert [(one.state, one.trigger, one.lines) for one in outcomes] == [(SUCCEEDED, Trigger.SCHEDULER, 1)]

    def test_their_ends_are_counted_by_the_hour_as_in_their_entries(self, fan_out):
        assert fan_out.wrong_counts() == []

    def test_the_counters_of_ends_leave_them_out(self, fan_out):
        counters = {name: count for name, count in fan_out.counters().items() if count}
        assert counters == {"entries.scheduler": 1, "entries.item": 12, "ended.succeeded": 1}

    def test_they_have_no_place_in_a_queue(self, fan_out):
        other = occurrence(TEN, "a")
        enter(fan_out, planned(other))
        batch = Batch(by="node-1", changes=[became(other, LAUNCHING)], claims=[Claim("narrow", 1, ["a"], [other])])
        assert fan_out.commit(batch).crowded == frozenset()
        assert row(fan_out, other).state is LAUNCHING

    def test_retention_removes_them_with_the_rest(self, fan_out):
        fan_out.record([became(key, SUCCEEDED, trigger=Trigger.ITEM) for key in ITEMS[1:]])
        assert fan_out.compact({}, NOON, 1_000) == 13
        assert keys(fan_out, RunFilter(with_items=True)) == []

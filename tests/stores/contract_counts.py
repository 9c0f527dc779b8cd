"""What every store must do about its counts by hour: they always equal its entries."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from evertick.model.lifecycle import CANCELLED, FAILED, LAUNCHING, RUNNING, SUCCEEDED, SkipReason, Trigger
from evertick.store import Batch, RunFilter, Store, Tally
from tests.stores.builders import (
    DAY,
    ELEVEN,
    HOUR,
    MINUTE,
    NINE,
    NOON,
    TEN,
    became,
    enter,
    gap,
    occurrence,
    planned,
    requested,
    skipped,
)


def ends(store: Store, key, state=SUCCEEDED, **known) -> frozenset:
    return store.record([became(key, LAUNCHING), became(key, state, **known)])


def by_lines(store: Store, bounds, job_id=None) -> list[Tally]:
    """The same from the lines themselves, cell by cell."""
    found = []
    for cell, (since, until) in enumerate(pairwise(bounds)):
        where = RunFilter(since=since, until=until, job_ids=() if job_id is None else [job_id])
        tallies = store.tally(where, until - since)
        found += [one._replace(cell=cell, longest_us=None, latest_us=None) for one in tallies]
    return found


class OutcomeContract:
    HOURS = (NINE, TEN, ELEVEN, NOON)

    def test_ended_and_open_lines_are_counted_by_kind(self, store):
        enter(store, *(planned(occurrence(at)) for at in (NINE, NINE + MINUTE, TEN)))
        enter(store, planned(requested(TEN), RUNNING, Trigger.MANUAL), skipped(occurrence(ELEVEN), SkipReason.LATE))
        ends(store, occurrence(NINE))
        ends(store, occurrence(NINE + MINUTE), trigger=Trigger.CATCHUP)
        assert store.outcomes(self.HOURS) == [
            Tally(0, "", SUCCEEDED, Trigger.CATCHUP, None, 1, 1, None, None),
            Tally(0, "", SUCCEEDED, Trigger.SCHEDULER, None, 1, 1, None, None),
            *by_lines(store, self.HOURS)[2:],
        ]
        assert store.outcomes(self.HOURS) == by_lines(store, self.HOURS)

    def test_a_gap_counts_all_that_it_skips_where_it_begins(self, store):
        enter(store, gap(TEN, NOON, 120))
        (one,) = store.outcomes(self.HOURS)
        assert (one.cell, one.reason, one.lines, one.occurrences) == (1, SkipReason.CAP, 1, 120)

    @pytest.mark.parametrize("minutes", [0, 1, 30, 45, 59])
    def test_a_bound_may_be_inside_an_hour(self, store, minutes):
        enter(store, *(planned(occurrence(NINE + number * 15 * MINUTE)) for number in range(14)))
        for number in range(0, 14, 3):
            ends(store, occurrence(NINE + number * 15 * MINUTE))
        bounds = [NINE + minutes * MINUTE + number * HOUR for number in range(3)]
        assert store.outcomes(bounds) == by_lines(store, bounds)

    def test_cells_may_have_several_widths_as_days_have_where_a_clock_changes(self, store):
        keys = [occurrence(NINE + number * 5 * HOUR) for number in range(30)]
        enter(store, *map(planned, keys))
        for key in keys:
            ends(store, key, FAILED if key.scheduled_for % 2 else SUCCEEDED)
        bounds = [NINE, NINE + DAY, NINE + 2 * DAY - HOUR, NINE + 3 * DAY - HOUR, NINE + 4 * DAY + MINUTE]
        assert store.outcomes(bounds) == by_lines(store, bounds)
        assert sum(one.lines for one in store.outcomes(bounds)) == 20

    def test_two_bounds_inside_one_hour_are_a_mistake_of_the_caller(self, store):
        with pytest.raises(AssertionError, match="inside one hour"):
            store.outcomes([NINE + 1, NINE + 2])

    def test_a_job_is_counted_by_itself(self, store):
        enter(store, planned(occurrence(NINE, "a")), planned(occurrence(NINE, "b")), planned(occurrence(TEN, "a")))
        ends(store, occurrence(NINE, "a"))
        assert store.outcomes(self.HOURS, "a") == by_lines(store, self.HOURS, "a")
        assert sum(one.lines for one in store.outcomes(self.HOURS, "a")) == 2

    def test_a_run_is_counted_once_however_often_its_end_is_reported(self, store):
        enter(store, planned(occurrence()))
        for _ in range(2):
            ends(store, occurrence(), fence=3, trigger=Trigger.SCHEDULER)
        assert ends(store, occurrence(), FAILED, fence=3)
        assert ends(store, occurrence(), FAILED, fence=2)
        assert [one.lines for one in store.outcomes(self.HOURS)] == [1]
        assert store.wrong_counts() == []

    def test_an_end_without_a_trigger_counts_under_the_trigger_of_its_entry(self, store):
        enter(store, planned(occurrence(), trigger=Trigger.CATCHUP), planned(requested(), trigger=Trigger.BACKFILL))
        store.record([became(occurrence(), CANCELLED), became(requested(), CANCELLED)])
        assert {one.trigger for one in store.outcomes(self.HOURS)} == {Trigger.CATCHUP, Trigger.BACKFILL}
        assert store.wrong_counts() == []

    def test_withdrawn_and_refused_entries_are_not_counted(self, store):
        enter(store, planned(occurrence(NINE)), skipped(occurrence(TEN)))
        assert enter(store, skipped(occurrence(TEN)), skipped(occurrence(ELEVEN)), by="node-2") == {occurrence(TEN)}
        store.commit(Batch(by="node-1", withdrawn=[occurrence(NINE), occurrence(TEN)]))
        assert [(one.cell, one.lines) for one in store.outcomes(self.HOURS)] == [(1, 1), (2, 1)]
        assert store.wrong_counts() == []

    def test_lines_removed_by_retention_are_subtracted(self, store):
        enter(store, gap(NINE, TEN - 1, 60), skipped(occurrence(TEN)), skipped(occurrence(ELEVEN)))
        assert store.compact({}, ELEVEN, 1) == 1
        assert [(one.cell, one.occurrences) for one in store.outcomes(self.HOURS)] == [(1, 1), (2, 1)]
        assert store.compact({}, ELEVEN, 10) == 1
        assert [one.cell for one in store.outcomes(self.HOURS)] == [2]
        assert store.wrong_counts() == []

    def test_the_counts_are_there_after_a_restart(self, store, reopen):
        enter(store, *(planned(occurrence(NINE + number * MINUTE)) for number in range(90)))
        for number in range(0, 90, 4):
            ends(store, occurrence(NINE + number * MINUTE))
        before = store.outcomes(self.HOURS)
        store = reopen()
        assert store.outcomes(self.HOURS) == before
        assert store.wrong_counts() == []

    def test_random_ends_in_random_batches_are_counted_as_in_the_entries(self, store):
        dice = Random(11)
        keys = [occurrence(NINE + number * 7 * MINUTE, f"job-{number % 5}") for number in range(60)]
        for number in range(0, 60, 12):
            entries = [planned(key, trigger=dice.choice(list(Trigger))) for key in keys[number : number + 12]]
            done = dice.sample(keys[: number + 12], 9)
            changes = [became(key, dice.choice([RUNNING, SUCCEEDED, FAILED])) for key in done]
            store.commit(Batch(by=f"node-{number}", entries=entries, changes=changes))
            store.record([became(key, dice.choice([SUCCEEDED, CANCELLED])) for key in dice.sample(keys, 6)])
        bounds = [NINE + number * 2 * HOUR + 13 * MINUTE for number in range(4)]
        assert store.outcomes(bounds) == by_lines(store, bounds)
        assert store.wrong_counts() == []

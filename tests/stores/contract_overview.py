"""What every store must do about counting: `newest`, `tally`, and runs by where they ran."""

from __future__ import annotations

import threading

import pytest

from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    SkipReason,
    Trigger,
)
from evertick.store import Batch, JobRecord, RunFilter, Tally
from tests.stores.builders import (
    ELEVEN,
    HOUR,
    MINUTE,
    NINE,
    NOON,
    SECOND,
    TEN,
    asked,
    became,
    enter,
    gap,
    keys,
    occurrence,
    planned,
    requested,
    skipped,
)


def carry_out(store, key, seconds, state=SUCCEEDED, late=0, executor="local"):
    """Enter a run and take it through its life."""
    start = key.scheduled_for + late
    enter(store, planned(key))
    store.record(
        [
            became(key, LAUNCHING, executor=executor),
            became(key, RUNNING, start, started_at=start),
            became(key, state, finished_at=start + seconds * SECOND),
        ]
    )


class NewestContract:
    """How each job last ended."""

    def know(self, store, *jobs):
        store.commit(Batch(by="node-1", jobs=[JobRecord(job, NINE) for job in jobs]))

    def test_each_job_has_its_own(self, store):
        self.know(store, "a", "b")
        carry_out(store, occurrence(NINE, "a"), 1)
        carry_out(store, occurrence(TEN, "a"), 1, FAILED)
        carry_out(store, occurrence(NINE, "b"), 1)
        found = store.newest(["a", "b"])
        assert {job: (row.key, row.state) for job, (row,) in found.items()} == {
            "a": (occurrence(TEN, "a"), FAILED),
            "b": (occurrence(NINE, "b"), SUCCEEDED),
        }

    def test_a_skipped_or_running_run_has_not_ended(self, store):
        self.know(store, "a")
        carry_out(store, occurrence(NINE, "a"), 1, CANCELLED)
        enter(
            store, skipped(occurrence(TEN, "a")), planned(occurrence(ELEVEN, "a"), RUNNING), gap(NOON, NOON + 9, 3, "a")
        )
        assert store.newest(["a"])["a"][0].key == occurrence(NINE, "a")

    @pytest.mark.parametrize("names", [("r1", "r2"), ("r2", "r1")])
    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_a_retry_is_newer_than_the_run_that_it_repeats(self, store, names, count):
        self.know(store, "a")
        failed, retried = (requested(TEN, "a", name) for name in names)
        carry_out(store, occurrence(NINE, "a"), 1)
        carry_out(store, failed, 1, FAILED)
        carry_out(store, retried, 1, late=MINUTE)
        found = [row.key for row in store.newest(["a"], count)["a"]]
        assert found == [retried, failed, occurrence(NINE, "a")][:count]

    def test_of_two_for_one_instant_it_is_the_one_that_a_page_shows_first(self, store):
        self.know(store, "a")
        for key in (occurrence(NINE, "a"), requested(NINE, "a", "r2"), requested(NINE, "a", "r1")):
            carry_out(store, key, 1)
        assert store.newest(["a"])["a"][0].key == requested(NINE, "a", "r2") == keys(store, RunFilter())[0]

    @pytest.mark.parametrize(("count", "hours"), [(1, [3]), (2, [3, 2]), (3, [3, 2, 1]), (9, [3, 2, 1])])
    def test_the_last_few_come_newest_first(self, store, count, hours):
        self.know(store, "a", "b")
        for hour in (1, 2, 3):
            carry_out(store, occurrence(NINE + hour * HOUR, "a"), 1)
            enter(store, skipped(occurrence(NINE + hour * HOUR + MINUTE, "a")))
        carry_out(store, occurrence(NINE, "b"), 1)
        found = store.newest(["a", "b"], count)
        assert [row.key.scheduled_for for row in found["a"]] == [NINE + hour * HOUR for hour in hours]
        assert [row.key for row in found["b"]] == [occurrence(NINE, "b")]

    def test_skips_are_among_them_if_they_are_asked_for(self, store):
        self.know(store, "a", "b")
        carry_out(store, occurrence(NINE, "a"), 1)
        enter(store, skipped(occurrence(TEN, "a")), planned(occurrence(ELEVEN, "a"), RUNNING))
        enter(store, gap(NOON, NOON + 9, 3, "b"))
        found = store.newest(["a", "b"], 2, with_skips=True)
        assert [row.key for row in found["a"]] == [occurrence(TEN, "a"), occurrence(NINE, "a")]
        assert [(row.key.scheduled_for, row.state) for row in found["b"]] == [(NOON, SKIPPED)]

    def test_a_job_that_never_ran_or_is_not_known_has_none(self, store):
        self.know(store, "a")
        assert store.newest(["a", "nobody"]) == {}
        assert store.newest([]) == {}


class TallyContract:
    """How much there is of what, and when."""

    WINDOW = RunFilter(since=NINE, until=NOON)

    def test_lines_are_counted_by_cell_and_kind(self, store):
        carry_out(store, occurrence(NINE, "a"), 5, late=2 * SECOND)
        carry_out(store, occurrence(NINE + MINUTE, "b"), 7, late=1 * SECOND)
        carry_out(store, occurrence(TEN, "a"), 1, FAILED)
        enter(store, planned(requested(TEN, "a"), RUNNING, Trigger.MANUAL))
        assert store.tally(self.WINDOW, HOUR) == [
            Tally(0, "", SUCCEEDED, Trigger.SCHEDULER, None, 2, 2, 7 * SECOND, 2 * SECOND),
            Tally(1, "", FAILED, Trigger.SCHEDULER, None, 1, 1, SECOND, 0),
            Tally(1, "", RUNNING, Trigger.MANUAL, None, 1, 1, None, None),
        ]

    def test_lines_may_be_counted_by_job(self, store):
        for job in ("a", "b", "b2"):
            carry_out(store, occurrence(NINE, job), 1)
        found = store.tally(RunFilter(job_ids=["a", "b"], since=NINE, until=NOON), HOUR, by_job=True)
        assert [(one.cell, one.job_id, one.lines) for one in found] == [(0, "a", 1), (0, "b", 1)]

    def test_a_gap_counts_all_that_it_skips_where_it_begins(self, store):
        enter(store, gap(TEN, NOON, 120, "a"), skipped(occurrence(NINE, "a"), SkipReason.LATE))
        kinds = [
            (one.cell, one.state, one.reason, one.lines, one.occurrences) for one in store.tally(self.WINDOW, HOUR)
        ]
        assert kinds == [(0, SKIPPED, SkipReason.LATE, 1, 1), (1, SKIPPED, SkipReason.CAP, 1, 120)]

    def test_the_window_is_closed_at_its_start_and_open_at_its_end(self, store):
        enter(store, *(planned(occurrence(at)) for at in (NINE - 1, NINE, NOON - 1, NOON)))
        assert [(one.cell, one.lines) for one in store.tally(self.WINDOW, HOUR)] == [(0, 1), (2, 1)]

    def test_a_gap_that_began_before_is_in_no_cell(self, store):
        enter(store, gap(NINE - HOUR, TEN, 9))
        assert store.tally(self.WINDOW, HOUR) == []

    @pytest.mark.parametrize(
        ("where", "lines"),
        [
            pytest.param(RunFilter(gaps=False, since=NINE, until=NOON), 1, id="without gaps"),
            pytest.param(RunFilter(states=[SKIPPED], since=NINE, until=NOON), 1, id="by state"),
            pytest.param(RunFilter(executors=["local"], since=NINE, until=NOON), 1, id="by executor"),
            pytest.param(RunFilter(executors=["k8s"], since=NINE, until=NOON), 0, id="by another"),
        ],
    )
    def test_a_filter_holds_here_too(self, store, where, lines):
        carry_out(store, occurrence(NINE, "a"), 1)
        enter(store, gap(TEN, NOON, 3, "a"))
        assert sum(one.lines for one in store.tally(where, HOUR)) == lines


class PauseContract:
    """A reader lets the loop of its interpreter go first."""

    def test_a_read_that_pauses_answers_the_same_and_holds_up_no_writer(self, store):
        enter(store, *(planned(occurrence(NINE + number)) for number in range(30)))
        before = keys(store, RunFilter(until=NOON))
        late = iter(range(1_000))
        store.pause_reads_with(lambda: enter(store, planned(occurrence(NOON + next(late))), by=f"node-{next(late)}"))
        assert keys(store, RunFilter(until=NOON)) == before


class ElsewhereContract:
    """What the surfaces rest on, which are other threads than the one that schedules."""

    def test_runs_are_found_by_where_they_ran(self, store):
        carry_out(store, occurrence(NINE), 1, executor="local")
        carry_out(store, occurrence(TEN), 1, executor="fleet/a")
        assert keys(store, RunFilter(executors=["fleet/a"])) == [occurrence(TEN)]

    def test_requests_may_be_submitted_while_another_thread_writes(self, store):
        failures: list[BaseException] = []

        def submit(name):
            try:
                for number in range(20):
                    store.commit(Batch(by=f"{name}-{number}", requests=[asked(f"{name}-{number}")]))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=submit, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for number in range(20):
            enter(store, planned(occurrence(NINE + number)), by=f"node#{number}")
        for thread in threads:
            thread.join(60)
        assert failures == []
        assert len(store.claim(None, 1_000)) == 40
        assert len(keys(store)) == 20

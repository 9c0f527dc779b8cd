"""What every store must do about places in a queue: count and give them in the transaction that takes them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evertick.model.ledger import Claim, JobRecord
from evertick.model.lifecycle import LAUNCHING, PLANNED, RETRYING, RUNNING, SUCCEEDED, WAITING
from evertick.model.run import RunKey
from evertick.store import Batch, Committed
from tests.stores.builders import NINE, SECOND, asked, became, enter, occurrence, planned, row

QUEUED = ["a", "b", "c"]
RUNS = [occurrence(NINE, job) for job in QUEUED]
A, B, C = RUNS


def launch(store, limit: int, *keys: RunKey, jobs: Sequence[str] = QUEUED) -> Committed:
    changes = [became(key, LAUNCHING) for key in keys]
    return store.commit(Batch(by="node-1", changes=changes, claims=[Claim("database", limit, jobs, keys)]))


class ClaimContract:
    @pytest.fixture
    def queue(self, store):
        enter(store, *map(planned, RUNS))
        return store

    def test_as_many_are_launched_as_there_are_places_the_first_first(self, queue):
        assert launch(queue, 2, B, A, C).crowded == {C}
        assert [row(queue, key).state for key in RUNS] == [LAUNCHING, LAUNCHING, PLANNED]

    @pytest.mark.parametrize("state", [LAUNCHING, RUNNING, RETRYING])
    def test_an_open_run_keeps_its_place_whichever_node_started_it(self, queue, state):
        queue.record([became(A, state)])
        assert launch(queue, 1, B).crowded == {B}
        assert row(queue, B).state is PLANNED

    @pytest.mark.parametrize("state", [WAITING, SUCCEEDED])
    def test_a_run_that_waits_or_has_ended_has_no_place(self, queue, state):
        queue.record([became(A, state)])
        assert launch(queue, 1, B).crowded == frozenset()

    def test_a_run_with_a_place_does_not_need_another(self, queue):
        """A retry, or a call that is repeated because its answer was lost."""
        assert launch(queue, 1, A).crowded == frozenset()
        assert launch(queue, 1, A).crowded == frozenset()
        assert launch(queue, 1, A, B).crowded == {B}

    def test_runs_of_other_jobs_do_not_count(self, queue):
        other = occurrence(NINE + SECOND, "other")
        enter(queue, planned(other))
        queue.record([became(other, RUNNING)])
        assert launch(queue, 1, A).crowded == frozenset()

    def test_two_queues_are_counted_each_by_itself(self, queue):
        changes = [became(key, LAUNCHING) for key in (A, B)]
        claims = [Claim("one", 1, ["a"], [A]), Claim("two", 0, ["b"], [B])]
        assert queue.commit(Batch(by="node-1", changes=changes, claims=claims)).crowded == {B}

    def test_the_rest_of_the_batch_is_written_although_one_run_finds_no_place(self, queue):
        later = occurrence(NINE + SECOND, "a")
        batch = Batch(
            by="node-1",
            entries=[planned(later)],
            changes=[became(A, LAUNCHING), became(C, SUCCEEDED)],
            claims=[Claim("database", 0, QUEUED, [A])],
        )
        assert queue.commit(batch).crowded == {A}
        assert row(queue, later).state is PLANNED
        assert row(queue, C).state is SUCCEEDED

    @pytest.mark.parametrize(
        "theirs",
        [
            pytest.param(became(A, SUCCEEDED, fence=1), id="it has ended"),
            pytest.param(became(A, RUNNING, fence=9), id="somebody has a newer fence"),
        ],
    )
    def test_a_launch_that_another_node_overruled_is_refused(self, queue, theirs):
        queue.record([theirs])
        done = queue.commit(Batch(by="node-1", changes=[became(A, LAUNCHING, fence=2), became(B, LAUNCHING, fence=2)]))
        assert done.overruled == {A}
        assert row(queue, A).state is theirs.state

    @pytest.mark.parametrize(
        ("theirs", "submitted"),
        [
            pytest.param(became(A, LAUNCHING, fence=1), {"after a", "for all"}, id="our word is taken"),
            pytest.param(became(A, SUCCEEDED, fence=1), {"for all"}, id="it has ended"),
            pytest.param(became(A, RUNNING, fence=9), {"for all"}, id="somebody has a newer fence"),
        ],
    )
    def test_what_rests_on_a_change_that_is_overruled_is_not_asked_for(self, queue, theirs, submitted):
        queue.record([theirs])
        batch = Batch(
            by="node-1",
            changes=[became(A, SUCCEEDED, fence=2)],
            requests=[asked("after a"), asked("for all")],
            rests_on={"after a": A},
        )
        for _ in range(2):  # its answer may be lost
            queue.commit(batch)
            assert {one.id for one in queue.requests(["after a", "for all"])} == submitted

    def test_a_batch_that_is_repeated_is_not_overruled_by_itself(self, queue):
        batch = Batch(by="node-1", changes=[became(A, WAITING, fence=1), became(A, LAUNCHING, fence=2)])
        assert queue.commit(batch).overruled == queue.commit(batch).overruled == frozenset()

    def test_a_queue_of_many_jobs_is_counted_whole(self, queue):
        many = [f"job-{number}" for number in range(1_200)]
        enter(queue, *(planned(occurrence(NINE, job)) for job in many))
        queue.record([became(occurrence(NINE, job), RUNNING) for job in (many[0], many[-1])])
        assert launch(queue, 3, A, B, jobs=[*QUEUED, *many]).crowded == {B}

    def test_a_place_is_left_to_a_run_of_a_higher_priority_that_waits_for_it(self, queue):
        queue.record([became(B, WAITING)])
        answer = self.ask(queue, 1, A)
        assert (answer.crowded, answer.outranked) == (frozenset({A}), frozenset({A}))
        assert self.ask(queue, 1, B).crowded == frozenset()

    def test_where_there_is_room_for_both_neither_gives_way(self, queue):
        queue.record([became(B, WAITING)])
        assert self.ask(queue, 2, A).crowded == frozenset()

    def test_a_full_queue_is_not_a_reason_to_yield(self, queue):
        queue.record([became(B, WAITING), became(C, RUNNING)])
        answer = self.ask(queue, 1, A)
        assert (answer.crowded, answer.outranked) == (frozenset({A}), frozenset())

    def test_a_run_that_has_given_way_for_long_enough_does_so_no_more(self, queue):
        queue.record([became(B, WAITING)])
        assert self.ask(queue, 1, A, insisting=[A]).crowded == frozenset()

    def test_a_run_that_waits_for_another_of_its_own_job_is_not_given_way_to(self, queue):
        later = occurrence(NINE + SECOND, "b")
        enter(queue, planned(later))
        queue.record([became(B, RUNNING), became(later, WAITING)])
        assert self.ask(queue, 2, A).crowded == frozenset()

    def test_a_run_of_a_job_that_is_held_is_not_given_way_to(self, queue):
        queue.record([became(B, WAITING)])
        queue.commit(Batch(by="node-1", jobs=[JobRecord("b", NINE, held=True)]))
        assert self.ask(queue, 1, A).crowded == frozenset()

    def ask(self, store, limit: int, *keys: RunKey, insisting: Sequence[RunKey] = ()) -> Committed:
        """Launch these, in a queue in which the job `b` has the higher priority."""
        changes = [became(key, LAUNCHING) for key in keys]
        claim = Claim("database", limit, QUEUED, keys, {"b": 5}, insisting)
        return store.commit(Batch(by="node-1", changes=changes, claims=[claim]))

"""What every store must do: `commit`, `record` and `lease`.

Entries are in `contract_entries`, reading in `contract_reads`.

A store plugs in through the fixture `store`, and `reopen`, which closes it and opens it again at the same place.
What the contract leaves open is decided here: a commit applies withdrawals, entries, changes, jobs, rewinds,
floors, schedules, requests, answers, in that order; a rewind sets exactly the watermark it names; the first answer to a
request stands; an entry's `changed_at` begins as its `decided_at`; the lease of bucket 7 is `bucket:7`.
"""

from __future__ import annotations

from typing import Any

import pytest

from evertick.errors import Fenced
from evertick.model.ledger import STORED_JOBS, runs_lease
from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    LOST,
    OPEN,
    PLANNED,
    RUNNING,
    SUCCEEDED,
    TERMINAL,
    WAITING,
    RunState,
    SkipReason,
    Trigger,
)
from evertick.routing.selection import PLACEMENT_TEXT_MAX
from evertick.store import Batch, DefinitionLine, JobRecord, Lease, ScheduleLine, Store, StoredBlackout, StoredJob
from tests.stores.builders import (
    DAY,
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
    job_in,
    keys,
    lease_of,
    occurrence,
    planned,
    requested,
    row,
    rows,
)


def job(store: Store, job_id: str = "report") -> JobRecord:
    (found,) = [record for record in store.load().jobs if record.job_id == job_id]
    return found


def watermark(store: Store, job_id: str = "report") -> int:
    return job(store, job_id).watermark


def take(store: Store, *names: str, holder: str = "node-1", ttl_us: int = DAY, now: int = NINE) -> dict[str, Lease]:
    """Lease these names; answers all living leases by name."""
    leases = store.lease(names, holder, ttl_us, now)
    assert len({lease.name for lease in leases}) == len(leases)
    return {lease.name: lease for lease in leases}


STEPS = '[{"name":"größe","state":"succeeded"}]'


class CommitContract:
    """A commit is one transaction."""

    def everything(self, epoch: int) -> Batch:
        return Batch(
            by="node-1",
            entries=[planned(occurrence(TEN))],
            jobs=[JobRecord("report", TEN), JobRecord("new", TEN)],
            rewinds={"other": NINE},
            withdrawn=[occurrence(NINE, "other")],
            changes=[became(occurrence(NINE), RUNNING)],
            schedules=[ScheduleLine("report", TEN, "[]")],
            definitions=[DefinitionLine("report", "d1", TEN, "name: report\n")],
            stored_jobs=[StoredJob("new", "{}")],
            blackouts=[StoredBlackout("b1", "{}")],
            floors={7: TEN},
            epochs={7: epoch, 8: 1},
            requests=[asked("r2")],
            answers={"r1": "{}"},
        )

    def state(self, store: Store) -> tuple[object, ...]:
        snapshot = store.load()
        return (
            rows(store),
            sorted(snapshot.jobs),
            list(snapshot.open_runs),
            dict(snapshot.floors),
            store.schedules(),
            store.definition("report", "d1"),
            dict(store.stored_jobs()),
            dict(store.blackouts()),
            sorted(store.requests(["r1", "r2"])),
            {name: count for name, count in store.counters().items() if name != STORED_JOBS},  # a repeat counts too
        )

    @pytest.fixture
    def prepared(self, store):
        take(store, lease_of(7), lease_of(8))
        store.commit(
            Batch(
                by="node-1",
                entries=[planned(occurrence(NINE)), planned(occurrence(NINE, "other"))],
                jobs=[JobRecord("report", NINE), JobRecord("other", NOON)],
                floors={7: NINE},
                requests=[asked("r1")],
            )
        )
        return store

    def test_a_commit_writes_all_of_its_parts(self, prepared, reopen):
        assert prepared.commit(self.everything(epoch=1)).refused == frozenset()
        store = reopen()
        assert [(line.key, line.state) for line in rows(store)] == [
            (occurrence(NINE), RUNNING),
            (occurrence(TEN), PLANNED),
        ]
        assert {record.job_id: record.watermark for record in store.load().jobs} == {
            "report": TEN,
            "new": TEN,
            "other": NINE,
        }
        assert store.load().floors == {7: TEN}
        assert store.schedules() == [ScheduleLine("report", TEN, "[]")]
        assert store.definition("report", "d1") == "name: report\n"
        assert {found.id: found.answer for found in store.requests(["r1", "r2"])} == {"r1": "{}", "r2": None}

    @pytest.mark.parametrize("epoch", [pytest.param(0, id="an old epoch"), pytest.param(2, id="one not given out")])
    def test_a_commit_under_another_epoch_is_fenced_and_writes_nothing_at_all(self, prepared, reopen, epoch):
        before = self.state(prepared)
        with pytest.raises(Fenced) as fenced:
            prepared.commit(self.everything(epoch))
        assert fenced.value.buckets == (7,)
        assert self.state(prepared) == before
        assert self.state(reopen()) == before

    def test_a_bucket_that_was_never_leased_has_no_epoch(self, store):
        with pytest.raises(Fenced) as fenced:
            store.commit(Batch(by="node-1", entries=[planned(occurrence())], epochs={9: 1, 3: 1}))
        assert set(fenced.value.buckets) == {3, 9}
        assert rows(store) == []

    def test_an_owner_is_fenced_once_another_node_took_its_lease(self, store):
        take(store, lease_of(7), holder="node-1", ttl_us=1)
        store.commit(Batch(by="node-1", entries=[planned(occurrence(NINE))], epochs={7: 1}))
        take(store, lease_of(7), holder="node-2", now=NINE + SECOND)
        with pytest.raises(Fenced):
            store.commit(Batch(by="node-1", entries=[planned(occurrence(TEN))], epochs={7: 1}))
        store.commit(Batch(by="node-2", entries=[planned(occurrence(ELEVEN))], epochs={7: 2}))
        assert keys(store) == [occurrence(NINE), occurrence(ELEVEN)]

    def test_a_commit_without_epochs_asks_for_none(self, store):
        take(store, lease_of(7))
        assert enter(store, planned(occurrence(job=job_in(7)))) == frozenset()

    def test_a_whole_batch_may_be_repeated(self, prepared):
        batch = self.everything(epoch=1)
        prepared.commit(batch)
        once = self.state(prepared)
        assert prepared.commit(batch).refused == frozenset()
        assert self.state(prepared) == once

    def test_an_empty_batch_is_a_commit(self, store):
        assert store.commit(Batch(by="node-1")).refused == frozenset()
        assert rows(store) == []

    def test_a_refused_entry_does_not_hold_back_the_rest_of_its_batch(self, store):
        enter(store, planned(occurrence()), by="node-1")
        store.commit(
            Batch(by="node-2", entries=[planned(occurrence())], jobs=[JobRecord("report", NINE)], floors={7: NINE})
        )
        assert watermark(store) == NINE
        assert store.load().floors == {7: NINE}

    def test_a_definition_is_kept_under_its_job_and_digest(self, store, reopen):
        told = [DefinitionLine("report", "d1", NINE, "as it was\n"), DefinitionLine("other", "d1", NINE, "another\n")]
        store.commit(Batch(by="node-1", definitions=told, jobs=[JobRecord("report", NINE, definition="d1")]))
        again = reopen()
        assert again.definition("report", "d1") == "as it was\n"
        assert again.definition("other", "d1") == "another\n"
        assert (again.definition("report", "d2"), again.definition("nobody", "d1")) == (None, None)
        assert [record.definition for record in again.load().jobs] == ["d1"]

    def test_a_stored_job_is_kept_replaced_and_removed_and_each_change_is_counted(self, store, reopen):
        store.commit(Batch(by="py", stored_jobs=[StoredJob("report", '{"größe": 1}'), StoredJob("other", "{}")]))
        store.commit(Batch(by="py", stored_jobs=[StoredJob("report", '{"größe": 2}')]))
        store.commit(Batch(by="py", stored_jobs=[StoredJob("other", None), StoredJob("nobody", None)]))
        again = reopen()
        assert again.stored_jobs() == {"report": '{"größe": 2}'}
        assert again.counters()[STORED_JOBS] == 5

    def test_a_blackout_is_kept_replaced_and_removed(self, store, reopen):
        store.commit(Batch(by="cli", blackouts=[StoredBlackout("b1", '{"größe": 1}'), StoredBlackout("b2", "{}")]))
        store.commit(Batch(by="cli", blackouts=[StoredBlackout("b1", '{"größe": 2}'), StoredBlackout("b3", "[]")]))
        store.commit(Batch(by="cli", blackouts=[StoredBlackout("b2", None), StoredBlackout("none", None)]))
        assert store.blackouts() == reopen().blackouts() == {"b1": '{"größe": 2}', "b3": "[]"}

    def test_a_job_is_inserted_and_then_replaced(self, store):
        first = JobRecord("report", NINE, held=True, fingerprint="f1", paused_at=NINE, pause_note="freeze", error="e")
        store.commit(Batch(by="node-1", jobs=[first]))
        assert job(store) == first
        second = JobRecord("report", TEN, fingerprint="f2", retired_at=TEN, last_success_at=NINE, asked_at=NOON)
        second = second._replace(deadlines_through=NINE, late_since=TEN)
        store.commit(Batch(by="node-1", jobs=[second]))
        assert job(store) == second

    def test_a_watermark_only_moves_forward_while_the_rest_is_replaced(self, store):
        store.commit(Batch(by="node-1", jobs=[JobRecord("report", TEN, fingerprint="f1")]))
        store.commit(Batch(by="node-1", jobs=[JobRecord("report", NINE, fingerprint="f2")]))
        assert job(store) == JobRecord("report", TEN, fingerprint="f2")

    @pytest.mark.parametrize(
        ("jobs", "left"),
        [
            pytest.param((), NINE, id="a rewind by itself"),
            pytest.param((JobRecord("report", NOON),), NINE, id="over a record that would move forward"),
            pytest.param((JobRecord("report", NINE),), NINE, id="together with the record"),
        ],
    )
    def test_a_rewind_sets_the_watermark_back(self, store, jobs, left):
        store.commit(Batch(by="node-1", jobs=[JobRecord("report", TEN), JobRecord("other", TEN)]))
        store.commit(Batch(by="node-1", jobs=jobs, rewinds={"report": NINE}))
        assert watermark(store) == left
        assert watermark(store, "other") == TEN

    def test_a_rewind_of_an_unknown_job_changes_nothing(self, store):
        store.commit(Batch(by="node-1", rewinds={"report": NINE}))
        assert list(store.load().jobs) == []

    @pytest.mark.parametrize("state", sorted(set(RunState) - {PLANNED}))
    def test_only_planned_entries_are_withdrawn(self, store, state):
        kept = planned(occurrence(NINE), state, reason=SkipReason.LATE)
        enter(store, kept, planned(occurrence(TEN)), planned(occurrence(ELEVEN)))
        store.commit(Batch(by="node-2", withdrawn=[occurrence(NINE), occurrence(TEN), occurrence(NOON)]))
        assert keys(store) == [occurrence(NINE), occurrence(ELEVEN)]

    def test_a_withdrawn_occurrence_may_be_entered_again_in_the_same_commit(self, store):
        enter(store, planned(occurrence(), detail="old"), by="node-1")
        entry = planned(occurrence(), detail="new")
        outcome = store.commit(Batch(by="node-2", withdrawn=[occurrence()], entries=[entry]))
        assert outcome.refused == frozenset()
        assert (row(store, occurrence()).detail, row(store, occurrence()).decided_by) == ("new", "node-2")

    def test_changes_apply_to_entries_of_the_same_commit_in_order(self, store):
        store.commit(
            Batch(
                by="node-1",
                entries=[planned(occurrence())],
                changes=[
                    became(occurrence(), LAUNCHING, attempt=1),
                    became(occurrence(), RUNNING, started_at=NINE + 1),
                ],
            )
        )
        line = row(store, occurrence())
        assert (line.state, line.attempt, line.started_at) == (RUNNING, 1, NINE + 1)

    def test_a_change_in_a_commit_obeys_the_rules_of_record(self, store):
        enter(store, planned(occurrence(NINE)), planned(occurrence(TEN)))
        store.record([became(occurrence(NINE), SUCCEEDED), became(occurrence(TEN), RUNNING, fence=5)])
        outcome = store.commit(
            Batch(
                by="node-1",
                changes=[
                    became(occurrence(NINE), FAILED),
                    became(occurrence(TEN), LOST, fence=4),
                    became(occurrence(NOON), CANCELLED),
                ],
            )
        )
        assert outcome.refused == frozenset()  # it names entries
        assert [line.state for line in rows(store)] == [SUCCEEDED, RUNNING]

    def test_a_change_to_an_entry_that_was_refused_is_not_applied_to_theirs(self, store):
        enter(store, planned(occurrence()), by="node-1")
        store.commit(Batch(by="node-2", entries=[planned(occurrence())], changes=[became(occurrence(), RUNNING)]))
        assert row(store, occurrence()).state is PLANNED

    def test_a_floor_only_moves_forward(self, store):
        store.commit(Batch(by="node-1", floors={0: TEN, 63: TEN}))
        store.commit(Batch(by="node-1", floors={0: NINE, 63: ELEVEN, 5: NINE}))
        assert store.load().floors == {0: TEN, 5: NINE, 63: ELEVEN}

    def test_a_schedule_line_of_the_same_instant_is_replaced(self, store):
        store.commit(Batch(by="node-1", schedules=[ScheduleLine("report", NINE, "old")]))
        store.commit(
            Batch(by="node-1", schedules=[ScheduleLine("report", TEN, "later"), ScheduleLine("report", NINE, "new")])
        )
        assert list(store.schedules()) == [ScheduleLine("report", NINE, "new"), ScheduleLine("report", TEN, "later")]


class RecordContract:
    """The dead cannot change history."""

    @pytest.fixture
    def run(self, store):
        enter(store, planned(occurrence(), detail="as planned"))
        return occurrence()

    def test_a_change_brings_all_that_is_known(self, store, run, reopen):
        change = became(
            run,
            RUNNING,
            at=NINE + 3,
            fence=4,
            attempt=2,
            trigger=Trigger.CATCHUP,
            executor="local",
            started_at=NINE + 1,
            finished_at=NINE + 2,
            retry_at=NINE + 4,
            exit_code=0,
            detail="going",
            steps=STEPS,
            reason=SkipReason.LATE,
            definition="0123456789abcdef",
            earlier='[{"attempt":1,"state":"failed"}]',
        )
        before = row(store, run)
        assert store.record([change]) == frozenset()
        assert row(reopen(), run) == before._replace(
            state=RUNNING,
            changed_at=NINE + 3,
            fence=4,
            attempt=2,
            trigger=Trigger.CATCHUP,
            executor="local",
            started_at=NINE + 1,
            finished_at=NINE + 2,
            retry_at=NINE + 4,
            exit_code=0,
            detail="going",
            steps=STEPS,
            reason=SkipReason.LATE,
            definition="0123456789abcdef",
            earlier='[{"attempt":1,"state":"failed"}]',
        )

    def test_the_places_of_a_broadcast_are_kept_whole(self, store, run):
        places = "fleet:*" + ",".join(f"member-{number:04}+" for number in range(290))
        assert len(places) < PLACEMENT_TEXT_MAX
        store.record([became(run, RUNNING, executor=places)])
        assert row(store, run).executor == places

    def test_none_leaves_a_value_as_it_is_and_empty_does_not(self, store, run):
        known: dict[str, Any] = {
            "attempt": 1,
            "executor": "local",
            "started_at": NINE,
            "exit_code": 3,
            "retry_at": TEN,
            "steps": STEPS,
        }
        store.record([became(run, RUNNING, fence=2, **known)])
        before = row(store, run)
        store.record([became(run, WAITING, at=TEN, fence=2)])
        assert row(store, run) == before._replace(state=WAITING, changed_at=TEN)
        store.record([became(run, WAITING, at=TEN, fence=2, detail="", exit_code=0, attempt=0)])
        assert row(store, run) == before._replace(state=WAITING, changed_at=TEN, detail="", exit_code=0, attempt=0)

    @pytest.mark.parametrize("ended", sorted(TERMINAL))
    def test_a_run_that_has_ended_is_never_changed(self, store, run, ended):
        store.record([became(run, ended, at=TEN, fence=3, reason=SkipReason.LATE)])
        before = row(store, run)
        for later in RunState:
            assert store.record([became(run, later, at=NOON, fence=4, exit_code=9)]) == {run}
            assert row(store, run) == before

    @pytest.mark.parametrize(
        ("fence", "refused"),
        [pytest.param(4, True, id="older"), pytest.param(5, False, id="same"), pytest.param(6, False, id="newer")],
    )
    def test_a_change_with_an_older_fence_is_refused(self, store, run, fence, refused):
        store.record([became(run, LAUNCHING, fence=5)])
        before = row(store, run)
        assert store.record([became(run, RUNNING, at=TEN, fence=fence)]) == ({run} if refused else frozenset())
        after = before if refused else before._replace(state=RUNNING, changed_at=TEN, fence=fence)
        assert row(store, run) == after

    def test_a_change_to_a_run_that_is_not_there_is_refused(self, store, run):
        strangers = [occurrence(TEN), requested(NINE), occurrence(NINE, "Report")]
        changes = [became(key, RUNNING) for key in [*strangers, run]]
        assert store.record(changes) == frozenset(strangers)
        assert [(line.key, line.state) for line in rows(store)] == [(run, RUNNING)]

    def test_several_changes_to_one_run_apply_in_order(self, store, run):
        assert (
            store.record(
                [
                    became(run, LAUNCHING, fence=1, attempt=1),
                    became(run, RUNNING, fence=1, started_at=NINE + 1),
                    became(run, SUCCEEDED, at=TEN, fence=1, exit_code=0, finished_at=TEN),
                ]
            )
            == frozenset()
        )
        line = row(store, run)
        assert (line.state, line.attempt, line.started_at, line.finished_at) == (SUCCEEDED, 1, NINE + 1, TEN)
        assert store.counters()["ended.succeeded"] == 1

    def test_within_one_call_too_nothing_follows_the_end(self, store, run):
        assert store.record([became(run, FAILED, fence=1), became(run, RUNNING, fence=2)]) == {run}
        assert (row(store, run).state, row(store, run).fence) == (FAILED, 1)

    def test_within_one_call_too_an_old_fence_is_refused(self, store, run):
        assert store.record([became(run, LAUNCHING, fence=2), became(run, RUNNING, fence=1)]) == {run}
        assert (row(store, run).state, row(store, run).fence) == (LAUNCHING, 2)

    @pytest.mark.parametrize("state", sorted(OPEN | TERMINAL))
    def test_a_change_may_be_repeated(self, store, run, state):
        change = became(run, state, at=TEN, fence=2, attempt=1, reason=SkipReason.OVERLAP)
        assert store.record([change]) == frozenset()
        once, counted = row(store, run), dict(store.counters())
        assert store.record([change]) == frozenset()
        assert row(store, run) == once
        assert dict(store.counters()) == counted

    def test_a_whole_life_may_be_repeated(self, store, run):
        life = [
            became(run, LAUNCHING, fence=1),
            became(run, RUNNING, fence=1, started_at=NINE),
            became(run, SUCCEEDED, fence=1, exit_code=0),
        ]
        store.record(life)
        once, counted = row(store, run), dict(store.counters())
        assert store.record(life) == frozenset()
        assert row(store, run) == once
        assert dict(store.counters()) == counted

    @pytest.mark.parametrize(
        "other",
        [pytest.param({"fence": 3}, id="another fence"), pytest.param({"state": CANCELLED}, id="another end")],
    )
    def test_another_end_is_not_a_repeat(self, store, run, other):
        change = became(run, FAILED, fence=2)
        store.record([change])
        assert store.record([change._replace(**other)]) == {run}

    def test_a_refused_change_does_not_hold_back_the_others(self, store):
        wanted = [occurrence(NINE + n * MINUTE) for n in range(5_000)]
        enter(store, *map(planned, wanted))
        ended = wanted[3::500]
        store.record([became(key, LOST) for key in ended])
        assert store.record([became(key, SUCCEEDED, exit_code=0) for key in wanted]) == frozenset(ended)
        assert [line.state for line in rows(store)].count(SUCCEEDED) == 5_000 - len(ended)

    def test_no_changes_is_a_call(self, store):
        assert store.record([]) == frozenset()

    def test_a_gap_has_ended(self, store):
        enter(store, gap(NINE, NOON, 9))
        assert store.record([became(occurrence(NINE), RUNNING)]) == {occurrence(NINE)}


class LeaseContract:
    """Who owns what, and since which epoch. A store may use its own clock, so only huge and tiny times are used."""

    def test_a_free_lease_is_taken(self, store):
        (lease,) = store.lease(["a"], "node-1", DAY, NINE)
        assert (lease.name, lease.holder, lease.epoch) == ("a", "node-1", 1)

    def test_renewal_keeps_the_epoch_and_moves_the_end(self, store):
        first = take(store, "a", ttl_us=HOUR)["a"]
        renewed = take(store, "a", ttl_us=DAY, now=NINE + SECOND)["a"]
        assert (renewed.holder, renewed.epoch) == ("node-1", first.epoch)
        assert renewed.expires_at > first.expires_at

    def test_a_lease_on_runs_is_not_made_shorter_by_renewing_it(self, store):
        """Its keeper was told of the longer one, and may not hear of the other."""
        name = runs_lease("a1", "f00d")
        first = take(store, name, ttl_us=DAY)[name]
        renewed = take(store, name, ttl_us=HOUR, now=NINE + SECOND)[name]
        assert (renewed.epoch, renewed.expires_at) == (first.epoch, first.expires_at)
        assert name not in take(store, name, ttl_us=0, now=NINE + 2 * SECOND)

    def test_a_foreign_lease_is_not_taken_and_is_answered(self, store):
        take(store, "a", holder="node-1")
        leases = take(store, "a", "b", holder="node-2", now=NINE + SECOND)
        assert {name: lease.holder for name, lease in leases.items()} == {"a": "node-1", "b": "node-2"}
        assert leases["a"].epoch == 1

    @pytest.mark.parametrize("holder", [pytest.param("node-2", id="another"), pytest.param("node-1", id="the same")])
    def test_an_expired_lease_is_taken_under_a_new_epoch(self, store, holder):
        take(store, "a", holder="node-1", ttl_us=1)
        lease = take(store, "a", holder=holder, now=NINE + SECOND)["a"]
        assert (lease.holder, lease.epoch) == (holder, 2)

    def test_an_expired_lease_is_not_answered(self, store):
        take(store, "a", ttl_us=1)
        assert set(take(store, "b", now=NINE + SECOND)) == {"b"}

    @pytest.mark.parametrize("holder", [pytest.param("node-2", id="another"), pytest.param("node-1", id="the same")])
    def test_a_lease_given_up_is_free_and_its_epoch_is_over(self, store, holder):
        take(store, "a", "b", holder="node-1")
        assert set(take(store, "a", holder="node-1", ttl_us=0, now=NINE + SECOND)) == {"b"}
        lease = take(store, "a", holder=holder, now=NINE + 2 * SECOND)["a"]
        assert (lease.holder, lease.epoch) == (holder, 2)

    def test_only_the_holder_gives_a_lease_up(self, store):
        take(store, "a", holder="node-1")
        leases = take(store, "a", "never-taken", holder="node-2", ttl_us=0, now=NINE + SECOND)
        assert {name: (lease.holder, lease.epoch) for name, lease in leases.items()} == {"a": ("node-1", 1)}

    def test_naming_nothing_answers_all_that_live(self, store):
        take(store, "a", holder="node-1")
        take(store, "b", holder="node-2")
        assert set(take(store, holder="node-3")) == {"a", "b"}

    def test_epochs_grow_with_every_change_of_hands_and_survive(self, store, reopen):
        for number in range(1, 6):
            take(store, "a", holder=f"node-{number}", ttl_us=1, now=NINE + number * SECOND)
        store = reopen()
        assert take(store, "a", holder="node-6", now=NINE + 6 * SECOND)["a"].epoch == 6

    def test_all_buckets_are_leased_at_once(self, store):
        names = [lease_of(bucket) for bucket in range(64)]
        assert sorted(take(store, *names)) == sorted(names)

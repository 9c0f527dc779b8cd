"""What every store must do about entries: an occurrence is decided once, also across gaps."""

from __future__ import annotations

import pytest

from evertick.errors import GapRefused
from evertick.model.facts import Facts, Parent, Wait, WaitKind, facts_text
from evertick.model.lifecycle import (
    FAILED,
    RUNNING,
    SKIPPED,
    WAITING,
    SkipReason,
    Trigger,
)
from evertick.model.run import LedgerRow
from evertick.store import Batch, JobRecord, ScheduleLine, Store
from tests.stores.builders import (
    ELEVEN,
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
    row,
    rows,
    skipped,
)


def job(store: Store, job_id: str = "report") -> JobRecord:
    (found,) = [record for record in store.load().jobs if record.job_id == job_id]
    return found


class EntryContract:
    """An occurrence is decided once."""

    def test_the_facts_of_a_run_are_kept_until_they_are_replaced(self, store):
        first = facts_text(Facts((Parent("load@2026-03-02T09:00:00Z", "ä step"),)))
        enter(store, planned(occurrence(), facts=first))
        assert row(store, occurrence()).facts == first
        store.record([became(occurrence(), WAITING)])
        assert row(store, occurrence()).facts == first
        then = facts_text(Facts(waits=(Wait(WaitKind.QUEUE, NINE, "db", ("load@2026-03-02T09:00:00Z",)),)))
        store.record([became(occurrence(), RUNNING, facts=then)])
        assert row(store, occurrence()).facts == then

    def test_an_entry_is_read_back_as_it_was_written(self, store):
        entry = planned(requested(), WAITING, Trigger.API, detail="asked by ann", params='{"n": 1}')
        assert enter(store, entry, by="node-1/3") == frozenset()
        assert rows(store) == [
            LedgerRow(
                key=requested(),
                state=WAITING,
                trigger=Trigger.API,
                decided_at=entry.decided_at,
                decided_by="node-1/3",
                detail="asked by ann",
                params='{"n": 1}',
                changed_at=entry.decided_at,
            )
        ]

    def test_a_gap_is_read_back_with_its_stretch(self, store):
        enter(store, gap(NINE, NOON, 181))
        stretch = row(store, occurrence(NINE))
        assert (stretch.state, stretch.reason) == (SKIPPED, SkipReason.CAP)
        assert (stretch.through, stretch.occurrences) == (NOON, 181)

    def test_an_occurrence_that_another_node_decided_is_refused_and_theirs_is_kept(self, store):
        theirs = planned(occurrence(NINE), detail="theirs")
        enter(store, theirs, by="node-1")
        ours = (planned(occurrence(NINE), WAITING, detail="ours"), planned(occurrence(TEN)))
        assert enter(store, *ours, by="node-2") == {occurrence(NINE)}
        assert [(line.key, line.decided_by, line.detail) for line in rows(store)] == [
            (occurrence(NINE), "node-1", "theirs"),
            (occurrence(TEN), "node-2", ""),
        ]

    def test_an_entry_of_ours_may_be_repeated_and_stays_as_it_has_become(self, store):
        enter(store, planned(occurrence()), by="node-1")
        store.record([became(occurrence(), RUNNING, attempt=1)])
        assert enter(store, planned(occurrence()), by="node-1") == frozenset()
        assert row(store, occurrence()).state is RUNNING

    def test_the_next_process_of_a_node_is_another_owner(self, store):
        enter(store, planned(occurrence()), by="node-1/1")
        assert enter(store, planned(occurrence()), by="node-1/2") == {occurrence()}

    def test_a_requested_run_may_share_the_instant_of_an_occurrence_and_of_another_request(self, store):
        wanted = [occurrence(), requested(origin="r1"), requested(origin="r2")]
        assert enter(store, *map(planned, wanted)) == frozenset()
        assert keys(store) == wanted

    def test_a_request_is_entered_once(self, store):
        enter(store, planned(requested()), by="node-1")
        assert enter(store, planned(requested()), by="node-2") == {requested()}

    def test_two_jobs_may_share_an_instant_and_names_differ_by_case(self, store):
        names = ["Report", "report", "répörtÉ", "レポート"]
        assert enter(store, *(planned(occurrence(job=name)) for name in names)) == frozenset()
        assert keys(store) == [occurrence(job=name) for name in names]

    def test_five_thousand_entries_go_in_together_and_only_the_taken_are_refused(self, store):
        wanted = [occurrence(NINE + n * SECOND) for n in range(5_000)]
        theirs = wanted[7::1_000]
        enter(store, *map(planned, theirs), by="node-1")
        assert enter(store, *map(planned, wanted), by="node-2") == frozenset(theirs)
        assert keys(store) == wanted
        assert sum(line.decided_by == "node-1" for line in rows(store)) == len(theirs)

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param('it\'s "quoted" and `ticked`', id="quotes"),
            pytest.param("100% :name %s %(x)s ?", id="what drivers take for parameters"),
            pytest.param("back\\slash \\n and\nnew\r\nlines\ttabs", id="escapes"),
            pytest.param("Grüße, 日本語, עברית", id="scripts"),
            pytest.param("🦄👩‍👩‍👧‍👦", id="emoji"),
            pytest.param(" padded  ", id="spaces at the ends"),
            pytest.param("x" * 10_000, id="long"),
        ],
    )
    def test_text_survives(self, store, reopen, text):
        store.commit(
            Batch(
                by="node-1",
                entries=[planned(occurrence(), detail=text, params=text)],
                jobs=[JobRecord("report", NINE, pause_note=text, error=text)],
                schedules=[ScheduleLine("report", NINE, text)],
                requests=[asked()._replace(payload=text)],
                answers={"r1": text},
            )
        )
        store.record([became(occurrence(), FAILED, detail=text)])
        store = reopen()
        assert (row(store, occurrence()).detail, row(store, occurrence()).params) == (text, text)
        assert (job(store).pause_note, job(store).error) == (text, text)
        assert store.schedules()[0].specs == text
        assert [(found.payload, found.answer) for found in store.requests(["r1"])] == [(text, text)]

    @pytest.mark.parametrize(
        "instant",
        [
            pytest.param(0, id="1970"),
            pytest.param(1, id="a microsecond after the epoch"),
            pytest.param(NINE + 123_456, id="within a second"),
            pytest.param(2**31 * SECOND, id="2038"),
            pytest.param(7_258_118_399_999_999, id="the last of 2199"),
        ],
    )
    def test_instants_survive_to_the_microsecond(self, store, reopen, instant):
        key = occurrence(instant)
        store.commit(
            Batch(
                by="node-1",
                entries=[planned(key)._replace(decided_at=instant)],
                jobs=[JobRecord("report", instant, paused_at=instant, retired_at=instant, last_success_at=instant)],
                floors={63: instant},
            )
        )
        store.record([became(key, RUNNING, started_at=instant, finished_at=instant, retry_at=instant)])
        store = reopen()
        line = row(store, key)
        assert [line.decided_at, line.started_at, line.finished_at, line.retry_at, line.changed_at] == [instant] * 5
        found = job(store)
        assert (found.watermark, found.paused_at, found.retired_at, found.last_success_at) == (instant,) * 4
        assert store.load().floors == {63: instant}


class GapContract:
    """No occurrence is decided twice, also not across gaps."""

    @pytest.mark.parametrize(
        ("at", "refused"),
        [
            pytest.param(NINE - 1, False, id="just before it"),
            pytest.param(NINE, True, id="its first"),
            pytest.param(TEN, True, id="within it"),
            pytest.param(ELEVEN, True, id="its last"),
            pytest.param(ELEVEN + 1, False, id="just after it"),
        ],
    )
    @pytest.mark.parametrize("by", ["node-1", "node-2"])
    def test_an_occurrence_inside_a_gap_is_refused(self, store, at, refused, by):
        enter(store, gap(NINE, ELEVEN, 121), by="node-0")
        assert enter(store, planned(occurrence(at)), by=by) == ({occurrence(at)} if refused else frozenset())
        assert len(rows(store)) == (1 if refused else 2)
        assert row(store, occurrence(NINE)).occurrences == 121

    @pytest.mark.parametrize(
        ("at", "refused"),
        [
            pytest.param(NINE - 1, False, id="just before it"),
            pytest.param(NINE, True, id="at its first"),
            pytest.param(TEN, True, id="within it"),
            pytest.param(ELEVEN, True, id="at its last"),
            pytest.param(ELEVEN + 1, False, id="just after it"),
        ],
    )
    def test_a_gap_over_a_decided_occurrence_is_refused(self, store, at, refused):
        enter(store, planned(occurrence(at)), by="node-0")
        assert gaps_refused(store, gap(NINE, ELEVEN, 121)) == ({occurrence(NINE)} if refused else set())
        assert len(rows(store)) == (1 if refused else 2)

    @pytest.mark.parametrize(
        ("first", "last", "refused"),
        [
            pytest.param(NINE, TEN - 1, False, id="before"),
            pytest.param(NINE, TEN, True, id="reaches in"),
            pytest.param(TEN + 1, ELEVEN - 1, True, id="inside"),
            pytest.param(NINE, NOON, True, id="around"),
            pytest.param(ELEVEN, NOON, True, id="begins inside"),
            pytest.param(ELEVEN + 1, NOON, False, id="after"),
        ],
    )
    def test_gaps_do_not_overlap(self, store, first, last, refused):
        enter(store, gap(TEN, ELEVEN, 61), by="node-0")
        assert gaps_refused(store, gap(first, last, 5)) == ({occurrence(first)} if refused else set())
        assert len(rows(store)) == (1 if refused else 2)

    def test_our_own_decision_at_another_instant_is_refused_too(self, store):
        enter(store, planned(occurrence(TEN)), by="node-1")
        assert gaps_refused(store, gap(NINE, ELEVEN, 121)) == {occurrence(NINE)}

    def test_our_own_gap_may_be_repeated(self, store):
        enter(store, gap(NINE, ELEVEN, 121), by="node-1")
        assert enter(store, gap(NINE, ELEVEN, 121), by="node-1") == frozenset()
        assert store.counters()["skipped.cap"] == 121

    def test_gaps_of_other_jobs_and_requested_runs_are_not_in_the_way(self, store):
        enter(store, gap(NINE, ELEVEN, 121), gap(TEN, NOON, 121, job="other"), planned(requested(TEN, "third")))
        wanted = [planned(requested(TEN)), gap(NINE, NOON, 181, job="third")]
        assert enter(store, *wanted, by="node-2") == frozenset()

    def test_a_gap_may_replace_what_is_withdrawn_in_the_same_commit(self, store):
        enter(store, *map(planned, [occurrence(NINE), occurrence(TEN)]), by="node-1")
        outcome = store.commit(
            Batch(by="node-2", withdrawn=[occurrence(NINE), occurrence(TEN)], entries=[gap(NINE, TEN, 2)])
        )
        assert outcome.refused == frozenset()
        assert [(line.key, line.through) for line in rows(store)] == [(occurrence(NINE), TEN)]

    def test_a_batch_with_a_refused_gap_writes_nothing_because_its_watermark_would_not_be_true(self, store):
        enter(store, planned(occurrence(TEN)), by="node-0")
        batch = [gap(NINE, ELEVEN, 121), planned(occurrence(NOON)), gap(NINE, ELEVEN, 121, job="other")]
        withdrawn = [occurrence(TEN, "third")]
        enter(store, planned(occurrence(TEN, "third")), by="node-0")
        with pytest.raises(GapRefused) as refused:
            store.commit(Batch(by="node-1", entries=batch, withdrawn=withdrawn, floors={3: NOON}))
        assert refused.value.keys == {occurrence(NINE)}
        assert set(keys(store)) == {occurrence(TEN), occurrence(TEN, "third")}
        assert store.load().floors == {}


def gaps_refused(store, *entries):
    """The gaps for which a batch was refused as a whole."""
    try:
        store.commit(Batch(by="node-1", entries=entries))
    except GapRefused as refused:
        return set(refused.keys)
    return set()


class SkipContract:
    """What is not run is accounted for."""

    def test_a_skip_keeps_its_reason(self, store):
        enter(store, *(skipped(occurrence(NINE + n), reason) for n, reason in enumerate(SkipReason)))
        assert [line.reason for line in rows(store)] == list(SkipReason)

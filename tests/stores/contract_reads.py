"""What every store must do about reading: `load`, `query`, `claim`, `schedules`, `counters`, and `compact`."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import product

import pytest

from evertick.model.lifecycle import (
    CANCELLED,
    FAILED,
    LAUNCHING,
    LOST,
    OPEN,
    PLANNED,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    TERMINAL,
    RunState,
    SkipReason,
    Trigger,
)
from evertick.model.run import RunKey
from evertick.store import Batch, DefinitionLine, JobRecord, RequestKind, RunFilter, ScheduleLine, Store
from tests.stores.builders import (
    DAY,
    ELEVEN,
    EVERYTHING,
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
    occurrence,
    planned,
    requested,
    rows,
    skipped,
)


class LoadContract:
    """All that a node needs to own buckets, and nothing of the others."""

    def test_an_empty_ledger_says_so(self, store):
        snapshot = store.load()
        assert (list(snapshot.jobs), list(snapshot.open_runs), dict(snapshot.floors)) == ([], [], {})
        assert list(snapshot.notices) == []

    def test_open_runs_are_those_that_have_not_ended(self, store):
        for number, state in enumerate(RunState):
            enter(store, planned(occurrence(NINE + number), state, reason=SkipReason.LATE))
        open_runs = store.load().open_runs
        assert [line.state for line in open_runs] == [state for state in RunState if state in OPEN]
        assert list(open_runs) == rows(store, RunFilter(states=OPEN, oldest_first=True))

    @pytest.mark.parametrize("ended", sorted(TERMINAL))
    def test_a_run_is_open_until_it_ends(self, store, ended):
        enter(store, planned(occurrence(NINE)), planned(occurrence(TEN)))
        store.record([became(occurrence(NINE), RUNNING)])
        assert [line.key for line in store.load().open_runs] == [occurrence(NINE), occurrence(TEN)]
        store.record([became(occurrence(NINE), ended, reason=SkipReason.LATE)])
        assert [line.key for line in store.load().open_runs] == [occurrence(TEN)]

    def test_open_runs_come_oldest_first_whatever_their_job(self, store):
        wanted = [
            occurrence(NINE, "z"),
            requested(NINE, "z", "r1"),
            occurrence(TEN, "B"),
            occurrence(TEN, "a"),
            occurrence(ELEVEN, "a"),
        ]
        enter(store, *map(planned, reversed(wanted)))
        assert [line.key for line in store.load().open_runs] == wanted

    @pytest.mark.parametrize(
        ("asked_for", "found"),
        [
            pytest.param(None, {3, 4, 5}, id="none is all"),
            pytest.param([], set(), id="nothing"),
            pytest.param([4], {4}, id="one"),
            pytest.param({3, 5, 60}, {3, 5}, id="some"),
            pytest.param(range(64), {3, 4, 5}, id="each"),
        ],
    )
    def test_buckets_bound_what_is_loaded(self, store, asked_for, found):
        for bucket in (3, 4, 5):
            name = job_in(bucket)
            entries = [planned(occurrence(NINE, name)), planned(requested(TEN, name))]
            store.commit(
                Batch(by="node-1", entries=entries, jobs=[JobRecord(name, NINE)], floors={bucket: NINE + bucket})
            )
        snapshot = store.load(asked_for)
        names = {job_in(bucket) for bucket in found}
        assert {record.job_id for record in snapshot.jobs} == names
        assert {line.key.job_id for line in snapshot.open_runs} == names
        assert len(snapshot.open_runs) == 2 * len(names)
        assert snapshot.floors == {bucket: NINE + bucket for bucket in found}

    def test_a_retired_job_is_loaded_too(self, store):
        store.commit(Batch(by="node-1", jobs=[JobRecord("report", NINE, retired_at=TEN)]))
        assert list(store.load().jobs) == [JobRecord("report", NINE, retired_at=TEN)]

    def test_all_of_it_is_there_after_the_store_was_closed_and_opened(self, store, reopen):
        store.commit(
            Batch(
                by="node-1",
                entries=[planned(occurrence(NINE)), gap(TEN, NOON, 3), planned(requested(NINE))],
                jobs=[JobRecord("report", NINE, fingerprint="f")],
                floors={4: NINE},
                schedules=[ScheduleLine("report", NINE, "[]")],
                requests=[asked()],
            )
        )
        store.record([became(occurrence(NINE), LAUNCHING, fence=9, attempt=1)])
        snapshot, lines, counters = store.load(), rows(store), dict(store.counters())
        again = reopen()
        assert (list(again.load().jobs), list(again.load().open_runs)) == (
            list(snapshot.jobs),
            list(snapshot.open_runs),
        )
        assert (rows(again), dict(again.counters())) == (lines, counters)
        assert list(again.claim(None, 10)) == [asked()]


def pages(store: Store, where: RunFilter, limit: int) -> list[list[RunKey]]:
    found, after = [], None
    while True:
        page = store.query(where, after, limit)
        found.append([line.key for line in page.rows])
        if page.after is None:
            return found
        after = page.after


def flat(found: list[list[RunKey]]) -> list[RunKey]:
    return [key for page in found for key in page]


class QueryContract:
    """The ledger, page by page."""

    LINES = (
        planned(occurrence(NINE, "a"), RUNNING),
        skipped(occurrence(NINE, "b"), SkipReason.OVERLAP),
        planned(requested(NINE, "b"), SUCCEEDED, Trigger.MANUAL),
        gap(TEN, NOON, 5, job="a"),
        planned(occurrence(TEN, "b"), FAILED, Trigger.CATCHUP),
        planned(occurrence(ELEVEN, "c")),
        skipped(occurrence(NOON, "c"), SkipReason.LATE),
    )

    @pytest.mark.parametrize(
        ("where", "found"),
        [
            pytest.param(RunFilter(), [0, 1, 2, 3, 4, 5, 6], id="no bound"),
            pytest.param(RunFilter(job_ids=["a"]), [0, 3], id="a job"),
            pytest.param(RunFilter(job_ids={"a", "c"}), [0, 3, 5, 6], id="two jobs"),
            pytest.param(RunFilter(job_ids=["A"]), [], id="a job nobody has"),
            pytest.param(RunFilter(states=[FAILED, RUNNING]), [0, 4], id="states"),
            pytest.param(RunFilter(triggers=[Trigger.MANUAL, Trigger.CATCHUP]), [2, 4], id="triggers"),
            pytest.param(RunFilter(reasons=[SkipReason.OVERLAP]), [1], id="a reason"),
            pytest.param(RunFilter(reasons=[SkipReason.CAP, SkipReason.LATE]), [3, 6], id="reasons"),
            pytest.param(RunFilter(since=TEN), [3, 4, 5, 6], id="since an instant, itself included"),
            pytest.param(RunFilter(since=TEN + 1), [3, 5, 6], id="a gap that reaches past the bound"),
            pytest.param(RunFilter(since=NOON), [3, 6], id="a gap that ends on the bound"),
            pytest.param(RunFilter(since=NOON + 1), [], id="after all"),
            pytest.param(RunFilter(until=TEN), [0, 1, 2], id="until an instant, itself left out"),
            pytest.param(RunFilter(until=TEN + 1), [0, 1, 2, 3, 4], id="until just after it"),
            pytest.param(RunFilter(since=TEN, until=ELEVEN), [3, 4], id="between"),
            pytest.param(RunFilter(occurrences_only=True), [0, 1, 3, 4, 5, 6], id="without requested runs"),
            pytest.param(RunFilter(gaps=True), [3], id="only gaps"),
            pytest.param(RunFilter(gaps=True, since=TEN + 1), [3], id="only gaps, one that reaches past the bound"),
            pytest.param(RunFilter(gaps=True, since=NOON + 1), [], id="only gaps, after all"),
            pytest.param(RunFilter(gaps=False), [0, 1, 2, 4, 5, 6], id="without gaps"),
            pytest.param(RunFilter(gaps=False, since=TEN + 1), [5, 6], id="without gaps, since an instant"),
            pytest.param(
                RunFilter(["b"], [SKIPPED, FAILED], [Trigger.CATCHUP], since=NINE, until=NOON), [4], id="all at once"
            ),
        ],
    )
    def test_a_filter_finds(self, store, where, found):
        enter(store, *self.LINES)
        wanted = [self.LINES[number].key for number in found]
        for oldest_first in (True, False):
            where = replace(where, oldest_first=oldest_first)
            in_order = wanted if oldest_first else wanted[::-1]
            assert keys(store, where) == in_order
            assert flat(pages(store, where, 2)) == in_order

    def test_order_is_by_instant_then_job_then_origin_as_bytes_compare(self, store):
        wanted = [
            RunKey(job, at, origin)
            for at, job, origin in product([NINE, TEN], ["B", "a", "a-b", "ab", "é", "日"], ["", "R", "r", "ü"])
        ]
        enter(store, *map(planned, reversed(wanted)))
        assert keys(store) == wanted
        assert keys(store, RunFilter()) == wanted[::-1]
        for limit in (1, 5, 47, 48, 49):
            assert flat(pages(store, RunFilter(), limit)) == wanted[::-1]
            assert flat(pages(store, EVERYTHING, limit)) == wanted

    @pytest.mark.parametrize(
        ("limit", "sizes"),
        [
            pytest.param(1, [1] * 6, id="one by one"),
            pytest.param(3, [3, 3], id="pages that end exactly"),
            pytest.param(4, [4, 2], id="a short last page"),
            pytest.param(6, [6], id="all in one"),
            pytest.param(7, [6], id="more than there is"),
        ],
    )
    def test_the_last_page_is_marked_as_the_last(self, store, limit, sizes):
        enter(store, *(planned(occurrence(NINE + n)) for n in range(6)))
        assert [len(page) for page in pages(store, RunFilter(), limit)] == sizes

    def test_an_empty_answer_is_the_last_page(self, store):
        page = store.query(RunFilter())
        assert (list(page.rows), page.after) == ([], None)

    def test_pages_are_stable_while_lines_arrive_and_go(self, store):
        old = [occurrence(NINE + n * MINUTE) for n in range(6)]
        enter(store, *map(planned, old))
        first = store.query(RunFilter(), limit=3)
        store.commit(Batch(by="node-1", entries=[planned(occurrence(NOON))], withdrawn=[old[3]]))
        second = store.query(RunFilter(), first.after, limit=3)
        assert [line.key for line in [*first.rows, *second.rows]] == old[::-1]

    def test_a_page_may_begin_after_a_removed_line(self, store):
        enter(store, *(planned(occurrence(NINE + n)) for n in (0, 2)))
        page = store.query(RunFilter(), after=RunKey("report", NINE + 1), limit=10)
        assert [line.key for line in page.rows] == [occurrence(NINE)]

    def test_a_filter_by_state_sees_what_runs_have_become(self, store):
        enter(store, planned(occurrence(NINE)), planned(occurrence(TEN)))
        store.record([became(occurrence(NINE), SUCCEEDED)])
        assert keys(store, RunFilter(states=[SUCCEEDED])) == [occurrence(NINE)]
        assert keys(store, RunFilter(states=[PLANNED])) == [occurrence(TEN)]

    def test_other_threads_read_whole_commits_while_one_writes(self, store):
        commits, size = 40, 25
        torn: list[int] = []
        failures: list[BaseException] = []
        begun = threading.Barrier(3)
        done = threading.Event()

        def read() -> None:
            try:
                begun.wait()
                while True:
                    last_look = done.is_set()
                    seen = len(store.query(RunFilter(), limit=commits * size).rows)
                    if seen % size:
                        torn.append(seen)
                    if last_look:
                        assert seen == commits * size
                        return
            except BaseException as failure:
                failures.append(failure)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        begun.wait()
        try:
            for number in range(commits):
                start = NINE + number * HOUR
                enter(store, *(planned(occurrence(start + n * SECOND)) for n in range(size)))
        finally:
            done.set()
            for reader in readers:
                reader.join()
        assert failures == []
        assert torn == []


class RequestContract:
    """What people ask for, from any process."""

    def test_a_request_is_claimed_until_it_is_answered(self, store, reopen):
        store.commit(Batch(by="cli", requests=[asked()]))
        assert list(store.claim(None, 10)) == [asked()]
        store = reopen()
        assert list(store.claim(None, 10)) == [asked()]
        store.commit(Batch(by="node-1", answers={"r1": '{"run": "x"}'}))
        assert list(store.claim(None, 10)) == []
        assert list(store.requests(["r1"])) == [asked()._replace(answer='{"run": "x"}')]

    def test_the_oldest_are_claimed_first(self, store):
        order = [asked("b", at=NINE), asked("c", at=NINE), asked("a", at=TEN), asked("d", at=ELEVEN)]
        store.commit(Batch(by="cli", requests=order[::-1]))
        assert list(store.claim(None, 10)) == order
        assert list(store.claim(None, 3)) == order[:3]
        store.commit(Batch(by="node-1", answers={"b": "{}"}))
        assert list(store.claim(None, 2)) == order[1:3]

    @pytest.mark.parametrize(
        ("buckets", "found"),
        [
            pytest.param([], [], id="nothing"),
            pytest.param([4], ["r4"], id="one"),
            pytest.param([3, 5, 60], ["r3", "r5"], id="some"),
            pytest.param(None, ["r3", "r4", "r5"], id="none is all"),
        ],
    )
    def test_buckets_bound_what_is_claimed(self, store, buckets, found):
        store.commit(Batch(by="cli", requests=[asked(f"r{bucket}", job_in(bucket)) for bucket in (3, 4, 5)]))
        assert [request.id for request in store.claim(buckets, 10)] == found

    def test_a_request_that_is_there_already_is_left_as_it_is(self, store):
        store.commit(Batch(by="cli", requests=[asked()]))
        store.commit(Batch(by="node-1", answers={"r1": "done"}))
        store.commit(Batch(by="cli", requests=[asked(at=NOON)._replace(payload="other")]))
        assert list(store.requests(["r1"])) == [asked()._replace(answer="done")]
        assert list(store.claim(None, 10)) == []

    def test_a_request_may_be_submitted_and_answered_in_one_commit(self, store):
        store.commit(Batch(by="cli", requests=[asked()], answers={"r1": "done"}))
        assert list(store.requests(["r1"])) == [asked()._replace(answer="done")]

    def test_the_first_answer_is_kept(self, store):
        store.commit(Batch(by="cli", requests=[asked()]))
        for answer in ("first", "second"):
            store.commit(Batch(by="node-1", answers={"r1": answer}))
        assert store.requests(["r1"])[0].answer == "first"

    def test_an_answer_to_an_unknown_request_changes_nothing(self, store):
        store.commit(Batch(by="node-1", answers={"r9": "{}"}))
        assert list(store.requests(["r9"])) == []

    def test_requests_of_every_kind_are_found_by_id(self, store):
        store.commit(Batch(by="cli", requests=[asked(f"a {kind}", kind=kind) for kind in RequestKind]))
        wanted = {f"a {kind}": kind for kind in list(RequestKind)[1:]}
        assert {found.id: found.kind for found in store.requests([*wanted, "nobody's"])} == wanted
        assert list(store.requests([])) == []


class ScheduleContract:
    """Which schedules a job had, and from when on."""

    def test_lines_come_by_job_and_time(self, store):
        wanted = [ScheduleLine(job, at, f"{job}{at}") for job, at in product(["B", "a", "c"], [NINE, TEN])]
        store.commit(Batch(by="node-1", schedules=wanted[::-1]))
        assert list(store.schedules()) == wanted
        assert list(store.schedules(["c", "B", "nobody"])) == [line for line in wanted if line.job_id != "a"]
        assert list(store.schedules([])) == []


class CompactContract:
    """What is old and ended may go; what is counted stays counted."""

    @pytest.fixture
    def history(self, store):
        """Four hours of two jobs; the run of `a` at nine has not ended."""
        entries = [planned(occurrence(at, job), SUCCEEDED) for at in (NINE, TEN, ELEVEN, NOON) for job in "ab"]
        enter(store, planned(occurrence(NINE, "a"), RUNNING), *entries[1:])
        return store

    @pytest.mark.parametrize(
        ("before", "default", "left"),
        [
            pytest.param({}, None, "a9 b9 a10 b10 a11 b11 a12 b12", id="no bound removes nothing"),
            pytest.param({}, ELEVEN, "a9 a11 b11 a12 b12", id="a default bound, itself kept"),
            pytest.param({"a": NOON}, None, "a9 b9 b10 b11 a12 b12", id="a bound of one job"),
            pytest.param({"a": NINE}, NOON, "a9 a10 a11 a12 b12", id="a job's own bound goes before the default"),
            pytest.param({"nobody": NOON}, None, "a9 b9 a10 b10 a11 b11 a12 b12", id="a job nobody has"),
            pytest.param({}, NOON + DAY, "a9", id="a run that has not ended stays"),
        ],
    )
    def test_ended_lines_older_than_the_bound_go(self, history, before, default, left):
        hours = {NINE: 9, TEN: 10, ELEVEN: 11, NOON: 12}
        removed = history.compact(before, default, limit=100)
        assert " ".join(f"{key.job_id}{hours[key.scheduled_for]}" for key in keys(history)) == left
        assert removed == 8 - len(left.split())
        assert history.compact(before, default, limit=100) == 0

    def test_at_most_the_limit_goes_oldest_first(self, history):
        assert history.compact({}, NOON, limit=3) == 3
        assert keys(history)[:2] == [occurrence(NINE, "a"), occurrence(ELEVEN, "a")]
        assert history.compact({}, NOON, limit=3) == 2

    def test_a_gap_is_as_old_as_its_end(self, store):
        enter(store, gap(NINE, TEN, 60), gap(TEN + 1, NOON, 60))
        assert store.compact({}, ELEVEN, limit=10) == 1
        assert keys(store) == [occurrence(TEN + 1)]

    @pytest.mark.parametrize(
        ("bound", "left"),
        [
            pytest.param(TEN, "old new", id="what was in force at the bound stays"),
            pytest.param(ELEVEN, "new", id="what was replaced before it goes"),
            pytest.param(NOON + 1, "new", id="what is in force now stays at any age"),
        ],
    )
    def test_definitions_go_with_the_runs_that_name_them(self, history, bound, left):
        told = [DefinitionLine("b", name, since, name) for name, since in (("old", NINE), ("new", ELEVEN))]
        history.commit(Batch(by="node-1", definitions=told, jobs=[JobRecord("b", NOON, definition="new")]))
        history.compact({}, bound, limit=100)
        assert " ".join(name for name in ("old", "new") if history.definition("b", name)) == left

    def test_a_definition_that_is_back_is_as_young_as_its_return(self, history):
        told = [("a", NINE), ("b", TEN), ("a", ELEVEN)]
        for digest, since in told:
            history.commit(Batch(by="node-1", definitions=[DefinitionLine("b", digest, since, digest)]))
        history.compact({}, TEN + 1, limit=100)
        assert [history.definition("b", digest) for digest in "ab"] == ["a", "b"]

    def test_what_is_in_force_stays_also_where_a_clock_was_set_back(self, history):
        told = [DefinitionLine("b", "new", NINE, "new"), DefinitionLine("b", "old", TEN, "old")]
        history.commit(Batch(by="node-1", definitions=told, jobs=[JobRecord("b", NOON, definition="new")]))
        history.compact({}, NOON, limit=100)
        assert history.definition("b", "new") == "new"

    def test_counters_remember_what_was_removed(self, history):
        before = dict(history.counters())
        history.compact({}, NOON + 1, limit=100)
        assert dict(history.counters()) == before

    def test_schedule_lines_move_up_with_what_was_removed(self, store, reopen):
        enter(store, *(planned(occurrence(at, job), SUCCEEDED) for at in (NINE, TEN, ELEVEN, NOON) for job in "ab"))
        lines = [ScheduleLine(job, at, f"since {at}") for job in "ab" for at in (NINE - DAY, NINE, TEN, NOON)]
        store.commit(Batch(by="node-1", schedules=lines))
        store.compact({"a": ELEVEN}, None, limit=100)
        moved = [ScheduleLine("a", ELEVEN, f"since {TEN}"), ScheduleLine("a", NOON, f"since {NOON}")]
        assert list(reopen().schedules()) == [*moved, *lines[4:]]

    def test_a_schedule_line_on_the_bound_takes_over(self, store):
        enter(store, planned(occurrence(NINE), SUCCEEDED))
        lines = [ScheduleLine("report", NINE, "old"), ScheduleLine("report", TEN, "new")]
        store.commit(Batch(by="node-1", schedules=lines))
        store.compact({}, TEN, limit=100)
        assert list(store.schedules()) == [ScheduleLine("report", TEN, "new")]

    def test_schedule_lines_never_move_back(self, store):
        enter(store, planned(occurrence(NINE), SUCCEEDED))
        store.commit(Batch(by="node-1", schedules=[ScheduleLine("report", NOON, "[]")]))
        store.compact({}, TEN, limit=100)
        assert list(store.schedules()) == [ScheduleLine("report", NOON, "[]")]

    def test_a_removed_occurrence_may_be_entered_again(self, history):
        history.compact({}, NOON + 1, limit=100)
        assert enter(history, planned(occurrence(TEN, "a")), by="node-9") == frozenset()
        assert keys(history) == [occurrence(NINE, "a"), occurrence(TEN, "a")]


class CounterContract:
    """How many lines were ever written, by outcome."""

    def test_an_empty_ledger_counts_nothing(self, store):
        assert not any(store.counters().values())

    def test_lines_are_counted_as_they_are_entered_and_as_they_end(self, store, reopen):
        enter(store, planned(occurrence(NINE)), planned(occurrence(TEN), trigger=Trigger.CATCHUP))
        enter(store, planned(requested(NINE), trigger=Trigger.API), skipped(occurrence(ELEVEN), SkipReason.LATE))
        enter(store, gap(NOON, NOON + HOUR, 61))
        store.record([became(occurrence(NINE), LAUNCHING), became(occurrence(NINE), SUCCEEDED)])
        store.record([became(occurrence(TEN), SKIPPED, reason=SkipReason.OVERLAP)])
        store.commit(Batch(by="node-1", changes=[became(requested(NINE), CANCELLED)]))
        counters = {name: count for name, count in reopen().counters().items() if count}
        skips = {name: count for name, count in counters.items() if name.startswith("skipped.")}
        entries = {name: count for name, count in counters.items() if name.startswith("entries.")}
        assert entries == {"entries.scheduler": 3, "entries.catchup": 1, "entries.api": 1}
        assert skips == {"skipped.late": 1, "skipped.cap": 61, "skipped.overlap": 1}
        assert (counters["ended.succeeded"], counters["ended.cancelled"]) == (1, 1)

    def test_a_line_entered_in_its_last_state_has_ended(self, store):
        enter(store, planned(occurrence(), LOST))
        assert store.counters()["ended.lost"] == 1

    def test_refused_and_repeated_lines_are_not_counted(self, store):
        for by in ("node-1", "node-1", "node-2"):
            enter(store, planned(occurrence(NINE)), skipped(occurrence(TEN)), by=by)
        store.record([became(occurrence(NINE), FAILED, fence=2)])
        store.record([became(occurrence(NINE), SUCCEEDED, fence=3), became(occurrence(NOON), FAILED)])
        counters = {name: count for name, count in store.counters().items() if count}
        assert (counters["entries.scheduler"], counters["skipped.missed"], counters["ended.failed"]) == (2, 1, 1)
        assert "ended.succeeded" not in counters

    def test_a_withdrawn_line_was_written_all_the_same(self, store):
        enter(store, planned(occurrence()))
        store.commit(Batch(by="node-1", withdrawn=[occurrence()]))
        assert store.counters()["entries.scheduler"] == 1
